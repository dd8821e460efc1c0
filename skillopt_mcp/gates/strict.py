"""Strict: SkillOpt's search gate, cheap and sometimes wrong; it moves a run, never a user's file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from skillopt_mcp.gates.means import EVEN, mean_score, metric_value
from skillopt_mcp.records.evidence import Metric, SearchVerdict


class TaskScore(NamedTuple):
    """A version's score on one task; both are None where it is missing."""

    task_id: int
    hard: bool | None
    soft: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict, the two scores that it compares, and the number of tasks that they are over."""

    verdict: SearchVerdict
    candidate: float
    current: float
    n: int


def strict(candidate: float, current: float, best: float) -> SearchVerdict:
    """Return accept when the candidate's score is above the current one (a tie is not), accept_best when above both."""
    if candidate > current:
        return "accept_best" if candidate > best else "accept"
    return "reject"


def compare(
    candidate: Sequence[TaskScore], current: Sequence[TaskScore], best: Sequence[TaskScore], metric: Metric,
    mixed_weight: float = EVEN,
) -> Comparison:  # fmt: skip
    """Return the strict verdict over the tasks that all three have a score for; without any it is reject."""
    common = _scored(candidate) & _scored(current) & _scored(best)
    ours, theirs, highest = (
        metric_value(mean_score(score for score in scores if score.task_id in common), metric, mixed_weight)
        for scores in (candidate, current, best)
    )
    return Comparison(strict(ours, theirs, highest), ours, theirs, len(common))


def _scored(scores: Sequence[TaskScore]) -> set[int]:
    return {score.task_id for score in scores if score.hard is not None}
