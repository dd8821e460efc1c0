"""Recompute: what a decision keeps of its evidence, and the verdict that follows from it, then as now."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.core.candidates import PERSON
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Metric, SearchGate, SearchVerdict
from skillopt_mcp.gates.search import EVEN, Comparison, Rerun, TaskScore, compare, fallen, no_regression, paired_se

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


class PersonInputs(BaseModel):
    """Which change was answered with no, for the `n`-th time, by whom, and which promotion test was shown."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    kind: str
    evidence: str
    n: int
    verdict: PersonVerdict


def recomputed(gate: str, inputs: str) -> str:
    """Return the verdict that follows from what a decision of any gate but the promotion test keeps.

    Raises BadInput for a gate that is none, pydantic.ValidationError when the inputs are none of that gate.
    """
    if gate == PERSON:
        return PersonInputs.model_validate_json(inputs).verdict
    if gate == "none":
        verdict = search_verdict("strict", inputs)
        return "accept" if verdict == "reject" else verdict
    for known in get_args(SearchGate):
        if gate == known:
            return search_verdict(known, inputs)
    raise BadInput(f'gate "{gate}" is unknown to this version; see that it is the one that wrote the store')
