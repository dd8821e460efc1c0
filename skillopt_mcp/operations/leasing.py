"""Leasing: what of a run or a promotion test is in the hands of a host, and until when."""

from __future__ import annotations

from datetime import UTC, datetime

from skillopt_mcp.operations.workspace import Workspace


def told_leases(workspace: Workspace, scope: str) -> str:
    """Return how much work of a scope is out and until when, or that it is overdue; empty when none is waited for.

    Told in points in time, not as what is left: a text that is read page by page must stay what it is.
    """
    waited_for = workspace.store.leases.unanswered_of(scope)
    if not waited_for:
        return ""
    now = workspace.clock()
    out = [lease.expires_at for lease in waited_for if lease.expires_at > now]
    if out:
        many = "1 piece of work is" if len(out) == 1 else f"{len(out)} pieces of work are"
        return f"{many} out until {_minute(max(out))}, and handed out again after that"
    overdue = _minute(max(lease.expires_at for lease in waited_for))
    return f"work was out until {overdue} and did not come back: whoever asks for work gets it anew"


def _minute(at: float) -> str:
    """Return a point in time, in seconds since 1970, in words."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
