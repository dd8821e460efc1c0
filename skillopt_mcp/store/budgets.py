"""Budgets at rest: what each run has used, charged in the very transaction that claims its calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

from skillopt_mcp.errors import StoreError
from skillopt_mcp.records.budgets import NO_CAPS, Caps, Cost, Spent
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.pool import Pool

_GET = "select calls, tokens, usd, seconds from budget where id = ?"
# To replace the row would write its index anew too, in every settlement.
_PUT = (
    "insert into budget(id, calls, tokens, usd, seconds) values (?, ?, ?, ?, ?) on conflict do update set"
    " calls = excluded.calls, tokens = excluded.tokens, usd = excluded.usd, seconds = excluded.seconds"
)
_Values = tuple[int, int, float, float]


class Bill(NamedTuple):
    """What a settlement changes in a budget: `change` came to light since the last one, `costs` is asked for now."""

    budget: str
    caps: Caps
    change: Spent
    costs: Sequence[Cost]


class Budgets:
    """Table budget."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def get_spent(self, budget: str) -> Spent:
        """Return what a budget has been charged so far; nothing when there is none of that name."""
        row = self._pool.row(_GET, [budget])
        return _above_nothing(Spent(*cast(_Values, row))) if row else Spent()

    def list_beside_runs(self) -> list[str]:
        """Return the budgets that are not a run's, in order: a run may have come to the promotion test of one."""
        rows = self._pool.rows("select id from budget where id not in (select id from run) order by id")
        return [str(row[0]) for row in rows]


def n_affordable(connection: Connection, bill: Bill) -> int:
    """Return how many of the costs that are asked for, from the first on, can be charged without going above a cap."""
    if bill.caps == NO_CAPS or not bill.costs:
        return len(bill.costs)
    row = connection.execute(_GET, [bill.budget]).fetchone()
    spent = (Spent(*row) if row else Spent()).plus(*bill.change)
    for n, cost in enumerate(bill.costs):
        spent = spent.plus(*cost)
        if bill.caps.exceeded(spent):
            return n
    return len(bill.costs)


def charge(connection: Connection, bill: Bill, costs: Sequence[Cost]) -> Spent:
    """Return what is spent once the bill's change and `costs` are charged. Raises StoreError for what is no amount."""
    change = bill.change.plus(
        sum(cost.calls for cost in costs), sum(cost.tokens for cost in costs), sum(cost.usd for cost in costs)
    )
    if not all(map(math.isfinite, change)):
        # Kept, it would end every cap: nothing is more than it.
        raise StoreError(
            f"calls of '{bill.budget}' would be charged {change.tokens} tokens, ${change.usd} and {change.seconds} s, "
            "which is no amount: nothing is stored; have the backend say what a call uses in finite numbers"
        )
    row = connection.execute(_GET, [bill.budget]).fetchone()
    spent = _above_nothing((Spent(*row) if row else Spent()).plus(*change))
    connection.execute(_PUT, (bill.budget, *spent))
    return spent


def _above_nothing(spent: Spent) -> Spent:
    """Return what is spent; sums of prices that go in and out again end a rounding error below nothing."""
    return spent._replace(usd=max(0.0, spent.usd))
