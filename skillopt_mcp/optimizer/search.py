"""Search: how the current and the best version move, and where they stood when the run was left."""

from __future__ import annotations

from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.guard.support import unsupported
from skillopt_mcp.optimizer.gating import accepted, look, measured
from skillopt_mcp.optimizer.plan import Gated, Plan, State, Work
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.stages.rollout import trajectories
from skillopt_mcp.store.opening import Store


def restored(plan: Plan, store: Store, ask: Ask) -> State:
    """Return the state after the last stored step, or the base version's when there is none."""
    finished = store.runs.list_steps(plan.run_id)
    if not finished:
        evaluation = measured(plan, ask, plan.base, is_current=True)
        return State(0, plan.base, evaluation, plan.base, evaluation)
    last = finished[-1]
    current = store.skills.get_files(plan.skill_id, last.current_version)
    best = store.skills.get_files(plan.skill_id, last.best_version)
    return State(
        last.n, current, measured(plan, ask, current, is_current=True), best, measured(plan, ask, best, is_current=True)
    )


def gate(plan: Plan, ask: Ask, state: State, work: Work) -> Gated:
    """Return what becomes of a candidate; without a gate it is evaluated all the same, to know the best one."""
    if work.applied.files == state.current:
        return Gated("no_change")
    found = held_by(plan, state.current, work)
    if found:
        return Gated("held", findings=found)
    looked = look(plan, ask, state, work.applied.files)
    verdict = looked.comparison.verdict
    if verdict == "reject" and not plan.config.use_gate:
        verdict = "accept"
    return Gated(verdict, looked=looked)


def held_by(plan: Plan, base: SkillFiles, work: Work) -> tuple[str, ...]:
    """Return what the guard finds in a step's candidate, and in what its edits rest on."""
    edits = tuple(zip(work.selected.edits, work.applied.reports, strict=True))
    evidence = (*trajectories(work.trials), *plan.sessions)
    return (*findings(base, work.applied.files, plan.known), *unsupported(edits, evidence, base))


def moved(plan: Plan, ask: Ask, state: State, candidate: SkillFiles, gated: Gated) -> State:
    """Return the state after the verdict: a rejection or a held candidate leaves both versions where they are."""
    n = state.n + 1
    if gated.looked is None or gated.verdict not in ("accept_best", "accept"):
        return State(n, state.current, state.evaluation, state.best, state.best_evaluation)
    evaluation = accepted(plan, ask, candidate, gated.looked)
    if gated.verdict == "accept_best":
        return State(n, candidate, evaluation, candidate, evaluation)
    return State(n, candidate, evaluation, state.best, state.best_evaluation)
