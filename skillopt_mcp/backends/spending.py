"""Spending: retries by kind of fault, what calls are charged, and why a run stops at a cap or an outage."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from skillopt_mcp.backends.base import RETRYABLE, Backend, worst_case
from skillopt_mcp.core.budgets import NO_CAPS, Caps, Cost, Spent, cost_of, describe_most
from skillopt_mcp.core.calls import Call, Fault, Reply, Usage
from skillopt_mcp.core.errors import CapReached, Outage
from skillopt_mcp.core.text import counted
from skillopt_mcp.store.calls import NO_FAILURES, Bill, Failures

MAX_ATTEMPTS = 5
# A backend that asks for a longer pause ends the run, which can be resumed then.
MAX_PAUSE_S = 900.0
MAX_CALL_S = 1800.0


class Policy(NamedTuple):
    """How a fault is dealt with: attempts in all, and the first wait in seconds, each `growth` times the last.

    `may_be_paid`: the vendor may have made an answer, though none came.
    """

    attempts: int = 1
    wait_s: float = 0.0
    growth: float = 2.0
    may_be_paid: bool = False


POLICIES: dict[Fault, Policy] = {
    # Most limits are per minute: four waits reach over 40 s.
    "rate_limit": Policy(MAX_ATTEMPTS, 1.0, 3.0),
    "overloaded": Policy(MAX_ATTEMPTS, 1.0, 3.0),
    "server": Policy(MAX_ATTEMPTS, 0.5),
    "connection": Policy(MAX_ATTEMPTS, 0.5, may_be_paid=True),
    # A node that is gone takes a while to be noticed, another worker to start.
    "worker_lost": Policy(MAX_ATTEMPTS, 1.0, 3.0, may_be_paid=True),
    "timeout": Policy(3, 0.5, may_be_paid=True),
    "malformed": Policy(3, 0.5, may_be_paid=True),
    # To send these again would bring the same: they are missing at once.
    "context_too_long": Policy(),
    "refusal": Policy(may_be_paid=True),
    "truncated": Policy(may_be_paid=True),
    "empty": Policy(may_be_paid=True),
    "internal": Policy(may_be_paid=True),
    # These end the run.
    "auth": Policy(),
    "model_not_found": Policy(),
    "unsupported": Policy(),
}


ONE_CHANCE: frozenset[Fault] = frozenset({"timeout", "malformed"})
"""Faults that an attempt at a task may bring upon itself: sent again, it would count the best of several attempts."""


class Delay(NamedTuple):
    """How long to wait before the next attempt; with a reason there is none, and the call is missing."""

    seconds: float = 0.0
    given_up: str | None = None


def wait_before_next(fault: Fault, n_attempts: int, retry_after: float | None, key: bytes, *, age_s: float) -> Delay:
    """Return the wait after the n-th attempt at a call failed, `age_s` seconds after it was first sent.

    What the server asked for is honoured, however long: the round decides whether to wait. A jitter by
    key comes on top, so that callers do not come back all at once.
    """
    policy = POLICIES[fault]
    if fault not in RETRYABLE:
        return Delay(given_up="")
    if n_attempts >= policy.attempts:
        return Delay(given_up=f"given up after {n_attempts} attempts")
    asked = retry_after or 0.0
    chance = random.Random(key + bytes([n_attempts])).random()
    own = policy.wait_s * policy.growth ** (n_attempts - 1)
    seconds = max(asked + min(asked, own) * chance / 2, own * (0.5 + chance))
    if asked <= MAX_PAUSE_S and age_s + seconds > MAX_CALL_S:
        return Delay(given_up=f"given up {age_s:,.0f} s after it was first sent")
    return Delay(seconds)


class Pause(NamedTuple):
    """For how many seconds from now a backend is not asked, and for how many it asked last, 0 if it did not."""

    backend: str
    seconds: float
    asked_s: float = 0.0

    def __str__(self) -> str:
        if self.asked_s:
            return f"asked to wait {self.asked_s:,.0f} s by '{self.backend}'"
        return f"'{self.backend}' failed, retried in {self.seconds:,.0f} s"


def too_long(pause: Pause) -> Outage:
    """Return why a run does not wait until a backend may be asked again, and when to resume."""
    back = datetime.now(UTC) + timedelta(seconds=pause.seconds)
    return Outage(
        f"{pause}, and no run waits for longer than {MAX_PAUSE_S / 60:.0f} minutes. Resume in "
        f"{pause.seconds / 60:,.0f} minutes, from {back:%Y-%m-%d %H:%M} UTC on"
    )


class Budget:
    """What a run may spend: `name` is its row in the store, which all processes that advance the run share."""

    def __init__(self, name: str, caps: Caps = NO_CAPS, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self.caps = name, caps
        self._clock = clock
        self._noted_at = clock()
        self._calls, self._tokens, self._usd = 0, 0, 0.0

    def cost(self, backend: Backend, call: Call) -> Cost:
        """Return the most that sending a call can cost. Raises CapReached when that is unknown, and capped."""
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
        """The change of the next settlement in the store; it is then taken as settled.

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
            self.caps.raise_above(spent.plus(seconds=asked.seconds)).options,
        )

    def reached(self, spent: Spent, cost: Cost, failures: Failures = NO_FAILURES) -> CapReached:
        """Return why a call of this cost cannot be sent, and how many of those that were sent came to nothing."""
        need = spent.plus(*cost)
        cap = self.caps.exceeded(need) or "its budget"
        charged = describe_most(spent) if self.caps.bound_each_call else describe_most(spent).removeprefix("up to ")
        used = f"{counted(spent.calls, 'call')}, {charged}, {spent.seconds / 60:.1f} minutes used"
        failed = f"; {failures}" if failures.n else ""
        return CapReached(
            f"the cap of {cap} is reached, with {used}{failed}. Nothing that was answered is lost, and it goes on "
            f"where it stopped under a higher cap{self.caps.origin}",
            self.caps.raise_above(need).options,
        )
