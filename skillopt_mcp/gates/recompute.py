"""Recompute: what a decision keeps of its evidence, and the verdict that follows from it, then as now."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.gates.confirm import ConfirmRule, confirm
from skillopt_mcp.gates.strict import TaskScore, compare
from skillopt_mcp.records.evidence import ConfirmVerdict, Metric, Pair, SearchVerdict


class StrictInputs(BaseModel):
    """The evidence of a strict verdict; `best` is None where the current version is the best."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    metric: Metric
    candidate: list[TaskScore]
    current: list[TaskScore]
    best: list[TaskScore] | None = None


class ConfirmInputs(BaseModel):
    """The rule of a promotion verdict, and how many pairs of its `confirmation` it rests on."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    confirmation: str
    n_pairs: int = Field(ge=0)
    alpha: float
    beta: float
    min_effect: float


def strict_verdict(inputs: str) -> SearchVerdict:
    """Return the verdict of a strict decision from its `inputs` (json). Raises pydantic.ValidationError."""
    given = StrictInputs.model_validate_json(inputs)
    best = given.current if given.best is None else given.best
    return compare(given.candidate, given.current, best, given.metric).verdict


def confirm_verdict(pairs: Sequence[Pair], inputs: str) -> ConfirmVerdict:
    """Return the verdict of a confirm decision from its `inputs` (json) and its test's pairs, in drawn order.

    Raises pydantic.ValidationError when the inputs are none, BadInput when a value in them makes no sense.
    """
    given = ConfirmInputs.model_validate_json(inputs)
    rule = ConfirmRule(given.alpha, given.beta, given.min_effect, max_pairs=max(1, given.n_pairs))
    return confirm(pairs[: given.n_pairs], rule).verdict
