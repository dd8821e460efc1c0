"""Means: the scores of many trials as one score that gates compare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Mean, Metric, SearchGate, SearchVerdict
from skillopt_mcp.core.text import counted

EVEN = 0.5
"""The weight of soft in the mixed metric by default."""


class Scored(Protocol):
    """What has a score: a trial, or what is kept of one. Both are None where it is missing."""

    @property
    def hard(self) -> bool | None: ...

    @property
    def soft(self) -> float | None: ...


def mean_score(trials: Iterable[Scored]) -> Mean:
    """Return the mean hard and soft scores in [0, 1]; missing trials are counted and left out of both."""
    trials = list(trials)
    scored = [(float(trial.hard), trial.soft) for trial in trials if trial.hard is not None]
    n = len(scored)
    if n == 0:
        return Mean(hard=0.0, soft=0.0, n=0, n_missing=len(trials))
    # fsum rounds once, so the same scores in another order are a tie and not a gain of 1e-17.
    hard = math.fsum(hard for hard, _ in scored) / n
    soft = math.fsum(hard if soft is None else soft for hard, soft in scored) / n
    return Mean(hard=hard, soft=soft, n=n, n_missing=len(trials) - n)


def metric_value(mean: Mean, metric: Metric, mixed_weight: float = EVEN) -> float:
    """Return the score in [0, 1] that a gate compares; `mixed_weight` is the weight of soft in mixed.

    Raises BadInput when the weight is outside [0, 1].
    """
    if not 0 <= mixed_weight <= 1:
        raise BadInput(f'mixed weight "{mixed_weight}" is not possible; use 0 (all hard) to 1 (all soft)')
    if metric == "mixed":
        return (1.0 - mixed_weight) * mean.hard + mixed_weight * mean.soft
    return mean.hard if metric == "hard" else mean.soft


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


def paired_se(
    candidate: Sequence[TaskScore], current: Sequence[TaskScore], best: Sequence[TaskScore], metric: Metric,
    mixed_weight: float = EVEN,
) -> Comparison:  # fmt: skip
    """Return accept (or accept_best, above the best score too) when the mean paired difference is above one SE.

    A candidate that changes nothing passes in about 16 of 100. Both must have been rolled out afresh: a version that
    was kept because its trials came out well is measured too high by them. Fewer than two common tasks show nothing:
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


@dataclass(frozen=True, slots=True)
class Rerun:
    """Second rollouts of both arms on the fallen tasks."""

    candidate: Sequence[TaskScore] = ()
    current: Sequence[TaskScore] = ()


def fallen(
    candidate: Sequence[TaskScore], current: Sequence[TaskScore], metric: Metric, mixed_weight: float = EVEN
) -> list[int]:
    """Return the ids of the tasks on which the candidate scores below the current version, in the candidate's order."""
    ours, theirs = (values(scores, metric, mixed_weight) for scores in (candidate, current))
    return [task for task in ours if task in theirs and ours[task] < theirs[task]]


def no_regression(
    first: Comparison, n_fallen: int, again: Rerun, metric: Metric, mixed_weight: float = EVEN
) -> Comparison:
    """Return the strict verdict `first`, turned into reject when a task that fell falls again on its second rollouts.

    One rollout of a task that passes half of the time falls by chance in a quarter of all pairs; only what falls twice
    is a veto. A second rollout that is missing does not clear the task: then nothing shows that it did not fall.
    """
    if first.verdict == "reject" or not n_fallen:
        return first
    ours, theirs = (values(scores, metric, mixed_weight) for scores in (again.candidate, again.current))
    cleared = sum(ours[task] >= theirs[task] for task in ours if task in theirs)
    return first if cleared >= n_fallen else Comparison("reject", first.candidate, first.current, first.n)


def describe_seen(gate: SearchGate, n_val: int) -> str:
    """Which gain a search gate accepts in 4 of 5 cases on so many val tasks, where answers repeat."""
    least = 2 if gate == "paired_se" else 1  # of one task alone, the mean is its standard error

    def miss(gain: float) -> float:
        return sum(math.comb(n_val, k) * gain**k * (1 - gain) ** (n_val - k) for k in range(least))

    seen = next((points for points in range(1, 100) if miss(points / 100) <= 0.2), 100)
    return f"{counted(n_val, 'val task')} can see a gain of {seen} points or more."
