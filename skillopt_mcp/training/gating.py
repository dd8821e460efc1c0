"""Gating: what the search gate asks for besides a candidate's own trials, and the verdict that it reaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from skillopt_mcp.core.calls import Ask, lends_threads
from skillopt_mcp.core.evidence import SearchGate, Trial
from skillopt_mcp.core.runs import StepVerdict
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.gates.recompute import StrictInputs, search_comparison
from skillopt_mcp.gates.search import Comparison, TaskScore, compare, fallen
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.plan import RunPlan, State
from skillopt_mcp.training.stages.rollout import Evaluation, IsOver, evaluate, task_scores

TOP = 1.0


@dataclass(frozen=True, slots=True)
class Looked:
    """A search gate's verdict on a candidate: its evaluation, further trials, and what the verdict recomputes from."""

    comparison: Comparison
    candidate: Evaluation
    inputs: StrictInputs
    trials: tuple[Trial, ...] = ()


@dataclass(frozen=True, slots=True)
class GatedStep:
    """What became of a step's candidate: the verdict, and what the search gate saw, if asked."""

    verdict: StepVerdict
    looked: Looked | None = None

    @property
    def evaluation(self) -> Evaluation | None:
        """Return the candidate's evaluation, if it was asked for one."""
        return self.looked.candidate if self.looked else None


def gate(
    plan: RunPlan, ask: Ask, state: State, candidate: SkillFiles, on_accept: Callable[[], None] | None = None
) -> GatedStep:
    """What becomes of a candidate; without a gate it is evaluated all the same, to know the best one.

    `on_accept` is called once the candidate is sure to be accepted, and not to reach the top, before all of its trials
    have landed.
    """
    if candidate == state.current:
        return GatedStep("no_change")
    looked = look(plan, ask, state, candidate, on_accept)
    verdict = looked.comparison.verdict
    if verdict == "reject" and not plan.config.use_gate:
        verdict = "accept"
    return GatedStep(verdict, looked)


def advanced(plan: RunPlan, ask: Ask, state: State, candidate: SkillFiles, gated: GatedStep) -> State:
    """Return the state after the verdict: a rejection leaves both versions where they are."""
    n = state.n + 1
    if gated.looked is None or gated.verdict not in ("accept_best", "accept"):
        return replace(state, n=n)
    # These two gates compare with the evaluation that the version was accepted by; the others measure it again.
    is_kept = _gate(plan.config) in ("strict", "no_regression")
    evaluation = gated.looked.candidate if is_kept else measured(plan, ask, candidate, is_current=True)
    if gated.verdict == "accept_best":
        return State(n, candidate, evaluation, candidate, evaluation, state.other, state.other)
    return replace(state, n=n, current=candidate, evaluation=evaluation)


def look(
    plan: RunPlan, ask: Ask, state: State, files: SkillFiles, on_accept: Callable[[], None] | None = None
) -> Looked:
    """What the run's search gate makes of a candidate, whatever further rollouts it needs for that.

    Where trials land one by one, a candidate that can only be rejected is asked no further. What it scored at most is
    then the score of the current version, whichever trials had landed.
    """
    config, gate, draw = plan.config, _gate(plan.config), f"{plan.run_id}/val/{state.n + 1}"
    further: tuple[Trial, ...] = ()
    is_best = (state.best, state.best_other) == (state.current, state.other)
    best = None if is_best else task_scores(state.best_evaluation)
    ends_early = gate != "paired_se" and config.use_gate and lends_threads(ask)
    theirs, tell = task_scores(state.evaluation), None if gate == "no_regression" else on_accept

    def scores_at(trials: Sequence[Trial], fill: bool) -> list[TaskScore]:
        landed = {trial.task.id: TaskScore(trial.task.id, trial.hard, trial.soft) for trial in trials}
        return [landed.get(task.id, TaskScore(task.id, fill, float(fill))) for task in plan.val]

    def is_rejected(trials: Sequence[Trial]) -> bool:
        nonlocal tell
        least, most = (
            compare(scores_at(trials, fill), theirs, best or theirs, config.metric, config.mixed_weight)
            for fill in (False, True)
        )
        if tell and least.verdict != "reject" and most.candidate < TOP and len(trials) < len(plan.val):
            tell()
            tell = None
        return most.verdict == "reject"

    if gate == "paired_se":
        # Both arms are rolled out for this step alone.
        current, evaluation = (_evaluated(plan, ask, arm, draw) for arm in (state.current, files))
        further = current.trials
    else:
        current = state.evaluation
        evaluation = measured(plan, ask, files, is_current=False, is_over=is_rejected if ends_early else None)
    inputs = StrictInputs(
        metric=config.metric,
        mixed_weight=config.mixed_weight,
        candidate=scores_at(evaluation.trials, True) if ends_early else task_scores(evaluation),
        current=task_scores(current),
        best=best,
    )
    if ends_early and search_comparison("strict", inputs).verdict == "reject":
        evaluation = replace(evaluation, score=current.score, at_most=True)
    elif gate == "no_regression" and search_comparison("strict", inputs).verdict != "reject":
        fell = set(fallen(inputs.candidate, inputs.current, inputs.metric, inputs.mixed_weight))
        tasks = [task for task in plan.val if task.id in fell]
        if tasks:
            # What fell is rolled out once more with both.
            ours, others = (_evaluated(plan, ask, arm, f"{draw}/again", tasks) for arm in (files, state.current))
            further = (*ours.trials, *others.trials)
            inputs = inputs.model_copy(update={"again": (task_scores(ours), task_scores(others))})
    return Looked(search_comparison(gate, inputs), evaluation, inputs, further)


def _evaluated(
    plan: RunPlan, ask: Ask, files: SkillFiles, draw: str, tasks: Sequence[Task] = (), is_over: IsOver | None = None
) -> Evaluation:
    config, tasks = plan.config, tasks or plan.val
    return evaluate(ask, files, tasks, config.metric, draw=draw, mixed_weight=config.mixed_weight, is_over=is_over)


def measured(
    plan: RunPlan, ask: Ask, files: SkillFiles, *, is_current: bool, is_over: IsOver | None = None
) -> Evaluation:
    """Return the evaluation that a version is compared by; it ends where it `is_over`.

    Under the fresh gate what was accepted is measured once more: the trials that it was accepted for came out well,
    and candidates after it would have to beat that luck too.
    """
    is_fresh = is_current and _gate(plan.config) == "fresh"
    draw = f"{plan.run_id}/val{'/current' if is_fresh else ''}"
    return _evaluated(plan, ask, files, draw, is_over=is_over)


def is_topped(config: Config, current: float | None) -> bool:
    """Whether no candidate can be accepted after a current version of this score: there is no better one.

    So it is under every gate that compares with what that version scored; paired_se rolls it out again.
    """
    return current == TOP and config.use_gate and config.gate != "paired_se"


def _gate(config: Config) -> SearchGate:
    """Return the run's gate; without one, nothing but the best version hangs on a comparison: the strict one."""
    return config.gate if config.use_gate else "strict"
