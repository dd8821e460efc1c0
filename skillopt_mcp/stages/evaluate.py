"""Evaluate: the candidate attempts the validation tasks, and the search gate compares it with the current version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.gates.means import mean_score, metric_value
from skillopt_mcp.gates.strict import strict
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.evidence import Mean, Metric, SearchVerdict, Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Attempt, rollout


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A version's trials on the validation tasks, their mean, and the one score that gates compare."""

    trials: tuple[Trial, ...]
    mean: Mean
    score: float


def evaluate(ask: Ask, files: SkillFiles, tasks: Sequence[Task], metric: Metric, *, draw: str) -> Evaluation:
    """Return a version's evaluation; under the same draw it is paid once and serves again."""
    trials = tuple(rollout(ask, [Attempt(files, task, draw) for task in tasks]))
    mean = mean_score(trials)
    return Evaluation(trials, mean, metric_value(mean, metric))


def search_verdict(candidate: Evaluation, current: Evaluation, best: float, metric: Metric) -> SearchVerdict:
    """Return the strict gate's verdict on the tasks that both versions have a score for; without any it rejects."""
    common = _scored(candidate) & _scored(current)
    if not common:
        return "reject"
    ours, theirs = (
        metric_value(mean_score(trial for trial in each.trials if trial.task.id in common), metric)
        for each in (candidate, current)
    )
    return strict(ours, theirs, best)


def _scored(evaluation: Evaluation) -> set[int]:
    return {trial.task.id for trial in evaluation.trials if not trial.missing}
