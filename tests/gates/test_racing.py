"""Racing: who drops out, who never does, and what a race does not decide."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.racing import Lap, RaceRule, Standing, leader, race, running

SCORE = st.none() | st.floats(0, 1)


def laps(rates: list[float], base: float, n: int, seed: str) -> list[Lap]:
    """Return laps of pass or fail at these rates."""
    chance = random.Random(seed)
    return [
        Lap(float(chance.random() < base), tuple(float(chance.random() < rate) for rate in rates)) for _ in range(n)
    ]


def test_the_hopeless_drop_out_and_the_good_one_leads() -> None:
    n_right, n_paid = 0, 0
    for seed in range(60):
        standings = race(laps([0.3, 0.5, 0.85, 0.2], 0.5, 60, f"race {seed}"), RaceRule())
        n_right += leader(standings) == 2
        n_paid += standings[3].n
    assert n_right >= 57
    assert n_paid / 60 < 30


def test_a_good_arm_is_dropped_in_at_most_one_race_of_ten() -> None:
    dropped = [bool(race(laps([0.6, 0.6], 0.5, 60, f"good {seed}"), RaceRule())[0].dropped) for seed in range(300)]
    assert sum(dropped) / 300 <= 0.1


def test_why_an_arm_dropped_out_is_said() -> None:
    hopeless = race([Lap(1.0, (0.0,))] * 30, RaceRule())
    behind = race([Lap(0.0, (1.0, 0.3))] * 30, RaceRule())
    assert hopeless == [Standing(hopeless[0].n, -1.0, "a gain of 0.05 or more is excluded")]
    assert [standing.dropped for standing in behind] == ["", "another candidate is better"]
    assert behind[1].n < behind[0].n == 30


def test_arms_that_are_alike_race_to_the_end_and_the_first_of_equals_leads() -> None:
    standings = race([Lap(0.0, (1.0, 1.0))] * 10, RaceRule())
    assert running(standings) == [0, 1]
    assert leader(standings) == 0


def test_an_arm_without_a_gain_leads_nobody() -> None:
    assert leader(race([Lap(1.0, (1.0, None))] * 5, RaceRule())) is None
    assert leader(race([], RaceRule())) is None


@given(st.lists(st.builds(Lap, SCORE, st.tuples(SCORE, SCORE, SCORE)), max_size=40), st.integers(0, 40))
def test_who_dropped_out_never_comes_back_and_later_scores_do_not_count(all_laps: list[Lap], cut: int) -> None:
    earlier, later = race(all_laps[:cut], RaceRule(beta=0.5)), race(all_laps, RaceRule(beta=0.5))
    for before, after in zip(earlier, later, strict=False):
        if before.dropped:
            assert after == before
    if later:
        assert len(running(later)) >= 0


def test_laps_beyond_the_last_are_not_walked() -> None:
    assert race([Lap(0.0, (1.0,))] * 9, RaceRule(max_laps=4))[0].n == 4


def test_laps_that_do_not_fit_and_rules_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BadInput, match="give every arm a place"):
        race([Lap(0.0, (1.0,)), Lap(0.0, (1.0, 0.0))], RaceRule())
    for wrong in ({"beta": 0.0}, {"min_effect": 1.0}, {"max_laps": 0}):
        with pytest.raises(BadInput):
            RaceRule(**wrong)  # type: ignore[arg-type]
