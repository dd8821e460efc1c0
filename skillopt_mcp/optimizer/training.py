"""Training: the loop over the six stages, one transaction a step; it goes on from whatever the store holds."""

from __future__ import annotations

from skillopt_mcp.guard import findings
from skillopt_mcp.optimizer.outcomes import step_outcome
from skillopt_mcp.optimizer.plan import Gated, Plan, State, Step, Work, steps
from skillopt_mcp.optimizer.progress import Notify, Progress, silent
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.edits import Applied
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.stages.aggregate import MergeSettings, aggregate
from skillopt_mcp.stages.evaluate import Evaluation, evaluate, search_verdict
from skillopt_mcp.stages.reflect import ReflectSettings, reflect
from skillopt_mcp.stages.rollout import Attempt, rollout, trajectories
from skillopt_mcp.stages.select import select
from skillopt_mcp.stages.update import update
from skillopt_mcp.store.opening import Store


def train(plan: Plan, store: Store, ask: Ask, notify: Notify = silent) -> State:
    """Return the state after the last step. Finished steps are in the store: a call after a crash goes on from there.

    The loop is SkillOpt's (Yang et al., 2026): rollout, reflect, aggregate, select, update, evaluate.
    """
    notify(Progress("baseline", 0, 0, plan.n_steps))
    state = _restored(plan, store, ask)
    for step in steps(plan, after=state.n):
        progress = Progress("rollout", step.epoch, step.n - 1, plan.n_steps, state.evaluation.score, state.best_score)
        # Rollout: the current version attempts a batch of train tasks.
        notify(progress)
        trials = rollout(ask, [Attempt(state.current, task, step.draw) for task in step.tasks])
        # Reflect: the optimizer reads failures and successes, in minibatches, and proposes patches.
        notify(progress.at("reflect"))
        evidence = [*trajectories(trials), *plan.sessions]
        settings = ReflectSettings(step.budget, plan.config.minibatch, plan.prompts, step.draw)
        reflection = reflect(ask, state.current, evidence, settings)
        # Aggregate: the patches become one.
        notify(progress.at("aggregate"))
        merging = MergeSettings(plan.config.fan_in, plan.prompts, step.budget, step.draw)
        aggregation = aggregate(ask, state.current, reflection.patches, merging)
        # Select: only as many edits stay as this step's budget allows.
        notify(progress.at("select"))
        selection = select(ask, state.current, aggregation.patch, step.budget, plan.prompts, draw=step.draw)
        # Update: the edit engine makes the candidate.
        applied = update(state.current, selection.patch, step.budget)
        # Evaluate: the search gate compares the candidate with the current version on the val tasks.
        notify(progress.at("evaluate"))
        gated = _gate(plan, ask, state, applied)
        unusable = (*reflection.unusable, *aggregation.unusable, *selection.unusable)
        work = Work(tuple(trials), len(aggregation.patch.edits), selection.patch, applied, gated, unusable)
        before, state = state, _moved(state, applied.files, gated)
        store.runs.add_step(plan.run_id, step_outcome(plan, step, before, state, work))
        notify(_finished(plan, step, state, gated))
    return state


def _restored(plan: Plan, store: Store, ask: Ask) -> State:
    """Return the state after the last stored step, or the base version's when there is none."""
    finished = store.runs.list_steps(plan.run_id)
    if not finished:
        evaluation = _evaluated(plan, ask, plan.base)
        return State(0, plan.base, evaluation, plan.base, evaluation)
    last = finished[-1]
    current = store.skills.get_files(plan.skill_id, last.current_version)
    best = store.skills.get_files(plan.skill_id, last.best_version)
    return State(last.n, current, _evaluated(plan, ask, current), best, _evaluated(plan, ask, best))


def _evaluated(plan: Plan, ask: Ask, files: SkillFiles) -> Evaluation:
    return evaluate(ask, files, plan.val, plan.config.metric, draw=f"{plan.run_id}/val")


def _gate(plan: Plan, ask: Ask, state: State, applied: Applied) -> Gated:
    if applied.files == state.current:
        return Gated("no_change")
    found = findings(state.current, applied.files)
    if found:
        return Gated("held", findings=found)
    evaluation = _evaluated(plan, ask, applied.files)
    comparison = search_verdict(evaluation, state.evaluation, state.best_evaluation, plan.config.metric)
    return Gated(comparison.verdict, evaluation=evaluation, comparison=comparison)


def _moved(state: State, candidate: SkillFiles, gated: Gated) -> State:
    """Return the state after the verdict: a rejection or a held candidate leaves both versions where they are."""
    n, evaluation = state.n + 1, gated.evaluation
    if gated.verdict == "accept_best" and evaluation:
        return State(n, candidate, evaluation, candidate, evaluation)
    if gated.verdict == "accept" and evaluation:
        return State(n, candidate, evaluation, state.best, state.best_evaluation)
    return State(n, state.current, state.evaluation, state.best, state.best_evaluation)


def _finished(plan: Plan, step: Step, state: State, gated: Gated) -> Progress:
    candidate = gated.evaluation.score if gated.evaluation else None
    return Progress(
        "step", step.epoch, step.n, plan.n_steps, state.evaluation.score, state.best_score, gated.verdict, candidate
    )
