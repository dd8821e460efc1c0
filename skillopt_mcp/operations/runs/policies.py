"""Policies: what another search gate would have made of a finished run's evidence; no model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from pydantic import BaseModel

from skillopt_mcp.errors import BadInput, NotFound
from skillopt_mcp.gates.confirm import ConfirmRule, confirm
from skillopt_mcp.gates.paired import values
from skillopt_mcp.gates.recompute import StrictInputs, search_comparison
from skillopt_mcp.gates.regression import fallen
from skillopt_mcp.gates.strict import TaskScore
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Decision
from skillopt_mcp.records.evidence import Metric, Pair, SearchGate
from skillopt_mcp.records.runs import Run

CONFIRM = "confirm"
POLICIES = (*get_args(SearchGate), CONFIRM)
UNKNOWN = "unknown"
# These compare with rollouts of the current version that it was not accepted for.
_ANEW = ("fresh", "paired_se")
_ACCEPTED = ("accept", "accept_best")


class PolicyRow(BaseModel):
    """One step with a verdict: the one it got, and what the other gate says of its candidate.

    `current` is the score of the version that the other gate would have had: what it accepted last. `other` is
    "unknown" from the step on where that takes rollouts that the run did not make.
    """

    step: int
    gate: str
    verdict: str
    other: str
    candidate: float
    current: float
    n: int


class Replayed(Result):
    """The candidates of a run under another gate. After the first verdict that differs others would have been made."""

    run_id: str
    policy: str
    rows: list[PolicyRow]
    n_differing: int
    unknown_from: int | None = None


@dataclass(frozen=True, slots=True)
class _Seen:
    """One step's decision, its evidence under the metric that is asked for, and the best version that it met."""

    step: int
    decision: Decision
    inputs: StrictInputs
    best: str


@dataclass(frozen=True, slots=True)
class _Standing:
    """The versions that the other gate would have by now, and their scores; None where no fresh ones are stored."""

    current: str
    scores: list[TaskScore] | None
    best: str
    best_scores: list[TaskScore] | None


def replay_policy(workspace: Workspace, skill: str, policy: str, metric: Metric | None = None) -> Replayed:
    """Return what another gate (or metric) makes of each candidate of the newest run of a skill, or of a run by its id.

    Its own current and best version are carried on from step to step. Raises BadInput for a gate that is none, NotFound
    when there is no run.
    """
    if policy not in POLICIES:
        raise BadInput(f"no gate is called '{policy}': use one of {', '.join(POLICIES)}")
    run = _run(workspace, skill)
    seen = _seen(workspace, run, metric)
    rows: list[PolicyRow] = []
    standing: _Standing | None = None
    unknown_from = None
    for each in seen:
        standing = standing or _Standing(
            each.decision.base_version, each.inputs.current, each.best, each.inputs.best or each.inputs.current
        )
        inputs = None if unknown_from else _carried(policy, each, standing)
        if inputs is None:
            unknown_from = unknown_from or each.step
        row = _row(policy, each, inputs)
        rows.append(row)
        standing = _moved(policy, seen, each, standing, row.other)
    differing = [row.step for row in rows if row.other != UNKNOWN and _is_other(policy, row)]
    return Replayed(
        run_id=run.id,
        policy=policy,
        rows=rows,
        n_differing=len(differing),
        unknown_from=unknown_from,
        next_step=_told(policy, differing, unknown_from),
    )


def _seen(workspace: Workspace, run: Run, metric: Metric | None) -> list[_Seen]:
    found, best = [], run.base_version
    for step in workspace.store.runs.list_steps(run.id):
        decision = workspace.store.decisions.latest_in(f"{run.id}/{step.n}")
        if decision is not None:
            inputs = StrictInputs.model_validate_json(decision.inputs)
            inputs = inputs.model_copy(update={"metric": metric}) if metric else inputs
            found.append(_Seen(step.n, decision, inputs, best))
        best = step.best_version
    return found


def _carried(policy: str, each: _Seen, standing: _Standing) -> StrictInputs | None:
    """Return the evidence of a step beside the versions that the gate would have; None where the store lacks it."""
    inputs, is_same = each.inputs, standing.current == each.decision.base_version
    if not (policy == each.decision.gate and is_same and standing.best == each.best):
        if standing.scores is None or standing.best_scores is None:
            return None
        best = None if standing.best == standing.current else standing.best_scores
        again = inputs.again if is_same else None
        inputs = inputs.model_copy(update={"current": standing.scores, "best": best, "again": again})
    if policy != "no_regression" or inputs.again or search_comparison("strict", inputs).verdict == "reject":
        return inputs
    # What fell has to be looked at twice before it is a veto.
    return None if fallen(inputs.candidate, inputs.current, inputs.metric, inputs.mixed_weight) else inputs


def _row(policy: str, each: _Seen, inputs: StrictInputs | None) -> PolicyRow:
    found = search_comparison("strict", inputs or each.inputs)
    return PolicyRow(
        step=each.step,
        gate=each.decision.gate,
        verdict=each.decision.verdict,
        other=UNKNOWN if inputs is None else _verdict(policy, inputs),
        candidate=round(found.candidate, 4),
        current=round(found.current, 4),
        n=found.n,
    )


def _moved(policy: str, seen: Sequence[_Seen], each: _Seen, standing: _Standing, verdict: str) -> _Standing:
    if verdict not in _ACCEPTED:
        return standing
    version = each.decision.version_id
    scores = _anew(seen, each.step, version) if policy in _ANEW else each.inputs.candidate
    if verdict == "accept_best" or policy == CONFIRM:
        return _Standing(version, scores, version, scores)
    return _Standing(version, scores, standing.best, standing.best_scores)


def _anew(seen: Sequence[_Seen], after: int, version: str) -> list[TaskScore] | None:
    """Return scores of a version from rollouts that it was not accepted for, where the run made some later on."""
    later = (each for each in seen if each.step > after and each.decision.gate in _ANEW)
    return next((each.inputs.current for each in later if each.decision.base_version == version), None)


def _verdict(policy: str, inputs: StrictInputs) -> str:
    for gate in get_args(SearchGate):
        if policy == gate:
            return search_comparison(gate, inputs).verdict
    ours, theirs = (values(scores, inputs.metric, inputs.mixed_weight) for scores in (inputs.candidate, inputs.current))
    return confirm([Pair(theirs[task], ours[task]) for task in ours if task in theirs], ConfirmRule()).verdict


def _is_other(policy: str, row: PolicyRow) -> bool:
    """Return whether a verdict moves the run otherwise than the one that it got."""
    if policy == CONFIRM or row.other not in _ACCEPTED or row.verdict not in _ACCEPTED:
        return (row.other in _ACCEPTED) != (row.verdict in _ACCEPTED)
    return row.other != row.verdict


def _told(policy: str, differing: Sequence[int], unknown_from: int | None) -> str:
    lacking = (
        f"it cannot be told from the store: {policy} asks for rollouts that this run did not make"
        if unknown_from
        else ""
    )
    if differing:
        first = f"After step {differing[0]} the run itself would have gone another way, with other candidates."
        return f"{first} From step {unknown_from} on {lacking}." if unknown_from else first
    if unknown_from:
        before = "Before that the run would have gone the same way" if unknown_from > 1 else ""
        return f"From step {unknown_from} on {lacking}.{f' {before}.' if before else ''}"
    return "The run would have gone the same way."


def _run(workspace: Workspace, name: str) -> Run:
    if name.startswith("r-"):
        return workspace.store.runs.get_run(name)
    tracked = workspace.recorded(name)
    runs = workspace.store.runs.list_runs(tracked.id)
    if not runs:
        raise NotFound(f"'{tracked.name}' has no run yet: start one with 'skillopt-mcp replay {tracked.name}'")
    return runs[-1]
