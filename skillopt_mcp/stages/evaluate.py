"""Evaluate: the candidate attempts the validation tasks; the scores are what the search gate compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.gates.means import EVEN, mean_score, metric_value
from skillopt_mcp.gates.strict import TaskScore
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.evidence import Mean, Metric, Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Attempt, rollout


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A version's trials on the validation tasks, their mean, and the one score that gates compare."""

    trials: tuple[Trial, ...]
    mean: Mean
    score: float


def evaluate(
    ask: Ask, files: SkillFiles, tasks: Sequence[Task], metric: Metric, *, draw: str, mixed_weight: float = EVEN
) -> Evaluation:
    """Return a version's evaluation; under the same draw it is paid once and serves again."""
    trials = tuple(rollout(ask, [Attempt(files, task, draw) for task in tasks]))
    mean = mean_score(trials)
    return Evaluation(trials, mean, metric_value(mean, metric, mixed_weight))


def task_scores(evaluation: Evaluation) -> list[TaskScore]:
    """Return what gates compare of an evaluation: one score per task."""
    return [TaskScore(trial.task.id, trial.hard, trial.soft) for trial in evaluation.trials]
