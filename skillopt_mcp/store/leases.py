"""Leases at rest: calls handed to a host for a while, which one answer ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from skillopt_mcp.core.budgets import Caps, Cost, Spent
from skillopt_mcp.core.calls import Reply, Role
from skillopt_mcp.store.calls import CHUNK, Bill, charge, insert_reply, n_affordable, pad_marks
from skillopt_mcp.store.events import append
from skillopt_mcp.store.files import boot_id
from skillopt_mcp.store.pending import WAITED_FOR
from skillopt_mcp.store.pool import Connection, Pool

LeaseState = Literal["out", "answered", "failed", "withdrawn"]
Answered = Literal["accepted", "duplicate", "late", "withdrawn"]
GivenUp = Literal["missing", "free", "elsewhere", "late"]
# A lease from further ahead than this was taken before the clock was set back: it may never seem to expire.
_SET_BACK_S = 60
_AMONG = "{} in (select value from json_each(?))"


class Lease(NamedTuple):
    """A call in the hands of a host: `id` is a secret that only its taker knows, times are seconds since 1970."""

    id: str
    call_id: int
    scope: str
    task_id: int | None
    session: str
    taken_at: float
    expires_at: float
    state: LeaseState
    role: Role


class Offer(NamedTuple):
    """A call that is to be leased under a new id."""

    id: str
    call_id: int
    task_id: int | None


class Term(NamedTuple):
    """Who takes leases, for which scope, from when to when (seconds since 1970)."""

    scope: str
    session: str
    taken_at: float
    expires_at: float


class Failing(NamedTuple):
    """A lease that brought no answer `at` a time (seconds since 1970): after `most` of them its call is `missing`.

    The id of the reply is its call's.
    """

    lease_id: str
    missing: Reply
    most: int
    at: float


class Leases:
    """Table lease."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._booted_at: float | None = None
        # Another clock to end leases by, in seconds since 1970.
        self.clock: Callable[[], float] | None = None

    def now(self) -> float:
        """Return the time by which leases end: seconds since 1970, by a clock that cannot be set.

        It is the machine's since it booted; the first process that asked has fixed when that was, for all of them.
        """
        if self.clock:
            return self.clock()
        boot = boot_id()
        if not boot:
            return time.time()
        if self._booted_at is None:
            found = self._pool.row(_BOOT, [boot])
            if found is None:
                with self._pool.write() as connection:
                    connection.execute(_BOOTED, [boot, time.time() - _since_boot()])
                    found = connection.execute(_BOOT, [boot]).fetchone()
            assert found
            self._booted_at = float(found[0])
        return self._booted_at + _since_boot()

    def open_ids(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Return the ids of those calls that are in the store, answered or not."""
        found: dict[bytes, int] = {}
        for start in range(0, len(keys), CHUNK):
            marks, chunk = pad_marks(keys[start : start + CHUNK])
            rows = self._pool.rows(f"select key, id from call where key in ({marks})", chunk)
            found |= dict(rows)
        return found

    def free(self, call_ids: Sequence[int], now: float, *, is_new: bool = False) -> list[int]:
        """Those of the calls, in their order, that have no reply and are not leased; with `is_new`, never were."""
        is_taken = f"({_IS_TAKEN} or exists (select 1 from lease where call_id = call.id))" if is_new else _IS_TAKEN
        sql = f"select id from call where {_AMONG.format('id')} and {is_taken}"
        taken = set(self._pool.rows(sql, [json.dumps(call_ids), now]))
        return [call_id for call_id in call_ids if (call_id,) not in taken]

    def count_unanswered(self, call_ids: Sequence[int]) -> int:
        """How many of the calls have no reply."""
        sql = f"select count(*) from reply where {_AMONG.format('call_id')}"
        return len(call_ids) - self._pool.number(sql, [json.dumps(call_ids)])

    def is_missing(self, call_id: int) -> bool:
        """Whether a call was given up: its reply says why."""
        found = self._pool.row("select 1 from reply where call_id = ? and fault is not null", [call_id])
        return found is not None

    def take(self, offers: Sequence[Offer], term: Term, caps: Caps) -> tuple[list[Offer], bool]:
        """Lease those of the offers that were not taken or answered meanwhile; which, and whether caps left out others.

        The first lease of a call was charged with its claim. Each further one is a claim of its own: it is charged to
        the budget of the scope, and left out where that would go above a cap.
        """
        leased, is_capped = list[Offer](), False
        with self._pool.write() as connection:
            for offer in offers:
                if connection.execute(_FREE, [offer.call_id, term.taken_at]).fetchone() is None:
                    continue
                if connection.execute("select 1 from lease where call_id = ? limit 1", [offer.call_id]).fetchone():
                    bill = Bill(term.scope, caps, Spent(), [Cost()])
                    if not n_affordable(connection, bill):
                        is_capped = True
                        continue
                    charge(connection, bill, bill.costs)
                    connection.execute("update call set n_claims = n_claims + 1 where id = ?", [offer.call_id])
                connection.execute(_TAKE, [offer.id, offer.call_id, term.scope, offer.task_id, *term[1:]])
                leased.append(offer)
        return leased, is_capped

    def find(self, lease_id: str) -> Lease | None:
        """Return a lease, or None."""
        row = self._pool.row(f"{_LEASE} where l.id = ?", [lease_id])
        return Lease(*row) if row else None

    def list_of(self, scope: str) -> list[Lease]:
        """Return every lease of a scope, in the order in which they were taken."""
        return [Lease(*row) for row in self._pool.rows(f"{_LEASE} where l.scope = ? order by l.rowid", [scope])]

    def list_out(self, scope: str) -> list[Lease]:
        """Return the leases of a scope that are out, in time or overdue, on calls that have no reply."""
        return [Lease(*row) for row in self._pool.rows(f"{_LEASE} where l.scope = ? and {WAITED_FOR}", [scope])]

    def in_time(self, lease_ids: Sequence[str], now: float) -> set[str]:
        """Return those of the leases that are out and in time."""
        sql = f"select id from lease where {_AMONG.format('id')} and {_IN_TIME}"
        return {str(row[0]) for row in self._pool.rows(sql, [json.dumps(lease_ids), now])}

    def answer(self, lease_id: str, reply: Reply, session: str) -> Answered:
        """Store the reply of a lease (the id of the reply is its call's): the first one of a call stays.

        The lease stays with who took it, unless the session that answers is one that knew the task.
        """
        with self._pool.write() as connection:
            sql = "select state, scope from lease where id = ?"
            state, scope = connection.execute(sql, [lease_id]).fetchone()
            if state == "answered":
                return "duplicate"
            if state == "withdrawn":
                return "withdrawn"
            if not insert_reply(connection, reply):
                return "late"
            is_known = connection.execute(_HAS_ANSWERED, [scope, session]).fetchone()
            connection.execute(_ANSWER, [lease_id, session])
            if not is_known and connection.execute("select 1 from promotion_test where id = ?", [scope]).fetchone():
                append(connection, "test_answered", scope)
        return "accepted"

    def fail(self, failing: Failing) -> GivenUp:
        """End a lease without an answer; return what became of its call.

        It is missing after `most` of them, unless another lease of it is out and in time: one that ran out has no say
        over that.
        """
        with self._pool.write() as connection:
            if not _fail(connection, failing.lease_id):
                return "free"
            if connection.execute("select 1 from reply where call_id = ?", [failing.missing.id]).fetchone():
                return "late"
            if _is_elsewhere(connection, failing):
                return "elsewhere"
            return "missing" if _is_lost(connection, failing) else "free"

    def note_unusable(self, failing: Failing, note_id: str) -> bool:
        """Note that a reply to a lease cannot be used, once per note; return whether its call is missing now.

        Until then the lease stays out. The note is a failed lease of its own, so that both are counted together; none
        is made while another lease of the call is out and in time.
        """
        with self._pool.write() as connection:
            if _is_elsewhere(connection, failing):
                return False
            noted = connection.execute(
                "insert into lease(id, call_id, scope, task_id, session, taken_at, expires_at, state)"
                " select ?, call_id, scope, task_id, session, taken_at, expires_at, 'failed' from lease"
                " where id = ? and state = 'out' on conflict do nothing",
                [note_id, failing.lease_id],
            )
            is_lost = bool(noted.rowcount) and _is_lost(connection, failing)
            return is_lost and _fail(connection, failing.lease_id)

    def free_at(self, lease_ids: Sequence[str], at: float) -> None:
        """End the time of leases that are out `at` a time (seconds since 1970), where it would end later."""
        with self._pool.write() as connection:
            sql = "update lease set expires_at = ?2 - 1 where id = ?1 and state = 'out' and expires_at >= ?2"
            connection.executemany(sql, [(lease_id, at) for lease_id in lease_ids])

    def rule_out(self, missing: Reply) -> None:
        """Store that a call cannot be handed out (the id of the reply is its call's): it is missing."""
        with self._pool.write() as connection:
            insert_reply(connection, missing)

    def withdraw(self, scope: str) -> list[str]:
        """End the leases of a scope that are out; return the ids of all of its leases."""
        with self._pool.write() as connection:
            connection.execute("update lease set state = 'withdrawn' where scope = ? and state = 'out'", [scope])
            return [str(row[0]) for row in connection.execute("select id from lease where scope = ?", [scope])]


_BOOT = "select at from boot where id = ?"
_BOOTED = "insert into boot(id, at) values (?, ?) on conflict do nothing"


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_LEASE = (
    "select l.id, l.call_id, l.scope, l.task_id, l.session, l.taken_at, l.expires_at, l.state, c.role"
    " from lease l join call c on c.id = l.call_id"
)
_IN_TIME = f"state = 'out' and ? between taken_at - {_SET_BACK_S} and expires_at"
_IS_TAKEN = (
    "(exists (select 1 from reply where call_id = call.id)"
    f" or exists (select 1 from lease where call_id = call.id and {_IN_TIME}))"
)
_FREE = f"select 1 from call where id = ? and not {_IS_TAKEN}"
_TAKE = (
    "insert into lease(id, call_id, scope, task_id, session, taken_at, expires_at, state)"
    " values (?, ?, ?, ?, ?, ?, ?, 'out')"
)
_HAS_ANSWERED = "select 1 from lease where scope = ? and session = ? and state = 'answered' limit 1"
_ANSWER = "update lease set state = 'answered', session = ?2 where id = ?1"


def _fail(connection: Connection, lease_id: str) -> bool:
    changed = connection.execute("update lease set state = 'failed' where id = ? and state = 'out'", [lease_id])
    return bool(changed.rowcount)


def _is_elsewhere(connection: Connection, failing: Failing) -> bool:
    """Whether another lease of the call is out and in time."""
    other = f"select 1 from lease where call_id = ? and id <> ? and {_IN_TIME}"
    return connection.execute(other, [failing.missing.id, failing.lease_id, failing.at]).fetchone() is not None


def _is_lost(connection: Connection, failing: Failing) -> bool:
    """Store that a call is missing once `most` of its leases failed."""
    counted = "select count(*) from lease where call_id = ? and state = 'failed'"
    [n_failed] = connection.execute(counted, [failing.missing.id]).fetchone()
    return n_failed >= failing.most and insert_reply(connection, failing.missing)
