"""Regression: a search gate that lets no task fall, and looks twice before it says that one fell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.gates.means import EVEN
from skillopt_mcp.gates.paired import values
from skillopt_mcp.gates.strict import Comparison, TaskScore
from skillopt_mcp.records.evidence import Metric


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
