"""Serving: which models really answered in a promotion test, and what is left of a verdict where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from skillopt_mcp.documents.text import escaped
from skillopt_mcp.records.calls import models_in
from skillopt_mcp.records.evidence import Confirmation, Served, Trial

Arm = Literal["base", "candidate"]
PAIRS_TO_DECIDE = 8
"""After how many pairs it is no chance any more that each version was answered by models of its own: where one of two
models serves each answer by lot, that happens in 1 of 32,000 tests."""
_MOST_NAMED = 3
_MOST_CHARACTERS = 60


@dataclass(slots=True)
class Serving:
    """The models of a promotion test, taken in pair by pair: after which pair each first answered for an arm."""

    first: dict[Arm, dict[str, int]] = field(default_factory=lambda: {"base": {}, "candidate": {}})

    def take(self, n: int, arm: Arm, served: str) -> None:
        """Take in the name that an answer of the n-th pair was served by, empty where it is not known."""
        for model in models_in(served):
            self.first[arm][model] = min(n, self.first[arm].get(model, n))

    def hear(self, first: int, trials: Sequence[Trial], candidate: str) -> None:
        """Take in the trials of pairs from the `first` on, two of each; one version is the `candidate`."""
        for k, trial in enumerate(trials):
            self.take(first + k // 2, "candidate" if trial.version == candidate else "base", trial.reply.served)

    def before(self, n_pairs: int) -> Served:
        """Return the models that answered in the first pairs."""
        base, candidate = (
            tuple(sorted(model for model, n in self.first[arm].items() if n < n_pairs)) for arm in ("base", "candidate")
        )
        return Served(base, candidate)


def as_served(found: Confirmation, served: Served) -> Confirmation:
    """Return what a verdict is where these models answered.

    Where none answered for both versions it is no verdict on the texts, and after a few pairs no more are drawn: the
    first pairs stay what they are.
    """
    # Only an accept rests on answers of both: without one, a version without a named model may have had none.
    text = describe_served(served) if found.verdict == "accept" or (served.base and served.candidate) else ""
    if not served.are_disjoint:
        return replace(found, served=served, reason=f"{found.reason}; {text}" if text else found.reason)
    is_mixed = found.verdict != "undecided" or found.n_pairs >= PAIRS_TO_DECIDE
    return replace(
        found,
        verdict="undecided",
        reason=f"{text}, and decides nothing about them" if is_mixed else f"{found.reason}; {text}",
        n_expected=None if is_mixed else found.n_expected,
        served=served,
        is_mixed=is_mixed,
    )


def describe_served(served: Served) -> str:
    """Return that more than one model answered; empty where one did for both versions, or it is not known."""
    if not served.differ:
        changed = f"both versions were answered by {listed(served.base)}: the model changed in the course of the test"
        return changed if len(served.base) > 1 else ""
    part = "this" if served.are_disjoint else "in part this"
    return (
        f"live answered by {listed(served.base)}, candidate by {listed(served.candidate)}: {part} compares models, "
        "not texts"
    )


def listed(models: Sequence[str]) -> str:
    """Return the names of models in words, the first ones of many."""
    if not models:
        return "a model that is not named"
    shown = [escaped(model[:_MOST_CHARACTERS]) for model in models[:_MOST_NAMED]]
    left = len(models) - len(shown)
    *rest, last = [*shown, f"{left} more"] if left else shown
    return f"{', '.join(rest)} and {last}" if rest else last
