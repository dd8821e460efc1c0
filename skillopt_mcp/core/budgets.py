"""Budgets: the hard caps of a run, what one call may cost, and what was spent so far."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from skillopt_mcp.core.text import counted

if TYPE_CHECKING:
    from skillopt_mcp.core.calls import Call, Usage

FREE_STAGE = "check"


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
        """What is spent with so much more."""
        return Spent(self.calls + calls, self.tokens + tokens, self.usd + usd, self.seconds + seconds)


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that a run may use, over all processes that ever advance it; None does not limit.

    At a cap the run stops, and `train` raises CapReached; it goes on under a higher one. A run that goes on keeps the
    caps that it was given last where these say None.
    """

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    minutes: float | None = None
    is_default: bool = field(default=False, compare=False)

    @property
    def bound_each_call(self) -> bool:
        """Whether it must be known beforehand what one call can cost at most."""
        return self.tokens is not None or self.usd is not None

    def exceeded(self, spent: Spent) -> str | None:
        """Return the cap that `spent` is above, in words, None when it is within all."""
        if self.calls is not None and spent.calls > self.calls:
            return f"{self.calls:,} call{'s' * (self.calls != 1)} (--max-calls)"
        if self.tokens is not None and spent.tokens > self.tokens:
            return f"{self.tokens:,} tokens (--max-tokens)"
        if self.usd is not None and spent.usd > self.usd:
            return f"${self.usd:g} (--max-usd)"
        if self.minutes is not None and spent.seconds >= self.minutes * 60:
            return f"{self.minutes:g} minutes (--max-minutes)"
        return None

    def replace_given(self, given: Caps) -> Caps:
        """Return these caps with those that are given in their places."""
        return replace(self, **{name: value for name, value in asdict(given).items() if value is not None})

    def raise_above(self, need: Spent) -> Caps:
        """Return, for each cap that `need` is above, one that is at least twice as high; None for the others."""
        calls, tokens, usd, minutes = self.calls, self.tokens, self.usd, self.minutes
        higher = max(2 * usd, need.usd) if usd is not None and need.usd > usd else None
        return Caps(
            max(2 * calls, need.calls) if calls is not None and need.calls > calls else None,
            max(2 * tokens, need.tokens) if tokens is not None and need.tokens > tokens else None,
            None if higher is None else max(higher, math.ceil(100 * higher) / 100),  # in whole cents
            math.ceil(minutes + need.seconds / 60) if minutes is not None and need.seconds >= minutes * 60 else None,
        )

    @property
    def origin(self) -> str:
        """Where caps come from that nobody gave, and how to raise them; empty for others."""
        default = f"; it is the default with a login, about {LOGIN_TOKENS:,} tokens: raise it with serve --max-calls N"
        return default * self.is_default

    @property
    def options(self) -> str:
        """Return the options of the command line that give these caps; empty when there are none."""
        return " ".join(f"--max-{name} {value}" for name, value in [*asdict(self).items()][:4] if value is not None)

    def describe_used(self, spent: Spent) -> str:
        """How much of each cap is used; empty without caps."""
        shown = (
            f"{spent.calls:,} of {self.calls:,} calls" if self.calls is not None else "",
            f"{spent.tokens:,} of {self.tokens:,} tokens" if self.tokens is not None else "",
            f"${spent.usd:.2f} of ${self.usd:.2f}" if self.usd is not None else "",
            f"{spent.seconds / 60:.1f} of {self.minutes:g} minutes" if self.minutes is not None else "",
        )
        used = ", ".join(filter(None, shown))
        return f"Caps used: {used}." if used else ""


NO_CAPS = Caps()
# What each test or proposal of a server may take of a person's login where no cap is given. A run of an agent has no
# known limit in tokens, so they are counted in runs: a test of 60 tasks takes up to 480.
LOGIN_TOKENS, RUN_TOKENS = 7_000_000, 14_000
LOGIN_CAPS = Caps(LOGIN_TOKENS // RUN_TOKENS, is_default=True)
_SENT, _FREE = Cost(), Cost(0)


def cost_of(call: Call, usage: Usage | None = None) -> Cost:
    """What a call is charged that used so much; a check by a command asks no model, and is free."""
    if call.stage == FREE_STAGE:
        return _FREE
    return Cost(1, usage.tokens_in + usage.tokens_out, usage.usd or 0.0) if usage else _SENT


def describe_most(spent: Spent) -> str:
    """What was charged at most: a call whose usage is unknown is charged its maximum."""
    dollars = f"{spent.usd:.2f}" if spent.usd >= 0.01 else f"{spent.usd:.2g}"
    return f"up to {counted(spent.tokens, 'token')}{f' and ${dollars}' if spent.usd else ''}"
