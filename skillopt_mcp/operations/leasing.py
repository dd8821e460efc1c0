"""Leasing: what of a run or a promotion test is in the hands of a host, and until when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store.leases import Lease
from skillopt_mcp.store.opening import Store


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
        return f"{many} out until {_minute_after(max(out))}, and handed out again after that or once its server ends"
    overdue = _minute(max(lease.expires_at for lease in waited_for))
    return f"work was out until {overdue} and did not come back: whoever asks for work gets it anew"


def told_items(workspace: Workspace, scope: str) -> list[str]:
    """Return, a line each, the work of a scope that the caller's own session has out, and how it ends; or nothing.

    The id of work is known to whoever took it alone: of other sessions' work, `told_leases` says how much there is.
    """
    out = own_leases(workspace, scope)
    if not out:
        return []
    return [
        f"this session has out, each in the folder of its name below {workspace.workplaces.root}:",
        *(f"  {each.id} since {_minute(each.taken_at)}, until {_minute_after(each.expires_at)}" for each in out),
        "  submit_work takes replies: [{work_id}] for the answer.md in its folder, or {work_id, reply}; {work_id, "
        "failed: why} for what an agent gave up. What was cut off is handed out again by itself",
    ]


def own_leases(workspace: Workspace, scope: str) -> list[Lease]:
    """Return what of a scope the caller's own session has out, in time or overdue, in the order in which it took it."""
    out = [lease for lease in workspace.store.leases.unanswered_of(scope) if lease.session == workspace.session]
    # Of what came back to the session that had it before, the last lease.
    return list({lease.call_id: lease for lease in sorted(out, key=lambda lease: lease.taken_at)}.values())


def told_answered(store: Store, scope: str) -> str:
    """Return how many answers of a host are handed in, and how many judgements; empty without any."""
    n = store.leases.count_answered(scope)
    n_judged = n.get("judge", 0)
    told = [(sum(n.values()) - n_judged, "answer"), (n_judged, "judgement")]
    return " and ".join(counted(each, one) for each, one in told if each)


def told_wait(workspace: Workspace, job_id: str) -> str:
    """Return what whoever gets no work of a job is to do: until when nothing of it can be handed out."""
    now = workspace.clock()
    out = [lease for lease in workspace.store.leases.unanswered_of(job_id) if lease.expires_at > now]
    if not out:
        return f"Call submit_work with job_id {job_id} for more work."
    many = "1 item is" if len(out) == 1 else f"{len(out)} items are"
    back = min(lease.expires_at for lease in out)
    own = [lease for lease in out if lease.session == workspace.session]
    listed = f" (inspect {job_id} lists them)" if own else ""
    n = _n_to_mend(workspace, job_id, own)
    refused = "1 reply that was refused is" if n == 1 else f"{n} replies that were refused are"
    mend = f", and see that {refused} mended and submitted again" if n else ""
    return (
        f"Nothing can be handed out before {_minute_after(back)} ({many} out). Wait for those of them that your own "
        f"agents have{listed}{mend}; otherwise stop here, do not poll, and call submit_work with job_id "
        f"{job_id} then."
    )


def _n_to_mend(workspace: Workspace, job_id: str, out: Sequence[Lease]) -> int:
    """Return how many of the leases that are out had a reply that could not be used: each is noted beside its lease."""
    noted = {(each.call_id, each.taken_at) for each in workspace.store.leases.list_of(job_id) if each.state == "failed"}
    return sum((lease.call_id, lease.taken_at) in noted for lease in out)


def n_elsewhere(workspace: Workspace, scope: str) -> int:
    """Return how much work of a scope is in the hands of other sessions, which may never come back."""
    now, leases = workspace.clock(), workspace.store.leases.unanswered_of(scope)
    return sum(lease.session != workspace.session and lease.expires_at > now for lease in leases)


def _minute_after(at: float) -> str:
    """Return the first whole minute at which what ends at a point in time is over."""
    return _minute(math.ceil(at / 60) * 60)


def _minute(at: float) -> str:
    """Return a point in time, in seconds since 1970, in words."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
