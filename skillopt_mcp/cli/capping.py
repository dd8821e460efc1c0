"""Capping: the hard caps that a command takes, and what a run may use, in words."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.spending.forecasting import Forecast
from skillopt_mcp.records.budgets import Caps, Spent


@dataclass(frozen=True, slots=True)
class Capped(Invocation):
    """What commands share which ask models: their caps, and whether what they may spend is agreed to, or only told."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    max_minutes: float | None = None
    yes: bool = False
    dry_run: bool = False

    @property
    def caps(self) -> Caps:
        """Return the caps that were given."""
        return Caps(self.max_calls, self.max_tokens, self.max_usd, self.max_minutes)


def told_caps(caps: Caps, spent: Spent) -> str:
    """Return how much of each cap is used, or set aside for what is not known, in a sentence; empty without caps."""
    told = (
        f"{spent.calls:,} of {caps.calls:,} calls" if caps.calls is not None else "",
        f"up to {spent.tokens:,} of {caps.tokens:,} tokens" if caps.tokens is not None else "",
        f"up to ${spent.usd:.2f} of ${caps.usd:.2f}" if caps.usd is not None else "",
        f"{spent.seconds / 60:.1f} of {caps.minutes:g} minutes" if caps.minutes is not None else "",
    )
    used = ", ".join(filter(None, told))
    return f"Of its caps are used: {used}." if used else ""


def foreseen(forecast: Forecast) -> str:
    """Return what a run may take, in a sentence."""
    if forecast.tokens is None:
        named = f"the {forecast.unknown[0]}" if len(forecast.unknown) == 1 else "these models"
        return (
            f"No call of {named} is stored yet, so tokens, money and minutes cannot be told; "
            "--max-calls, --max-tokens, --max-usd and --max-minutes are hard caps."
        )
    usd = "at a price that is not known" if forecast.usd is None else f"${forecast.usd:,.2f}"
    known = f"By what such calls took before: at most about {forecast.tokens:,} tokens, {usd}"
    if forecast.minutes is None:
        return f"{known}; each batch takes its vendor minutes, or up to a day."
    return f"{known}, {forecast.minutes:,.1f} minutes."


def told_uncounted(n_again: int) -> str:
    """Return what an estimate leaves out, in a line of its own: the calls that ask again, and what fails."""
    calls = f"up to {counted(n_again, 'call')} that ask again for replies which cannot be used, and " if n_again else ""
    return f"\nNot counted: {calls}repeats of sends that fail."
