"""Means: many trials as one score."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.calls import Reply
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Mean, Metric, Trial
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.gates.search import mean_score, metric_value
from skillopt_mcp.tasks.judges.kinds.text import Exact

TASK = Task(1, 1, "t", "say a", Exact(expected="a"), "val", "d")


def trial(hard: bool | None, soft: float | None) -> Trial:
    """Return a trial with these scores."""
    return Trial(version="v", task=TASK, draw="x", reply=Reply(text=""), hard=hard, soft=soft)


def test_missing_trials_are_counted_and_are_no_zeros() -> None:
    trials = [trial(True, 1.0), trial(False, 0.5), trial(None, None)]
    assert mean_score(trials) == Mean(hard=0.5, soft=0.75, n=2, n_missing=1)


def test_a_trial_without_a_soft_score_counts_its_hard_one() -> None:
    assert mean_score(iter([trial(True, None), trial(False, None)])) == Mean(hard=0.5, soft=0.5, n=2)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.randoms())
def test_the_same_scores_in_another_order_are_a_tie(softs: list[float], chance: object) -> None:
    trials = [trial(soft == 1.0, soft) for soft in softs]
    assert mean_score(trials) == mean_score(sorted(trials, key=lambda each: each.soft or 0.0))
    assert 0.0 <= mean_score(trials).soft <= 1.0


@pytest.mark.parametrize(
    ("metric", "weight", "value"),
    [("hard", 0.5, 0.25), ("soft", 0.5, 0.75), ("mixed", 0.5, 0.5), ("mixed", 0.0, 0.25), ("mixed", 1.0, 0.75)],
)
def test_the_metric_picks_hard_soft_or_a_mixture_weighted_to_soft(metric: Metric, weight: float, value: float) -> None:
    assert metric_value(Mean(hard=0.25, soft=0.75, n=4), metric, weight) == value


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside_its_range_is_refused(weight: float) -> None:
    with pytest.raises(BadInput, match="mixed weight"):
        metric_value(Mean(hard=0.0, soft=0.0, n=1), "mixed", weight)
