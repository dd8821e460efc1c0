"""Spending: the budget of a run, as the process that advances it sees it: caps, and what each call may cost at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from skillopt_mcp.backends.base import Backend, BackendFault, worst_case
from skillopt_mcp.calls.retrying import MAX_PAUSE_S, POLICIES
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import CapReached, Outage
from skillopt_mcp.records.budgets import NO_CAPS, Caps, Cost, Spent, cost_of
from skillopt_mcp.records.calls import NOTHING, Call, Fault, Reply, Usage
from skillopt_mcp.store.budgets import Bill
from skillopt_mcp.store.calls import NO_FAILURES, Failures

_DETAIL_CHARACTERS = 300
_CENT = 0.01


class Pause(NamedTuple):
    """For how many seconds from now a backend is not asked, and for how many it asked last, 0 if it did not."""

    backend: str
    seconds: float
    asked_s: float = 0.0

    def __str__(self) -> str:
        if self.asked_s:
            return f"asked to wait {self.asked_s:,.0f} s by '{self.backend}'"
        return f"'{self.backend}' failed, and is asked again in {self.seconds:,.0f} s"


def too_long(pause: Pause) -> Outage:
    """Return why a run does not wait until a backend may be asked again, and when to go on."""
    back = datetime.now(UTC) + timedelta(seconds=pause.seconds)
    return Outage(
        f"{pause}, and no run waits for longer than {MAX_PAUSE_S / 60:.0f} minutes. Nothing that was answered "
        f"is lost: go on in {pause.seconds / 60:,.0f} minutes, from {back:%Y-%m-%d %H:%M} UTC on"
    )


def usage_of(fault: BackendFault) -> Usage:
    """Return what a failed attempt used, its price unknown where it may have been paid, and nobody says."""
    return fault.usage or (Usage() if POLICIES[fault.fault].may_be_paid else NOTHING)


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
        """Note what a call cost that was charged `cost`; what is not known of it stays at its most."""
        if reply.usage.estimated and cost.tokens:
            return
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

    def bill(self, costs: Sequence[Cost], unsent: Sequence[Cost] = ()) -> Bill:
        """Return what the next settlement is to change in the store; it is then taken as settled.

        `unsent` are the costs that calls were charged which were not sent.
        """
        for cost in unsent:
            self._settle(cost, Cost(0), known=True)
        now = self._clock()
        change = Spent(self._calls, self._tokens, self._usd, now - self._noted_at)
        self._calls, self._tokens, self._usd, self._noted_at = 0, 0, 0.0, now
        return Bill(self.name, self.caps, change, costs)

    def left_s(self, spent: Spent) -> float | None:
        """Return for how many seconds more the run may go on that had `spent` at the last bill; None: no cap says."""
        if self.caps.minutes is None:
            return None
        return self.caps.minutes * 60 - spent.seconds - (self._clock() - self._noted_at)

    def too_short(self, spent: Spent, asked: Pause) -> CapReached:
        """Return why a run does not wait until a backend may be asked again: its minutes would be over before."""
        return CapReached(
            f"the cap of {self.caps.minutes or 0:g} minutes (--max-minutes) is over before the end of a wait: "
            f"{asked}, and {spent.seconds / 60:.1f} minutes are used. Nothing that was answered is lost, and it goes "
            "on where it stopped, once that time has passed or under a higher cap",
            self.caps.raised_for(spent.plus(seconds=asked.seconds)).options,
        )

    def reached(self, spent: Spent, cost: Cost, failures: Failures = NO_FAILURES) -> CapReached:
        """Return why a call of this cost cannot be sent, and how many of those that were sent came to nothing."""
        need = spent.plus(*cost)
        cap = self.caps.exceeded(need) or "its budget"
        usd = f", {_dollars(spent.usd)}" if spent.usd else ""
        known = f"{counted(spent.tokens, 'token')}{usd}"
        amounts = f"{told_most(spent)} charged" if self.caps.bound_each_call else known
        used = f"{counted(spent.calls, 'call')}, {amounts}, {spent.seconds / 60:.1f} minutes used"
        asked = self._asked_for(spent, cost)
        nothing = f". {told_failures(failures)}. Nothing" if failures.n else ": nothing"
        is_silent = failures.n and failures.n >= spent.calls
        first = "not one send was answered, so mend what failed before you raise a cap: " if is_silent else ""
        return CapReached(
            f"{first}the cap of {cap} is reached, with {used}{asked}{nothing} that was answered is lost, and it "
            "goes on where it stopped under a higher cap",
            self.caps.raised_for(need).options,
        )

    def _asked_for(self, spent: Spent, cost: Cost) -> str:
        """Return what the next call may use at most, in words, where that is why it is not sent."""
        if self.caps.tokens is not None and spent.tokens <= self.caps.tokens < spent.tokens + cost.tokens:
            return f", and the next call may use up to {cost.tokens:,} tokens"
        if self.caps.usd is not None and spent.usd <= self.caps.usd < spent.usd + cost.usd:
            return f", and the next call may cost up to {_dollars(cost.usd)}"
        return ""


def _dollars(usd: float) -> str:
    return f"${usd:.2f}" if usd >= _CENT or not usd else f"${usd:.2g}"


def told_most(spent: Spent) -> str:
    """Return what was charged in words: what is set aside for a call whose use is not known is no use of it."""
    usd = f" and {_dollars(spent.usd)}" if spent.usd else ""
    return f"up to {counted(spent.tokens, 'token')}{usd}"


def told_failures(failures: Failures) -> str:
    """Return how many sends failed, and how the last of them did, in words; empty when none failed."""
    if not failures.n:
        return ""
    detail = failures.detail.strip().rstrip(".")
    if len(detail) > _DETAIL_CHARACTERS:
        detail = f"{detail[:_DETAIL_CHARACTERS]}..."
    sends = "send" if failures.n == 1 else "sends"
    return f"{failures.n:,} {sends} failed, the last one so ({failures.fault}): {detail}"
