"""The training loop: rollout, reflect, aggregate, select, update, evaluate; and what ends an epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from skillopt_mcp.core.calls import Ask, AskNextTo, Sharing
from skillopt_mcp.core.edits import Applied, Edit, Patch
from skillopt_mcp.core.errors import NotLoaded
from skillopt_mcp.core.evidence import Trial
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.tracing import span
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.gates.search import TaskScore, mean_score, paired_se
from skillopt_mcp.prompts.history import render_history, render_step, render_tried
from skillopt_mcp.prompts.rendering import Brief
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.gating import GatedStep, advanced, gate, is_topped, measured
from skillopt_mcp.training.outage import (
    raise_if_all_failed,
    raise_if_no_baseline,
    raise_if_unanswered,
    rollout_with_retries,
)
from skillopt_mcp.training.outcome import StepWork, guard_findings, step_outcome
from skillopt_mcp.training.plan import RunPlan, State, Step, steps
from skillopt_mcp.training.progress import Notify, Progress, report_copies, silent
from skillopt_mcp.training.stages.aggregate import aggregate
from skillopt_mcp.training.stages.longitudinal import VersionComparison, compare_versions, meta_skill, slow_update
from skillopt_mcp.training.stages.reflect import Awaited, ReflectSettings, reflect
from skillopt_mcp.training.stages.rollout import Evaluation, PlannedRollout, Rollouts, trajectory_of
from skillopt_mcp.training.stages.select import autonomous_budget, select
from skillopt_mcp.training.stages.update import NOTED, annotate, update

MAX_REJECTED = 20
MAX_LEFT_OUT = 12


@dataclass(frozen=True, slots=True)
class Turn:
    """A step, the state that it starts from, and the ways to the store, to the models and to the callbacks.

    `ahead` are its rollouts, where they were begun while the step before was evaluated.
    """

    plan: RunPlan
    store: Store
    ask: Ask
    notify: Notify
    state: State
    step: Step
    ahead: Rollouts | None = None

    def report(self, stage: str, trials: Sequence[Trial] = ()) -> None:
        """Report that a stage begins, with what the `trials` of the step solved."""
        solved = mean_score(trials)
        self.notify(
            Progress(
                stage, self.step.epoch, self.step.n - 1, self.plan.n_rows, self.state.evaluation.score,
                self.state.best_score, train=solved.hard if solved.n else None,
            )
        )  # fmt: skip

    def brief(self) -> Brief:
        """Return what the questions of the step have in common: prompts, this epoch's steps, rejected edits, notes."""
        plan, store, step, history, notes = self.plan, self.store, self.step, "", ""
        records = store.runs.list_steps(plan.run_id, step.epoch)
        if step.kind == "meta":
            # A meta note is written from the whole epoch, with every edit that it tried.
            tried, lines = store.runs.list_tried(plan.run_id, step.epoch), list[str]()
            for record in records:
                lines.append(render_step(record))
                lines += [f"  - tried: {render_tried(each)}" for each in tried if each.n == record.n]
            history = "\n".join(lines)
        elif plan.config.step_buffer:
            history = render_history(records, store.runs.list_rejected(plan.run_id, MAX_REJECTED), plan.discarded)
        if plan.config.meta_skill:
            notes = store.runs.latest_note(plan.run_id, step.epoch) or plan.note
        if plan.config.preferences:
            notes = f"What the person wants of edits: {plan.config.preferences}\n\n{notes}".strip()
        return Brief(plan.prompts, step.budget, step.draw, plan.config.update_mode, notes, history, self.state.other)

    def left_out(self) -> list[Patch]:
        """Return the edits that were beyond the budget of the step before, as far as they still fit."""
        records = [each for each in self.store.runs.list_steps(self.plan.run_id) if each.kind == self.step.kind]
        edits = records[-1].left_out if records else ()
        if self.plan.config.update_mode == "patch":
            current = self.state.current
            edits = tuple(each for each in edits if apply_patch(current, Patch((each,))).files != current)
        return [Patch(edits, "left out by the step before")] if edits else []

    def begin_rollouts(self) -> Rollouts:
        """Begin the rollouts of the step: a further batch, or a further attempt at a task, has a draw of its own.

        An attempt that was made before on the same text (`Step.draws`) is used again.
        """
        draw, before, current = self.step.draw, self.step.draws, self.state.current
        attempts = [
            PlannedRollout(current, task, before.get(task.id) or draw + f"/b{b}" * (b > 0) + f"/r{r}" * (r > 0))
            for b, batch in enumerate(self.step.batches)
            for task in batch
            for r in range(self.plan.config.repeats)
        ]
        return Rollouts(self.ask, attempts)


def step_work(turn: Turn, n_success: int | None = None) -> StepWork:
    """Return what the first five stages of SkillOpt's loop (Yang et al., 2026) make of a step's batches."""
    ask, config, current, brief = turn.ask, turn.plan.config, turn.state.current, turn.brief()
    # 1. Rollout: the current version attempts the batches of train tasks.
    turn.report("rollout")
    rollouts = turn.ahead or turn.begin_rollouts()
    # 2. Reflect: the optimizer reads failures, successes and contrasts, in minibatches, and proposes patches. Where
    # attempts land one by one, a minibatch is read as soon as its own have.
    settings = ReflectSettings(
        config.minibatch,
        config.trajectory_chars,
        config.failure_only,
        config.skill_aware,
        config.appendix_source,
        n_success,
    )

    def all_landed() -> None:
        trials = rollouts.get_all()
        raise_if_all_failed(turn.store, turn.plan.run_id, trials, "the train tasks")
        if turn.step.n == 1:
            report_copies(turn.notify, trials)
        turn.report("reflect", trials)

    awaited = [
        Awaited(each.task.id, lambda n=n: trajectory_of(rollouts.get(n)))  # type: ignore[misc]
        for n, each in enumerate(rollouts.attempts)
    ]
    reflection = reflect(ask, current, [*awaited, *turn.plan.sessions], brief, settings, all_landed)
    trials = rollouts.get_all()
    # 3. Aggregate: the patches, and what the step before left out, become one.
    turn.report("aggregate", trials)
    patches = [*turn.left_out(), *reflection.patches]
    aggregation = aggregate(ask, current, patches, brief, config.fan_in, at_once=config.one_merge)
    # 4. Select: only as many edits stay as this step's budget allows, or as the optimizer itself says.
    turn.report("select", trials)
    pool, unusable = aggregation.patch, (*reflection.unusable, *aggregation.unusable)
    if config.schedule == "autonomous" and not brief.form.whole:
        budget = autonomous_budget(ask, current, pool, brief, mean_score(trials), fallback=config.min_edits)
        brief, unusable = replace(brief, budget=budget.n), (*unusable, *budget.unusable)
    selection = select(ask, current, pool, brief)
    # 5. Update: the edit engine, or a rewrite, makes the candidate; notes on what was passed over go with it.
    turn.report("update", trials)
    made = annotate(update(ask, current, selection.patch, brief), reflection.notes, config.appendix_limit)
    unusable = (*unusable, *selection.unusable, *made.unusable)
    return StepWork(
        tuple(trials), brief.budget, len(pool.edits), made.patch, made.applied, unusable, reflection.patterns,
        left_out=selection.left_out[:MAX_LEFT_OUT],
    )  # fmt: skip


def step_alone(plan: RunPlan, store: Store, ask: Ask, notify: Notify, draws: Mapping[int, str]) -> StepWork:
    """The work of one step from the base version of a plan, all its train tasks one batch, with no search around it."""
    step = Step(1, 1, (plan.train,) if plan.train else (), plan.config.max_edits, plan.run_id, draws=draws)
    nothing = Evaluation((), mean_score(()), 0.0)
    # One look at what succeeded keeps an edit from breaking it.
    return step_work(Turn(plan, store, ask, notify, State(0, plan.base, nothing, plan.base, nothing), step), 1)


def train(plan: RunPlan, store: Store, ask: Ask, notify: Notify = silent, *, stop_when_perfect: bool = False) -> State:
    """Return the state after the last step. Finished steps are in the store: a call after a crash resumes there.

    Raises Outage where none of the attempts of a step has a score.
    """
    notify(Progress("baseline", 0, 0, plan.n_rows))
    # Where a backend answers later, what it is asked goes out all at once.
    with ask.shared() if isinstance(ask, Sharing) and not ask.defers else nullcontext():
        return _search(plan, store, ask, notify, stop_when_perfect=stop_when_perfect)


def _search(plan: RunPlan, store: Store, ask: Ask, notify: Notify, *, stop_when_perfect: bool) -> State:
    state, config = restored(plan, store, ask), plan.config
    raise_if_no_baseline(store, plan.run_id, state.evaluation.trials)
    todo, ahead = list(steps(plan, after=state.n)), dict[int, Rollouts]()
    for at, step in enumerate(todo):
        # At the best possible score, the rest of the search could change nothing.
        if stop_when_perfect and is_topped(config, state.evaluation.score):
            break
        with span("step", n=step.n, epoch=step.epoch, kind=step.kind):
            # A memory file has its steps behind those of the skill; attempts see both, as they stand.
            is_of_skill = step.kind != "memory"
            own, before = (plan, state) if is_of_skill else (plan.turned(), state.turned())
            asks = AskNextTo(ask, before.other)
            turn = Turn(own, store, asks, notify, before, step, ahead.pop(step.n, None))
            # Stages 1 to 5 make a candidate; at the end of an epoch a slow update makes one, or a meta note is written.
            work = _WORK[step.kind](turn)
            # 6. Evaluate: the search gate compares the candidate with the current version on the val tasks.
            if step.kind != "meta":
                turn.report("evaluate", work.trials if step.kind != "slow" else ())
            following = todo[at + 1] if at + 1 < len(todo) else None

            def begin_next(turn: Turn = turn, work: StepWork = work, following: Step | None = following) -> None:
                if following and following.kind == turn.step.kind == "step" and not turn.plan.config.rescue:
                    current = replace(turn.state, current=work.applied.files)
                    ahead[following.n] = replace(turn, state=current, step=following).begin_rollouts()

            try:
                work = replace(work, gated=gate(own, asks, before, work.applied.files, begin_next))
                if config.rescue and work.gated.verdict == "reject":
                    work = _rescued(turn, work)
            except NotLoaded as error:
                # It scores nothing, and is named.
                work = replace(work, gated=GatedStep("reject"), unusable=(*work.unusable, str(error)))
            # The guard stops no step: its findings hold the candidate at promotion.
            if work.gated.verdict != "no_change":
                work = replace(work, findings=guard_findings(own, work))
            after = advanced(own, asks, before, work.applied.files, work.gated)
            for evaluation in filter(None, (work.gated.evaluation, after.evaluation)):
                raise_if_unanswered(store, plan.run_id, evaluation.trials)
            outcome = step_outcome(own, step, before, after, work)
            store.runs.add_step(plan.run_id, outcome)
            state = after if is_of_skill else after.turned()
            record = outcome.record
            notify(Progress(
                "step", record.epoch, record.n, plan.n_rows, record.current, record.best, record.verdict,
                record.candidate, record=record,
            ))  # fmt: skip
    return state


def restored(plan: RunPlan, store: Store, ask: Ask) -> State:
    """Return the state after the last stored step, or the base version's when there is none."""
    n, current, best = 0, (plan.base, plan.other), (plan.base, plan.other)
    if finished := store.runs.list_steps(plan.run_id):
        last = finished[-1]
        n = last.n
        current, best = (
            (
                store.skills.get_files(plan.skill_id, skill),
                store.skills.get_files(plan.other_id, memory) if memory else None,
            )
            for skill, memory in ((last.current_version, last.current_memory), (last.best_version, last.best_memory))
        )
    evaluation = best_evaluation = measured(plan, AskNextTo(ask, current[1]), current[0], is_current=True)
    if best != current:
        best_evaluation = measured(plan, AskNextTo(ask, best[1]), best[0], is_current=True)
    return State(n, current[0], evaluation, best[0], best_evaluation, current[1], best[1])


def slow_work(turn: Turn) -> StepWork:
    """Return the work of a slow update: new guidance, made of the same tasks before and after the epoch."""
    turn.report("slow")
    compared = _compared(turn, turn.state.current)
    raise_if_all_failed(turn.store, turn.plan.run_id, compared.trials, "the train tasks")
    made = slow_update(turn.ask, compared, turn.brief(), turn.plan.config.trajectory_chars)
    return StepWork(compared.trials, 1, len(made.patch.edits), made.patch, made.applied, made.unusable)


def meta_work(turn: Turn) -> StepWork:
    """Return the work of a meta note: text for the optimizer alone. The rollouts of the slow update serve it again."""
    turn.report("meta")
    plan, store, compared = turn.plan, turn.store, None
    for record in store.runs.list_steps(plan.run_id, turn.step.epoch):
        if record.kind == "slow":
            compared = _compared(turn, store.skills.get_files(plan.skill_id, record.parent_version))
    note, unusable = meta_skill(turn.ask, turn.state.current, compared, turn.brief(), plan.config.trajectory_chars)
    return StepWork((), 0, 0, Patch(()), Applied(turn.state.current, ()), unusable, note=note)


def _compared(turn: Turn, current: SkillFiles) -> VersionComparison:
    """Return `current` with the version that the epoch before this one ended with."""
    plan, epoch = turn.plan, turn.step.epoch
    before = turn.store.runs.list_steps(plan.run_id, epoch - 1)[-1]
    previous = turn.store.skills.get_files(plan.skill_id, before.current_version)
    return compare_versions(
        turn.ask, (previous, current), plan.train, plan.config.slow_pairs,
        n=plan.config.slow_samples, draw=f"{plan.run_id}/e{epoch}slow",
    )  # fmt: skip


_WORK = {"step": step_work, "memory": step_work, "slow": slow_work, "meta": meta_work}


def _rescued(turn: Turn, work: StepWork) -> StepWork:
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
    turn.report("rescue")
    kept = rescue(ask, state.current, applied, plan.val, draw=f"{turn.step.draw}/rescue")
    if not 0 < len(kept) < len(applied):
        return work
    patch = replace(work.selected, edits=tuple(applied[place] for place in kept))
    part = replace(work, selected=patch, applied=apply_patch(state.current, patch))
    gated = gate(plan, ask, state, part.applied.files)
    return replace(part, gated=gated) if gated.verdict in ("accept_best", "accept") else work


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
        trials = rollout_with_retries(ask, [PlannedRollout(arm, task, own) for arm in (files, base) for task in tasks])
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
