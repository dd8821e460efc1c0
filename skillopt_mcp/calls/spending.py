"""Spending: the budget of a run, as the process that advances it sees it: caps, and what each call may cost at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from skillopt_mcp.backends.base import Backend, worst_case
from skillopt_mcp.calls.retrying import POLICIES
from skillopt_mcp.errors import CapReached
from skillopt_mcp.records.budgets import NO_CAPS, Caps, Cost, Spent, cost_of
from skillopt_mcp.records.calls import Call, Fault, Reply, Usage
from skillopt_mcp.store.budgets import Bill


class Budget:
    """What a run may spend: `name` is its row in the store, which all processes that advance the run share."""

    def __init__(self, name: str, caps: Caps = NO_CAPS, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self.caps = name, caps
        self._clock = clock
        self._noted_at = clock()
        self._calls, self._tokens, self._usd = 0, 0, 0.0

    def cost(self, backend: Backend, call: Call) -> Cost:
        """Return the most that sending a call can cost. Raises CapReached when that cannot be told, and is capped."""
        if not self.caps.bound_each_call:
            return cost_of(call)
        usage = worst_case(backend, call)
        if usage is None or (self.caps.usd is not None and usage.usd is None):
            raise CapReached(
                f"the {'price' if usage else 'size'} of a call to '{backend.name}' has no known limit, so it is not "
                "sent under a cap: leave out the cap, or name another model"
            )
        return cost_of(call, usage)

    def answered(self, cost: Cost, call: Call, reply: Reply) -> None:
        """Note what a call cost that was charged `cost`; an unknown price stays at its most."""
        self._settle(cost, cost_of(call, reply.usage), known=reply.usage.usd is not None)

    def failed(self, cost: Cost, call: Call, fault: Fault, usage: Usage | None) -> None:
        """Note what a failed attempt cost: as it says; else its most where it may have been paid, or nothing."""
        if usage is not None:
            self._settle(cost, cost_of(call, usage), known=usage.usd is not None)
        elif not POLICIES[fault].may_be_paid:
            self._settle(cost, Cost(cost.calls), known=True)

    def _settle(self, charged: Cost, cost: Cost, *, known: bool) -> None:
        self._calls += cost.calls - charged.calls
        self._tokens += cost.tokens - charged.tokens
        if known:
            self._usd += cost.usd - charged.usd

    def bill(self, costs: Sequence[Cost]) -> Bill:
        """Return what the next settlement is to change in the store; it is then taken as settled."""
        now = self._clock()
        change = Spent(self._calls, self._tokens, self._usd, now - self._noted_at)
        self._calls, self._tokens, self._usd, self._noted_at = 0, 0, 0.0, now
        return Bill(self.name, self.caps, change, costs)

    def reached(self, spent: Spent, cost: Cost) -> CapReached:
        """Return why a call of this cost cannot be sent."""
        cap = self.caps.exceeded(spent.plus(*cost)) or "its budget"
        used = f"{spent.calls:,} calls, {spent.tokens:,} tokens, ${spent.usd:.2f}, {spent.seconds / 60:.1f} minutes"
        return CapReached(
            f"the cap of {cap} is reached, with {used} used: nothing that was answered is lost, and it goes on where "
            "it stopped under a higher cap"
        )
