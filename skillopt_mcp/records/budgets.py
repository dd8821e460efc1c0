"""Budgets: the hard caps of a run, what one call may cost, and what was spent so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from skillopt_mcp.records.calls import Call, Usage

_FREE_STAGE = "check"


class Cost(NamedTuple):
    """What a call is charged: one send, tokens in and out, US dollars."""

    calls: int = 1
    tokens: int = 0
    usd: float = 0.0


class Spent(NamedTuple):
    """What a budget has been charged so far, calls under way at the most that they can cost."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def plus(self, calls: int = 0, tokens: int = 0, usd: float = 0.0, seconds: float = 0.0) -> Spent:
        """Return what is spent with so much more."""
        return Spent(self.calls + calls, self.tokens + tokens, self.usd + usd, self.seconds + seconds)


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that a run may use, over all processes that ever advance it; None does not limit."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    minutes: float | None = None

    @property
    def bound_each_call(self) -> bool:
        """Return whether it must be known beforehand what one call can cost at most."""
        return self.tokens is not None or self.usd is not None

    def exceeded(self, spent: Spent) -> str | None:
        """Return the cap that `spent` is above, in words, None when it is within all."""
        if self.calls is not None and spent.calls > self.calls:
            return f"{self.calls:,} calls (--max-calls)"
        if self.tokens is not None and spent.tokens > self.tokens:
            return f"{self.tokens:,} tokens (--max-tokens)"
        if self.usd is not None and spent.usd > self.usd:
            return f"${self.usd:g} (--max-usd)"
        if self.minutes is not None and spent.seconds >= self.minutes * 60:
            return f"{self.minutes:g} minutes (--max-minutes)"
        return None


NO_CAPS = Caps()


_SENT, _FREE = Cost(), Cost(0)


def cost_of(call: Call, usage: Usage | None = None) -> Cost:
    """Return what a call is charged that used so much; a check by a command asks no model, and is free."""
    if call.stage == _FREE_STAGE:
        return _FREE
    return Cost(1, usage.tokens_in + usage.tokens_out, usage.usd or 0.0) if usage else _SENT
