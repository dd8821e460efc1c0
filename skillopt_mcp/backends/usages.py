"""Usages: why what somebody says that a call used, or can use, cannot be kept or charged."""

from __future__ import annotations

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.records.calls import Usage

# More than any call can use, and few enough that the sum over all calls can be stored.
MOST = 10**12
_SHOWN = 40


def unusable_usage(usage: object) -> str:
    """Return why a usage cannot be kept: it is none, or its numbers would get round a cap. Empty when it can."""
    if not isinstance(usage, Usage):
        return f"its usage is of type {type(usage).__name__}, not skillopt_mcp.Usage"
    for name in ("tokens_in", "tokens_out", "tokens_cached"):
        n: object = getattr(usage, name)
        if not isinstance(n, int) or not 0 <= n <= MOST:
            return f"the {name} of its usage is {quoted(repr(n), _SHOWN)}, not a whole number from 0 to {MOST:,}"
    usd: object = usage.usd
    for name, amount in (("usd", 0 if usd is None else usd), ("latency_ms", usage.latency_ms)):
        # Not to be had of one that is not a number, nor of infinity.
        if not isinstance(amount, int | float) or not 0 <= amount <= MOST:
            return f"the {name} of its usage is {quoted(repr(amount), _SHOWN)}, not a number from 0 to {MOST:,}"
    return ""


def is_of_numbers(usage: object) -> bool:
    """Return whether it is a usage, and all that it holds are numbers, be they impossible ones."""
    return isinstance(usage, Usage) and all(isinstance(each, int | float | None) for each in usage)
