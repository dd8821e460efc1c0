"""Recompute: what a decision keeps of its evidence, and the verdict that follows from it, then as now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.calibration import Calibration, calibrated
from skillopt_mcp.gates.confirm import ConfirmRule, confirm
from skillopt_mcp.gates.search import EVEN, Comparison, Rerun, TaskScore, compare, fallen, no_regression, paired_se
from skillopt_mcp.gates.serving import as_served
from skillopt_mcp.records.evidence import (
    Claim,
    Confirmation,
    ConfirmVerdict,
    Metric,
    Pair,
    SearchGate,
    SearchVerdict,
    Served,
)

MEASURED = "measured"
PERSON = "person"
"""The gate that a person is who is asked about a change."""
PersonVerdict = Literal["declined", "unheard"]
"""They said no; or their host did, which may not have asked them."""


class StrictInputs(BaseModel):
    """The evidence of a search verdict; `best` is None where the current version is the best.

    `again` holds the second rollouts (candidate, current) that the no_regression gate asked for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    metric: Metric
    mixed_weight: float = Field(default=EVEN, ge=0, le=1)
    candidate: list[TaskScore]
    current: list[TaskScore]
    best: list[TaskScore] | None = None
    again: tuple[list[TaskScore], list[TaskScore]] | None = None


class ConfirmInputs(BaseModel):
    """The rule of a promotion verdict, and how many pairs of its `confirmation` it rests on.

    `served` are the models that answered in those pairs, None where it is not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    confirmation: str
    n_pairs: int = Field(ge=0)
    alpha: float
    beta: float
    min_effect: float
    margin: float = 0.0
    claim: Claim = "these"
    served: Served | None = None

    @property
    def rule(self) -> ConfirmRule:
        """Return the rule that was asked for, up to the pairs that the verdict rests on. Raises BadInput."""
        return ConfirmRule(self.alpha, self.beta, self.min_effect, max(1, self.n_pairs), self.margin, self.claim)


def inputs_of(confirmation: str, rule: ConfirmRule, found: Confirmation) -> str:
    """Return what a verdict of a promotion test keeps of its evidence, as json."""
    inputs = ConfirmInputs(
        confirmation=confirmation,
        n_pairs=found.n_pairs,
        alpha=rule.alpha,
        beta=rule.beta,
        min_effect=rule.min_effect,
        margin=rule.margin,
        claim=rule.claim,
        served=found.served if found.served != Served() else None,
    )
    # Where it is not known who answered, nothing is added: a verdict is stored once.
    return inputs.model_dump_json(exclude_none=True)


class AskedRule(BaseModel):
    """What a promotion test asks of its pairs from its opening on; its error rate and claim are columns."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    beta: float
    min_effect: float
    margin: float = 0.0


def asked_of(rule: ConfirmRule) -> str:
    """Return what a rule asks of the pairs, as json to keep with the test."""
    asked = AskedRule(beta=rule.beta, min_effect=rule.min_effect, margin=rule.margin)
    return asked.model_dump_json()


def rule_asking(asked: str, rule: ConfirmRule) -> ConfirmRule:
    """Return a rule with what was asked of the pairs (json of `asked_of`) in its place. Raises BadInput."""
    kept = AskedRule.model_validate_json(asked)
    return replace(rule, beta=kept.beta, min_effect=kept.min_effect, margin=kept.margin)


def search_comparison(gate: SearchGate, inputs: StrictInputs) -> Comparison:
    """Return what a search gate makes of recorded evidence, whichever gate it was recorded for."""
    best = inputs.current if inputs.best is None else inputs.best
    metric, weight = inputs.metric, inputs.mixed_weight
    if gate == "paired_se":
        return paired_se(inputs.candidate, inputs.current, best, metric, weight)
    found = compare(inputs.candidate, inputs.current, best, metric, weight)
    if gate == "no_regression":
        n_fallen = len(fallen(inputs.candidate, inputs.current, metric, weight))
        return no_regression(found, n_fallen, Rerun(*inputs.again) if inputs.again else Rerun(), metric, weight)
    return found


def search_verdict(gate: SearchGate, inputs: str) -> SearchVerdict:
    """Return the verdict of a search decision from its `inputs` (json). Raises pydantic.ValidationError."""
    return search_comparison(gate, StrictInputs.model_validate_json(inputs)).verdict


def confirmed(pairs: Sequence[Pair], inputs: ConfirmInputs) -> Confirmation:
    """Return the whole outcome of a confirm decision from its test's pairs, in drawn order. Raises BadInput."""
    return as_served(confirm(pairs[: inputs.n_pairs], inputs.rule), inputs.served or Served())


def confirm_verdict(pairs: Sequence[Pair], inputs: str) -> ConfirmVerdict:
    """Return the verdict of a confirm decision from its `inputs` (json) and its test's pairs, in drawn order.

    Raises pydantic.ValidationError when the inputs are none, BadInput when a value in them makes no sense.
    """
    return confirmed(pairs, ConfirmInputs.model_validate_json(inputs)).verdict


class CalibrateInputs(BaseModel):
    """Scores of one version against itself, pair by pair."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    laps: list[tuple[float | None, float | None]]

    @property
    def calibration(self) -> Calibration:
        """Return what they show. Raises BadInput when no pair has both scores."""
        return calibrated([Pair(*lap) for lap in self.laps])


class PersonInputs(BaseModel):
    """Which change was answered with no, for the `n`-th time, by whom, and which promotion test was shown."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    kind: str
    evidence: str
    n: int
    verdict: PersonVerdict


def recomputed(gate: str, inputs: str, pairs: Sequence[Pair] = ()) -> str:
    """Return the verdict that follows from what a decision of any gate keeps, `pairs` being those of its test.

    Raises BadInput for a gate that is none, pydantic.ValidationError when the inputs are none of that gate.
    """
    if gate == "confirm":
        return confirm_verdict(pairs, inputs)
    if gate == "calibrate":
        CalibrateInputs.model_validate_json(inputs)
        return MEASURED
    if gate == PERSON:
        return PersonInputs.model_validate_json(inputs).verdict
    if gate == "none":
        verdict = search_verdict("strict", inputs)
        return "accept" if verdict == "reject" else verdict
    for known in get_args(SearchGate):
        if gate == known:
            return search_verdict(known, inputs)
    raise BadInput(f'gate "{gate}" is unknown to this version; see that it is the one that wrote the store')
