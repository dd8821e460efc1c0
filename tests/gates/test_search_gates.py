"""Search gates: paired_se and no_regression, next to the strict rule."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skillopt_mcp.core.evidence import SearchGate
from skillopt_mcp.gates.search import Rerun, TaskScore, compare, describe_seen, fallen, no_regression, paired_se


def scores(values: list[float | None]) -> list[TaskScore]:
    """Return scores of tasks 0, 1, 2, ..."""
    return [TaskScore(n, None if value is None else value == 1.0, value) for n, value in enumerate(values)]


def paired(candidate: list[float | None], current: list[float | None], best: list[float | None] | None = None) -> str:
    """Return the verdict of the paired gate on soft scores."""
    highest = scores(current if best is None else best)
    return paired_se(scores(candidate), scores(current), highest, "soft").verdict


def test_a_gain_within_its_own_error_is_none() -> None:
    assert paired([1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]) == "reject"
    assert paired([1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]) == "accept_best"
    assert paired([1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]) == "reject"
    assert paired([1.0, 1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]) == "accept_best"


@given(st.lists(st.integers(0, 20), min_size=2, max_size=12))
def test_the_standard_error_is_that_of_the_sample(gains: list[int]) -> None:
    error = statistics.stdev(gains) / math.sqrt(len(gains))
    assume(not math.isclose(statistics.fmean(gains), error))
    verdict = paired([each / 20 for each in gains], [0.0] * len(gains))
    assert (verdict == "accept_best") == (statistics.fmean(gains) > error)


def test_the_same_small_gain_on_every_task_is_beyond_its_error() -> None:
    assert paired([0.6, 0.6, 0.6], [0.5, 0.5, 0.5]) == "accept_best"
    assert paired([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]) == "reject"


def test_fewer_than_two_common_tasks_are_no_evidence() -> None:
    assert paired([1.0], [0.0]) == "reject"
    assert paired([1.0, 1.0, None], [0.0, None, 0.0]) == "reject"
    assert paired([], []) == "reject"


def test_a_gain_below_the_best_score_is_accepted_without_becoming_best() -> None:
    assert paired([0.6, 0.6, 0.6], [0.5, 0.5, 0.5], [0.9, 0.9, 0.9]) == "accept"


def test_an_edit_that_changes_nothing_passes_far_less_often_than_by_the_strict_rule() -> None:
    n_paired = n_strict = 0
    for seed in range(1000):
        chance = random.Random(f"paired {seed}")
        ours, theirs = (scores([float(chance.random() < 0.5) for _ in range(20)]) for _ in "ab")
        n_paired += paired_se(ours, theirs, theirs, "hard").verdict != "reject"
        n_strict += compare(ours, theirs, theirs, "hard").verdict != "reject"
    assert 0.1 < n_paired / 1000 < 0.22
    assert n_strict / 1000 > 0.38


CURRENT = scores([1.0, 1.0, 0.0, 0.0, 0.0])
CANDIDATE = scores([0.0, 1.0, 1.0, 1.0, None])
FIRST = compare(CANDIDATE, CURRENT, CURRENT, "hard")


def test_only_tasks_that_both_have_a_score_for_can_fall() -> None:
    assert fallen(CANDIDATE, CURRENT, "hard") == [0]
    assert fallen(CURRENT, CANDIDATE, "hard") == [2, 3]
    assert fallen(scores([None]), scores([1.0]), "hard") == []


@pytest.mark.parametrize(
    ("again", "verdict"),
    [
        (Rerun(scores([1.0]), scores([1.0])), "accept_best"),
        (Rerun(scores([1.0]), scores([0.0])), "accept_best"),
        (Rerun(scores([0.0]), scores([0.0])), "accept_best"),
        (Rerun(scores([0.0]), scores([1.0])), "reject"),
        (Rerun(scores([None]), scores([1.0])), "reject"),
        (Rerun(), "reject"),
    ],
)
def test_a_task_vetoes_only_when_it_falls_twice(again: Rerun, verdict: str) -> None:
    assert FIRST.verdict == "accept_best"
    assert no_regression(FIRST, 1, again, "hard").verdict == verdict


def test_nothing_is_run_again_for_a_candidate_that_gains_nothing_or_lets_nothing_fall() -> None:
    worse = compare(CURRENT, CANDIDATE, CANDIDATE, "hard")
    assert no_regression(worse, 2, Rerun(), "hard") == worse
    assert no_regression(FIRST, 0, Rerun(), "hard") == FIRST


@pytest.mark.parametrize(
    ("gate", "n", "seen"), [("strict", 10, 15), ("strict", 1, 80), ("strict", 40, 4), ("paired_se", 10, 28)]
)
def test_the_gain_that_val_tasks_can_see_is_one_that_the_search_gate_accepts(
    gate: SearchGate, n: int, seen: int
) -> None:
    assert f"can see a gain of {seen} points" in describe_seen(gate, n)
    chance, decide = random.Random(7), paired_se if gate == "paired_se" else compare

    def accepted(gain: int) -> float:
        old = scores([0.0] * n)
        worlds = [scores([float(chance.random() < gain / 100) for _ in range(n)]) for _ in range(2_000)]
        return sum(decide(new, old, old, "hard").verdict != "reject" for new in worlds) / len(worlds)

    assert accepted(seen) > 0.77
    assert accepted(seen - 2) < 0.82
