"""Gating: what a search gate asks for beside a candidate's own trials, and the verdict that it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from skillopt_mcp.gates.recompute import StrictInputs, search_comparison
from skillopt_mcp.gates.regression import fallen
from skillopt_mcp.gates.strict import Comparison, TaskScore
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.evidence import SearchGate, Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.evaluate import Evaluation, evaluate, task_scores

TOP = 1.0


class Search(Protocol):
    """Where a search is carried out: what of a plan the gate needs."""

    @property
    def run_id(self) -> str: ...
    @property
    def config(self) -> Config: ...
    @property
    def val(self) -> tuple[Task, ...]: ...


class Standing(Protocol):
    """Where a search stands: what of a state the gate needs."""

    @property
    def n(self) -> int: ...
    @property
    def current(self) -> SkillFiles: ...
    @property
    def evaluation(self) -> Evaluation: ...
    @property
    def best(self) -> SkillFiles: ...
    @property
    def best_evaluation(self) -> Evaluation: ...


@dataclass(frozen=True, slots=True)
class Looked:
    """A search gate's verdict on a candidate: its evaluation, further trials, and what the verdict recomputes from."""

    comparison: Comparison
    candidate: Evaluation
    inputs: StrictInputs
    trials: tuple[Trial, ...] = ()


def measured(search: Search, ask: Ask, files: SkillFiles, *, is_current: bool) -> Evaluation:
    """Return the evaluation that a version is compared by.

    Under the fresh gate what was accepted is measured anew, once: the trials that it was accepted for came out well,
    and candidates after it would have to beat that luck too.
    """
    anew = is_current and _gate(search.config) == "fresh"
    draw = f"{search.run_id}/val{'/current' if anew else ''}"
    return _evaluated(search, ask, files, draw)


def accepted(search: Search, ask: Ask, files: SkillFiles, looked: Looked) -> Evaluation:
    """Return the evaluation of a version that has just become current: the one it was accepted by, or one anew."""
    if _gate(search.config) in ("strict", "no_regression"):
        return looked.candidate
    return measured(search, ask, files, is_current=True)


def look(search: Search, ask: Ask, state: Standing, files: SkillFiles) -> Looked:
    """Return what the run's search gate makes of a candidate, whatever further rollouts it needs for that."""
    config, gate = search.config, _gate(search.config)
    if gate == "paired_se":
        return _paired(search, ask, state, files)
    evaluation = measured(search, ask, files, is_current=False)
    inputs = StrictInputs(
        metric=config.metric,
        mixed_weight=config.mixed_weight,
        candidate=task_scores(evaluation),
        current=task_scores(state.evaluation),
        best=_best(state),
    )
    further: tuple[Trial, ...] = ()
    if gate == "no_regression" and search_comparison("strict", inputs).verdict != "reject":
        further, inputs = _second_look(search, ask, state, files, inputs)
    return Looked(search_comparison(gate, inputs), evaluation, inputs, further)


def _paired(search: Search, ask: Ask, state: Standing, files: SkillFiles) -> Looked:
    """Return the verdict on rollouts of both arms that this step alone makes."""
    draw, config = f"{search.run_id}/val/{state.n + 1}", search.config
    theirs, ours = (_evaluated(search, ask, arm, draw) for arm in (state.current, files))
    inputs = StrictInputs(
        metric=config.metric,
        mixed_weight=config.mixed_weight,
        candidate=task_scores(ours),
        current=task_scores(theirs),
        best=_best(state),
    )
    return Looked(search_comparison("paired_se", inputs), ours, inputs, theirs.trials)


def _second_look(
    search: Search, ask: Ask, state: Standing, files: SkillFiles, inputs: StrictInputs
) -> tuple[tuple[Trial, ...], StrictInputs]:
    """Return second rollouts of both arms on the tasks that fell, and the inputs with them."""
    fell = set(fallen(inputs.candidate, inputs.current, inputs.metric, inputs.mixed_weight))
    if not fell:
        return (), inputs
    tasks = [task for task in search.val if task.id in fell]
    draw = f"{search.run_id}/val/{state.n + 1}/again"
    ours, theirs = (_evaluated(search, ask, arm, draw, tasks) for arm in (files, state.current))
    again = (task_scores(ours), task_scores(theirs))
    return (*ours.trials, *theirs.trials), inputs.model_copy(update={"again": again})


def _evaluated(
    search: Search, ask: Ask, files: SkillFiles, draw: str, tasks: Sequence[Task] | None = None
) -> Evaluation:
    config = search.config
    chosen = search.val if tasks is None else tasks
    return evaluate(ask, files, chosen, config.metric, draw=draw, mixed_weight=config.mixed_weight)


def is_topped(config: Config, current: float | None) -> bool:
    """Return whether no candidate can be accepted after a current version of this score: there is no better one.

    So it is under every gate that compares with what that version scored; paired_se rolls it out anew.
    """
    return current == TOP and config.use_gate and config.gate != "paired_se"


def _gate(config: Config) -> SearchGate:
    """Return the run's gate; without one, nothing but the best version hangs on a comparison: the strict one."""
    return config.gate if config.use_gate else "strict"


def _best(state: Standing) -> list[TaskScore] | None:
    return None if state.best == state.current else task_scores(state.best_evaluation)
