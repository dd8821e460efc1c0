"""Leases: which work hosts have out until when, and what they handed in, for people; no backend is loaded for that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from skillopt_mcp.core.candidates import Candidate
from skillopt_mcp.core.text import counted
from skillopt_mcp.store.leases import Lease
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.evidence import find_host_roles
from skillopt_mcp.workspace.place import Place


def leases_in_time(store: Store, scope: str) -> list[Lease]:
    """Return the leases of a scope that have not expired and have no answer."""
    now = store.leases.now()
    return [lease for lease in store.leases.list_out(scope) if lease.expires_at > now]


def own_leases(store: Store, place: Place, scope: str) -> list[Lease]:
    """What of a scope the caller's own session has out, in time or overdue, in the order in which it took it."""
    out = [lease for lease in store.leases.list_out(scope) if lease.session == place.session]
    # Of what came back to the session that had it before, the last lease.
    return list({lease.call_id: lease for lease in sorted(out, key=lambda lease: lease.taken_at)}.values())


def describe_leases(store: Store, scope: str) -> str:
    """How much work of a scope is out and until when, or since when it is overdue; "" without any.

    In points in time, not as what is left: a text that is read page by page must not change.
    """
    if out := leases_in_time(store, scope):
        n = counted(len(out), "item of work is", "items of work are")
        return f"{n} out until {minute_after(max(lease.expires_at for lease in out))}"
    overdue = store.leases.list_out(scope)
    return f"work was out until {_minute(max(lease.expires_at for lease in overdue))}" if overdue else ""


def describe_own_leases(store: Store, place: Place, scope: str) -> list[str]:
    """Return, a line each, the work of a scope that the caller's own session has out.

    Only the session that took work knows its id.
    """
    out = own_leases(store, place, scope)
    if not out:
        return []
    folder = place.work_folders.folder
    return [
        "this session has out:",
        *(f"  {folder(each.id)} since {_minute(each.taken_at)}, until {minute_after(each.expires_at)}" for each in out),
    ]


def host_tests(store: Store, candidates: Sequence[Candidate]) -> dict[str, str]:
    """By version, that a host's test of a candidate is begun and undecided; of several, the newest."""
    found = dict[str, str]()
    for each in candidates:
        for test in store.tests.list_of(each.skill_id, each.base_version, each.version_id):
            n = store.tests.count_attempts(test.id)
            if n and find_host_roles(test.backend) and not store.decisions.latest_in(test.id):
                state = f"the test of {each.id} by a host ({test.id}) is under way, {counted(n, 'attempt')} done"
                found.setdefault(each.version_id, state)
    return found


def minute_after(at: float) -> str:
    """Return the first whole minute at or after a point in time, given in seconds since 1970."""
    return _minute(math.ceil(at / 60) * 60)


def _minute(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
