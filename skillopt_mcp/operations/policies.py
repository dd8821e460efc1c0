"""Policies: what another search gate would have made of a finished run's evidence; no model is asked."""

from __future__ import annotations

from typing import get_args

from pydantic import BaseModel

from skillopt_mcp.errors import BadInput, NotFound
from skillopt_mcp.gates.confirm import ConfirmRule, confirm
from skillopt_mcp.gates.paired import values
from skillopt_mcp.gates.recompute import StrictInputs, search_comparison
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.evidence import Metric, Pair, SearchGate
from skillopt_mcp.records.runs import Run

CONFIRM = "confirm"
POLICIES = (*get_args(SearchGate), CONFIRM)


class PolicyRow(BaseModel):
    """One step with a verdict: the one it got, and what the other gate says of the same rows."""

    step: int
    gate: str
    verdict: str
    other: str
    candidate: float
    current: float
    n: int


class Replayed(Result):
    """The steps of a run under another gate. After the first step that differs the run itself would have differed."""

    run_id: str
    policy: str
    rows: list[PolicyRow]
    n_differing: int


def replay_policy(workspace: Workspace, skill: str, policy: str, metric: Metric | None = None) -> Replayed:
    """Return what another gate (or metric) says of each step of the newest run of a skill, or of a run by its id.

    Raises BadInput for a gate that is none, NotFound when there is no run.
    """
    if policy not in POLICIES:
        raise BadInput(f"no gate is called '{policy}': use one of {', '.join(POLICIES)}")
    run = _run(workspace, skill)
    rows = []
    for step in workspace.store.runs.list_steps(run.id):
        decision = workspace.store.decisions.latest_in(f"{run.id}/{step.n}")
        if decision is None:
            continue
        inputs = StrictInputs.model_validate_json(decision.inputs)
        inputs = inputs.model_copy(update={"metric": metric}) if metric else inputs
        other, found = _verdict(policy, inputs), search_comparison("strict", inputs)
        rows.append(
            PolicyRow(
                step=step.n,
                gate=decision.gate,
                verdict=decision.verdict,
                other=other,
                candidate=round(found.candidate, 4),
                current=round(found.current, 4),
                n=found.n,
            )
        )
    differing = [row.step for row in rows if (row.other in ("accept", "accept_best")) != _accepted(row.verdict)]
    return Replayed(
        run_id=run.id,
        policy=policy,
        rows=rows,
        n_differing=len(differing),
        next_step=f"From step {differing[0]} on the run itself would have gone another way."
        if differing
        else "The run would have gone the same way.",
    )


def _verdict(policy: str, inputs: StrictInputs) -> str:
    for gate in get_args(SearchGate):
        if policy == gate:
            return search_comparison(gate, inputs).verdict
    ours, theirs = (values(scores, inputs.metric, inputs.mixed_weight) for scores in (inputs.candidate, inputs.current))
    return confirm([Pair(theirs[task], ours[task]) for task in ours if task in theirs], ConfirmRule()).verdict


def _accepted(verdict: str) -> bool:
    return verdict in ("accept", "accept_best")


def _run(workspace: Workspace, name: str) -> Run:
    if name.startswith("r-"):
        return workspace.store.runs.get_run(name)
    tracked = workspace.skill(name)
    runs = workspace.store.runs.list_runs(tracked.id)
    if not runs:
        raise NotFound(f"'{tracked.name}' has no run yet: start one with 'skillopt-mcp replay {tracked.name}'")
    return runs[-1]
