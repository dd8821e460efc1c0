"""Batches at rest: which calls went to a vendor's batch API, kept before they are sent, so that none is sent twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

from skillopt_mcp.records.budgets import NO_CAPS, Cost, Spent
from skillopt_mcp.records.calls import Reply, Role
from skillopt_mcp.store.calls import Attempt, Bill, charge, insert_attempts, insert_reply, n_affordable
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.pool import Pool, Row

BatchState = Literal["opening", "running", "cancelling", "over", "dissolved"]
_OPEN = "state in ('opening', 'running', 'cancelling')"
_BATCH = (
    "select b.id, b.budget, b.role, b.backend, b.vendor_id, b.state, b.opened_at,"
    " (select count(*) from batch_call where batch_id = b.id) from batch b"
)


class Batch(NamedTuple):
    """A batch: `id` is ours, `vendor_id` the vendor's, None until it has taken it."""

    id: str
    budget: str
    role: Role
    backend: str
    vendor_id: str | None
    state: BatchState
    opened_at: float
    n_calls: int


class NewBatch(NamedTuple):
    """A batch that is to be opened for these calls, whose costs, in their order, the bill asks for."""

    id: str
    role: Role
    backend: str
    opened_at: float
    call_ids: Sequence[int]
    bill: Bill


class Opened(NamedTuple):
    """The calls that a new batch holds, as far as caps allow, what is spent now, and whether a cap was met."""

    call_ids: Sequence[int]
    spent: Spent
    is_capped: bool


class Collected(NamedTuple):
    """What came of a batch: the replies (their ids are those of their calls), failed attempts, and what it cost."""

    replies: Sequence[Reply]
    attempts: Sequence[Attempt]
    change: Spent


class Batches:
    """Tables batch and batch_call."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def holding(self, call_ids: Sequence[int]) -> list[Batch]:
        """Return the open batches that hold any of these calls."""
        inside = "id in (select batch_id from batch_call where call_id in (select value from json_each(?)))"
        return [_batch(row) for row in self._pool.rows(f"{_BATCH} where {_OPEN} and {inside}", [json.dumps(call_ids)])]

    def list_open(self, budget: str) -> list[Batch]:
        """Return the open batches that are charged to a budget."""
        return [_batch(row) for row in self._pool.rows(f"{_BATCH} where {_OPEN} and b.budget = ?", [budget])]

    def list_waiting(self, scope: str) -> list[Batch]:
        """Return the open batches that hold calls of a scope."""
        inside = "id in (select c.batch_id from batch_call c join call on call.id = c.call_id where call.scope = ?)"
        return [_batch(row) for row in self._pool.rows(f"{_BATCH} where {_OPEN} and {inside}", [scope])]

    def calls_of(self, batch_id: str) -> dict[int, Cost]:
        """Return what each call of a batch was charged, by the id of the call."""
        rows = self._pool.rows("select call_id, tokens, usd from batch_call where batch_id = ?", [batch_id])
        return {cast(int, call_id): Cost(1, cast(int, tokens), cast(float, usd)) for call_id, tokens, usd in rows}

    def vendor_ids(self, backend: str) -> set[str]:
        """Return the ids of a vendor's that batches of ours have."""
        rows = self._pool.rows("select vendor_id from batch where backend = ? and vendor_id is not null", [backend])
        return {str(row[0]) for row in rows}

    def n_failed(self, batch_id: str) -> dict[int, int]:
        """Return how often attempts at the calls of a batch have failed so far, where any did."""
        rows = self._pool.rows(
            "select a.call_id, count(*) from attempt a join batch_call c on c.call_id = a.call_id"
            " where c.batch_id = ? group by a.call_id",
            [batch_id],
        )
        return {cast(int, call_id): cast(int, n) for call_id, n in rows}

    def open(self, new: NewBatch) -> Opened:
        """Keep and charge a batch that is about to be sent; answered calls, and those in an open one, are left out."""
        with self._pool.write() as connection:
            free = _free(connection, new.call_ids)
            wanted = [(call_id, cost) for call_id, cost in zip(new.call_ids, new.bill.costs, strict=True)]
            wanted = [(call_id, cost) for call_id, cost in wanted if call_id in free]
            bill = new.bill._replace(costs=[cost for _, cost in wanted])
            taken = wanted[: n_affordable(connection, bill)]
            spent = charge(connection, bill, [cost for _, cost in taken])
            if taken:
                connection.execute(
                    "insert into batch(id, budget, role, backend, state, opened_at) values (?, ?, ?, ?, 'opening', ?)",
                    [new.id, bill.budget, new.role, new.backend, new.opened_at],
                )
                connection.executemany(
                    "insert into batch_call(batch_id, call_id, tokens, usd) values (?, ?, ?, ?)",
                    [(new.id, call_id, cost.tokens, cost.usd) for call_id, cost in taken],
                )
        return Opened([call_id for call_id, _ in taken], spent, len(taken) < len(wanted))

    def note_sent(self, batch_id: str, vendor_id: str) -> None:
        """Note that the vendor has taken a batch."""
        with self._pool.write() as connection:
            connection.execute(
                "update batch set vendor_id = ?, state = 'running' where id = ? and state = 'opening'",
                [vendor_id, batch_id],
            )

    def note_cancelled(self, batch_id: str) -> None:
        """Note that the vendor was asked to answer no more of a batch."""
        with self._pool.write() as connection:
            connection.execute("update batch set state = 'cancelling' where id = ? and state = 'running'", [batch_id])

    def dissolve(self, batch_id: str) -> None:
        """Give back what a batch was charged that no vendor has taken; its calls are free again."""
        with self._pool.write() as connection:
            row = connection.execute(
                "select budget, count(*), sum(c.tokens), sum(c.usd) from batch join batch_call c on c.batch_id = id"
                f" where id = ? and {_OPEN} group by id",
                [batch_id],
            ).fetchone()
            if row:
                change = Spent(-row[1], -row[2], -row[3])
                charge(connection, Bill(str(row[0]), NO_CAPS, change, []), [])
                connection.execute("update batch set state = 'dissolved' where id = ?", [batch_id])

    def collect(self, batch: Batch, collected: Collected) -> bool:
        """Commit all that came of a batch at once; False when another process has done so."""
        with self._pool.write() as connection:
            cursor = connection.execute(f"update batch set state = 'over' where id = ? and {_OPEN}", [batch.id])
            if not cursor.rowcount:
                return False
            for reply in collected.replies:
                insert_reply(connection, reply)
            insert_attempts(connection, collected.attempts)
            charge(connection, Bill(batch.budget, NO_CAPS, collected.change, []), [])
        return True


def _free(connection: Connection, call_ids: Sequence[int]) -> set[int]:
    rows = connection.execute(
        "select id from call where id in (select value from json_each(?))"
        " and not exists (select 1 from reply where call_id = call.id)"
        " and not exists (select 1 from batch_call c join batch b on b.id = c.batch_id"
        f" where c.call_id = call.id and b.{_OPEN})",
        [json.dumps(call_ids)],
    ).fetchall()
    return {cast(int, call_id) for (call_id,) in rows}


def _batch(row: Row) -> Batch:
    batch_id, budget, role, backend, vendor_id, state, opened_at, n_calls = row
    return Batch(
        str(batch_id), str(budget), cast(Role, role), str(backend), None if vendor_id is None else str(vendor_id),
        cast(BatchState, state), cast(float, opened_at), cast(int, n_calls),
    )  # fmt: skip
