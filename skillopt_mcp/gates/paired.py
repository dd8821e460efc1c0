"""Paired: a search gate that asks for more than chance: a mean paired difference above its own standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence

from skillopt_mcp.gates.means import EVEN, mean_score, metric_value
from skillopt_mcp.gates.strict import Comparison, TaskScore, compare
from skillopt_mcp.records.evidence import Metric


def paired_se(
    candidate: Sequence[TaskScore], current: Sequence[TaskScore], best: Sequence[TaskScore], metric: Metric,
    mixed_weight: float = EVEN,
) -> Comparison:  # fmt: skip
    """Return accept (or accept_best, above the best score too) when the mean paired difference is above one SE.

    A candidate that changes nothing passes in about 16 of 100. Both must have been rolled out afresh: a version that
    was kept because its trials came out well is measured too high by them. Fewer than two common tasks tell nothing:
    reject.
    """
    found = compare(candidate, current, best, metric, mixed_weight)
    differences = [ours - theirs for ours, theirs in _pairs(candidate, current, best, metric, mixed_weight)]
    if len(differences) < 2:
        return Comparison("reject", found.candidate, found.current, found.n)
    n = len(differences)
    mean = math.fsum(differences) / n
    error = math.sqrt(math.fsum((each - mean) ** 2 for each in differences) / (n - 1) / n)
    passes = mean > error
    return found if passes else Comparison("reject", found.candidate, found.current, found.n)


def _pairs(
    candidate: Sequence[TaskScore], current: Sequence[TaskScore], best: Sequence[TaskScore], metric: Metric,
    mixed_weight: float,
) -> list[tuple[float, float]]:  # fmt: skip
    """Return (candidate, current) scores of the tasks that all three have a score for."""
    ours, theirs, highest = (values(scores, metric, mixed_weight) for scores in (candidate, current, best))
    return [(ours[task], theirs[task]) for task in ours if task in theirs and task in highest]


def values(scores: Sequence[TaskScore], metric: Metric, mixed_weight: float = EVEN) -> dict[int, float]:
    """Return the score of each task that has one, by task id; in [0, 1]."""
    return {
        score.task_id: metric_value(mean_score([score]), metric, mixed_weight)
        for score in scores
        if score.hard is not None
    }
