"""The training loop: rollout, reflect, aggregate, select, update, evaluate; and what ends an epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.gates.search import TaskScore, mean_score, paired_se
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.guard.findings import unsupported
from skillopt_mcp.prompts.history import render_history, render_step, render_tried
from skillopt_mcp.prompts.rendering import Brief
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.edits import Applied, Edit, Patch
from skillopt_mcp.records.evidence import Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.aggregate import aggregate
from skillopt_mcp.stages.longitudinal import Comparison, compare_versions, meta_skill, slow_update
from skillopt_mcp.stages.reflect import ReflectSettings, reflect
from skillopt_mcp.stages.rollout import Attempt, rollout, trajectories
from skillopt_mcp.stages.select import autonomous_budget, select
from skillopt_mcp.stages.update import NOTED, annotate, update
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tracing import span
from skillopt_mcp.training.outage import heard, heard_candidate, insistent_rollout
from skillopt_mcp.training.plan import (
    Gated,
    Plan,
    State,
    Step,
    Work,
    accepted,
    is_topped,
    look,
    measured,
    step_outcome,
    steps,
)
from skillopt_mcp.training.progress import Notify, Progress, silent

MOST_REJECTED = 20
MAX_LEFT_OUT = 12


def brief_of(plan: Plan, store: Store, step: Step) -> Brief:
    """Return a step's brief, with the epoch's steps so far, the edits rejected in any epoch, and the notes in force."""
    config, history = plan.config, ""
    if step.kind == "meta":
        history = _whole_epoch(plan, store, step.epoch)
    elif config.step_buffer:
        done = store.runs.list_steps(plan.run_id, step.epoch)
        history = render_history(done, store.runs.list_rejected(plan.run_id, MOST_REJECTED), plan.discarded)
    notes = ""
    if config.meta_skill:
        notes = store.runs.latest_note(plan.run_id, step.epoch) or plan.note
    return Brief(plan.prompts, step.budget, step.draw, config.update_mode, notes, history)


def _whole_epoch(plan: Plan, store: Store, epoch: int) -> str:
    """Return all steps of an epoch with every edit that they tried."""
    tried = store.runs.list_tried(plan.run_id, epoch)
    lines = []
    for record in store.runs.list_steps(plan.run_id, epoch):
        lines.append(render_step(record))
        lines += [f"  - tried: {render_tried(each)}" for each in tried if each.n == record.n]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Turn:
    """A step, the state that it starts from, and the ways to the store, to the models, and to whoever watches."""

    plan: Plan
    store: Store
    ask: Ask
    notify: Notify
    state: State
    step: Step

    @property
    def standing(self) -> Progress:
        """Return where the run stands before the step."""
        n_done, n_total = self.step.n - 1, self.plan.n_rows
        return Progress("step", self.step.epoch, n_done, n_total, self.state.evaluation.score, self.state.best_score)

    def tell(self, stage: str) -> None:
        """Say that a stage begins."""
        self.notify(self.standing.at(stage))

    def brief(self) -> Brief:
        """Return what the questions of the step have in common, what is remembered among it."""
        return brief_of(self.plan, self.store, self.step)

    def left_out(self) -> list[Patch]:
        """Return the edits that were beyond the budget of the step before, as far as they still fit."""
        records = [each for each in self.store.runs.list_steps(self.plan.run_id) if each.kind == "step"]
        edits = records[-1].left_out if records else ()
        if self.plan.config.update_mode == "patch":
            current = self.state.current
            edits = tuple(each for each in edits if apply_patch(current, Patch((each,))).files != current)
        return [Patch(edits, "left out by the step before")] if edits else []

    def attempts(self) -> list[Attempt]:
        """Return the rollouts of the step: a further batch, or a further attempt at a task, has a draw of its own.

        An attempt that was made before on the same text (`Step.draws`) is used again.
        """
        draw, before = self.step.draw, self.step.draws
        return [
            Attempt(self.state.current, task, before.get(task.id) or draw + f"/b{b}" * (b > 0) + f"/r{r}" * (r > 0))
            for b, batch in enumerate(self.step.batches)
            for task in batch
            for r in range(self.plan.config.repeats)
        ]


def slow_work(turn: Turn) -> Work:
    """Return the work of a slow update: new guidance, made of the same tasks before and after the epoch."""
    turn.tell("slow")
    compared = _compared(turn, turn.state.current)
    heard(turn.store, turn.plan.run_id, compared.trials, "the train tasks")
    made = slow_update(turn.ask, compared, turn.brief(), turn.plan.config.trajectory_chars)
    return Work(compared.trials, 1, len(made.patch.edits), made.patch, made.applied, made.unusable)


def meta_work(turn: Turn) -> Work:
    """Return the work of a meta note: text for the optimizer alone. The rollouts of the slow update serve it again."""
    turn.tell("meta")
    plan, store, compared = turn.plan, turn.store, None
    for record in store.runs.list_steps(plan.run_id, turn.step.epoch):
        if record.kind == "slow":
            compared = _compared(turn, store.skills.get_files(plan.skill_id, record.parent_version))
    note, unusable = meta_skill(turn.ask, turn.state.current, compared, turn.brief(), plan.config.trajectory_chars)
    return Work((), 0, 0, Patch(()), Applied(turn.state.current, ()), unusable, note=note)


def _compared(turn: Turn, current: SkillFiles) -> Comparison:
    """Return `current` beside the version that the epoch before this one ended with."""
    plan, epoch = turn.plan, turn.step.epoch
    before = turn.store.runs.list_steps(plan.run_id, epoch - 1)[-1]
    previous = turn.store.skills.get_files(plan.skill_id, before.current_version)
    return compare_versions(
        turn.ask, (previous, current), plan.train, plan.config.slow_pairs,
        n=plan.config.slow_samples, draw=f"{plan.run_id}/e{epoch}slow",
    )  # fmt: skip


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
    looked = look(plan, ask, state, work.applied.files)
    verdict = looked.comparison.verdict
    if verdict == "reject" and not plan.config.use_gate:
        verdict = "accept"
    return Gated(verdict, looked)


def guard_findings(plan: Plan, work: Work) -> tuple[str, ...]:
    """Return what the guard finds in a candidate against the live version, and in what its edits rest on."""
    edits = tuple(zip(work.selected.edits, work.applied.reports, strict=True))
    evidence = (*trajectories(work.trials), *plan.sessions)
    return (*findings(plan.base, work.applied.files, plan.known), *unsupported(edits, evidence, plan.base))


def moved(plan: Plan, ask: Ask, state: State, candidate: SkillFiles, gated: Gated) -> State:
    """Return the state after the verdict: a rejection leaves both versions where they are."""
    n = state.n + 1
    if gated.looked is None or gated.verdict not in ("accept_best", "accept"):
        return State(n, state.current, state.evaluation, state.best, state.best_evaluation)
    evaluation = accepted(plan, ask, candidate, gated.looked)
    if gated.verdict == "accept_best":
        return State(n, candidate, evaluation, candidate, evaluation)
    return State(n, candidate, evaluation, state.best, state.best_evaluation)


def train(plan: Plan, store: Store, ask: Ask, notify: Notify = silent, *, stop_when_perfect: bool = False) -> State:
    """Return the state after the last step. Finished steps are in the store: a call after a crash goes on from there.

    The loop is SkillOpt's (Yang et al., 2026): rollout, reflect, aggregate, select, update, evaluate; at the end of an
    epoch a slow update, gated as a step is, and notes for the optimizer. Raises Outage where attempts came to nothing.
    """
    notify(Progress("baseline", 0, 0, plan.n_rows))
    state, config = restored(plan, store, ask), plan.config
    heard(store, plan.run_id, state.evaluation.trials, "the val tasks")
    for step in steps(plan, after=state.n):
        # At the best score there is, what is left of the search could change nothing.
        if stop_when_perfect and is_topped(config, state.evaluation.score):
            break
        with span("step", n=step.n, epoch=step.epoch, kind=step.kind):
            turn = Turn(plan, store, ask, notify, state, step)
            work = _WORK[step.kind](turn)
            # Evaluate: the search gate compares the candidate with the current version on the val tasks.
            if step.kind != "meta":
                turn.tell("evaluate")
            work = replace(work, gated=gate(plan, ask, state, work))
            if config.rescue and work.gated.verdict == "reject":
                work = _rescued(turn, work)
            # The guard stops no step: what it finds holds the candidate at promotion.
            if work.gated.verdict != "no_change":
                work = replace(work, findings=guard_findings(plan, work))
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
    # Aggregate: the patches, and what the step before left out, become one.
    turn.tell("aggregate")
    aggregation = aggregate(ask, current, [*turn.left_out(), *reflection.patches], brief, config.fan_in)
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
    return Work(
        tuple(trials), brief.budget, len(pool.edits), made.patch, made.applied, unusable, reflection.patterns,
        left_out=selection.left_out[:MAX_LEFT_OUT],
    )  # fmt: skip


def _finished(turn: Turn, state: State, work: Work) -> Progress:
    """Return the news of a step: its verdict, and the scores after it."""
    evaluation = work.gated.evaluation
    return Progress(
        "step", turn.step.epoch, turn.step.n, turn.plan.n_rows, state.evaluation.score, state.best_score,
        work.gated.verdict, evaluation.score if evaluation else None,
    )  # fmt: skip


_WORK = {"step": step_work, "slow": slow_work, "meta": meta_work}


def rescue(ask: Ask, base: SkillFiles, edits: Sequence[Edit], tasks: Sequence[Task], *, draw: str) -> tuple[int, ...]:
    """Return the places of the edits worth keeping of a rejected bundle, its halves tried on val tasks in turn.

    A part stays when its paired difference is above its standard error; that may be chance, so what is rescued is a
    candidate to test and no more. At most 2 (2 n - 2) rollouts per task.
    """

    def gains(part: tuple[int, ...]) -> bool:
        files = apply_patch(base, Patch(tuple(edits[place] for place in part))).files
        if files == base:
            return False
        own = f"{draw}/{'+'.join(map(str, part))}"
        trials = insistent_rollout(ask, [Attempt(arm, task, own) for arm in (files, base) for task in tasks])
        ours, theirs = _scores(trials[: len(tasks)]), _scores(trials[len(tasks) :])
        return paired_se(ours, theirs, theirs, "hard").verdict != "reject"

    return bisect(len(edits), gains)


def bisect(n_edits: int, gains: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    """Return the places of the edits worth keeping of a rejected bundle, asking `gains` whether a part of it gains.

    Halves are tried in turn: a part that gains is kept whole, one that does not is halved again, down to single edits.
    At most 2 n - 2 questions.
    """
    if n_edits < 2:
        return ()
    middle = n_edits // 2
    return _gaining(tuple(range(middle)), gains) + _gaining(tuple(range(middle, n_edits)), gains)


def _gaining(part: tuple[int, ...], gains: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    if gains(part):
        return part
    if len(part) < 2:
        return ()
    middle = len(part) // 2
    return _gaining(part[:middle], gains) + _gaining(part[middle:], gains)


def _scores(trials: Sequence[Trial]) -> list[TaskScore]:
    return [TaskScore(trial.task.id, trial.hard, trial.soft) for trial in trials]
