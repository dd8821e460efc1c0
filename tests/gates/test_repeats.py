"""Repeats: when a test speaks of a few answers, since its target gives the same one each time."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.gates.confirm import Alike, alike
from skillopt_mcp.records.evidence import Pair

EVEN = [(task, Pair(float(task % 2), float(task % 3 == 0))) for task in range(6)]


def test_a_target_that_answers_alike_each_time_is_noticed_once_there_are_repeats_enough() -> None:
    assert alike(EVEN) is None
    assert alike([*EVEN, EVEN[0]]) is None
    assert alike(EVEN * 3) == Alike(n_answers=12, n_repeats=24)


def test_one_repeat_that_differs_shows_that_it_does_not() -> None:
    assert alike([*EVEN * 3, (0, Pair(1.0, 1.0))]) is None


def test_an_arm_that_always_passes_shows_nothing_by_its_repeats() -> None:
    assert alike([(task % 6, Pair(0.0, 1.0)) for task in range(60)]) is None


@given(st.integers(0, 10_000))
def test_a_target_whose_luck_is_new_each_time_is_hardly_ever_taken_for_one(seed: int) -> None:
    chance = random.Random(seed)
    scores = [[float(chance.random() < 0.5) for _ in range(2)] for _ in range(40)]
    drawn = [(chance.randrange(10), Pair(*both)) for both in scores]
    assert alike(drawn) is None
