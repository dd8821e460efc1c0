"""Training: the loop over the six stages, one transaction a step; it goes on from whatever the store holds."""

from __future__ import annotations

from dataclasses import replace

from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.gates.means import mean_score
from skillopt_mcp.optimizer.credit import rescue
from skillopt_mcp.optimizer.epochs import meta_work, slow_work
from skillopt_mcp.optimizer.outcomes import step_outcome
from skillopt_mcp.optimizer.plan import Plan, State, Work, steps
from skillopt_mcp.optimizer.progress import Notify, Progress, silent
from skillopt_mcp.optimizer.search import gate, moved, restored
from skillopt_mcp.optimizer.silence import heard, heard_candidate
from skillopt_mcp.optimizer.turns import Turn
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.stages.aggregate import aggregate
from skillopt_mcp.stages.budget import autonomous_budget
from skillopt_mcp.stages.reflect import ReflectSettings, reflect
from skillopt_mcp.stages.rollout import rollout, trajectories
from skillopt_mcp.stages.select import select
from skillopt_mcp.stages.update import NOTED, annotate, update
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tracing import span


def train(plan: Plan, store: Store, ask: Ask, notify: Notify = silent) -> State:
    """Return the state after the last step. Finished steps are in the store: a call after a crash goes on from there.

    The loop is SkillOpt's (Yang et al., 2026): rollout, reflect, aggregate, select, update, evaluate; at the end of an
    epoch a slow update, gated as a step is, and notes for the optimizer. Raises Outage where attempts came to nothing.
    """
    notify(Progress("baseline", 0, 0, plan.n_rows))
    state, config = restored(plan, store, ask), plan.config
    heard(store, plan.run_id, state.evaluation.trials, "the val tasks")
    for step in steps(plan, after=state.n):
        with span("step", n=step.n, epoch=step.epoch, kind=step.kind):
            turn = Turn(plan, store, ask, notify, state, step)
            work = _WORK[step.kind](turn)
            # Evaluate: the search gate compares the candidate with the current version on the val tasks.
            if step.kind != "meta":
                turn.tell("evaluate")
            work = replace(work, gated=gate(plan, ask, state, work))
            if config.rescue and work.gated.verdict == "reject":
                work = _rescued(turn, work)
            before, state = state, moved(plan, ask, state, work.applied.files, work.gated)
            for evaluation in filter(None, (work.gated.evaluation, state.evaluation)):
                heard_candidate(store, plan.run_id, evaluation.trials)
            store.runs.add_step(plan.run_id, step_outcome(plan, step, before, state, work))
            notify(_finished(turn, state, work))
    return state


def _rescued(turn: Turn, work: Work) -> Work:
    """Return the work with the good part of a rejected bundle, when the gate accepts that; else as it was.

    Notes in the appendix are no part of a bundle: they are not edits of the text.
    """
    plan, ask, state = turn.plan, turn.ask, turn.state
    applied = [
        edit
        for edit, report in zip(work.selected.edits, work.applied.reports, strict=True)
        if report.status == "applied" and report.detail != NOTED
    ]
    if len(applied) < 2:
        return work
    turn.tell("rescue")
    kept = rescue(ask, state.current, applied, plan.val, draw=f"{turn.step.draw}/rescue")
    if not 0 < len(kept) < len(applied):
        return work
    patch = replace(work.selected, edits=tuple(applied[place] for place in kept))
    part = replace(work, selected=patch, applied=apply_patch(state.current, patch))
    gated = gate(plan, ask, state, part)
    return replace(part, gated=gated) if gated.verdict in ("accept_best", "accept") else work


def step_work(turn: Turn) -> Work:
    """Return what the stages up to the candidate made of a step's batches."""
    ask, config, current, brief = turn.ask, turn.plan.config, turn.state.current, turn.brief()
    # Rollout: the current version attempts the batches of train tasks.
    turn.tell("rollout")
    trials = rollout(ask, turn.attempts())
    heard(turn.store, turn.plan.run_id, trials, "the train tasks")
    # Reflect: the optimizer reads failures, successes and contrasts, in minibatches, and proposes patches.
    turn.tell("reflect")
    settings = ReflectSettings(
        config.minibatch, config.trajectory_chars, config.failure_only, config.skill_aware, config.appendix_source
    )
    reflection = reflect(ask, current, [*trajectories(trials), *turn.plan.sessions], brief, settings)
    # Aggregate: the patches become one.
    turn.tell("aggregate")
    aggregation = aggregate(ask, current, reflection.patches, brief, config.fan_in)
    # Select: only as many edits stay as this step's budget allows, or as the optimizer itself says.
    turn.tell("select")
    pool, unusable = aggregation.patch, (*reflection.unusable, *aggregation.unusable)
    if config.schedule == "autonomous" and not brief.form.whole:
        budget = autonomous_budget(ask, current, pool, brief, mean_score(trials), fallback=config.min_edits)
        brief, unusable = replace(brief, budget=budget.n), (*unusable, *budget.unusable)
    selection = select(ask, current, pool, brief)
    # Update: the edit engine, or a rewrite, makes the candidate; notes on what was passed over go with it.
    made = annotate(update(ask, current, selection.patch, brief), reflection.notes, config.appendix_limit)
    unusable = (*unusable, *selection.unusable, *made.unusable)
    return Work(tuple(trials), brief.budget, len(pool.edits), made.patch, made.applied, unusable, reflection.patterns)


def _finished(turn: Turn, state: State, work: Work) -> Progress:
    """Return the news of a step: its verdict, and the scores after it."""
    evaluation = work.gated.evaluation
    return Progress(
        "step", turn.step.epoch, turn.step.n, turn.plan.n_rows, state.evaluation.score, state.best_score,
        work.gated.verdict, evaluation.score if evaluation else None,
    )  # fmt: skip


_WORK = {"step": step_work, "slow": slow_work, "meta": meta_work}
