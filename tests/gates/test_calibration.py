"""Calibration: what is reported before spending, against what happens."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.calibration import (
    WORST,
    Calibration,
    calibrated,
    expected_pair_rates,
    pairs_for,
    predicted_power,
    smallest_gain,
)
from skillopt_mcp.gates.confirm import ConfirmRule, confirm
from skillopt_mcp.records.evidence import Pair

RULE = ConfirmRule(alpha=0.03)


def test_flips_failures_and_missing_replies_are_counted() -> None:
    pairs = [Pair(1.0, 0.0), Pair(1.0, 1.0), Pair(0.0, 0.0), Pair(1.0, 1.0), Pair(None, 1.0)]
    assert calibrated(pairs) == Calibration(n=4, flip_rate=0.25, failure_rate=0.375, missing_rate=0.2)


def test_without_one_scored_pair_there_is_no_number() -> None:
    for pairs in ([], [Pair(None, 1.0), Pair(0.0, None)]):
        with pytest.raises(BadInput, match="see that the target answers"):
            calibrated(pairs)


@pytest.mark.parametrize("gain", [0.08, 0.16, 0.3])
def test_predicted_power_is_the_power_in_the_worlds_that_were_measured(gain: float) -> None:
    chance = random.Random(f"power {gain}")
    rates = [chance.betavariate(0.5, 0.5) for _ in range(40)]
    share = gain / (sum(1 - rate for rate in rates) / 40)
    better = [rate + share * (1 - rate) for rate in rates]

    def pair(candidate: list[float]) -> Pair:
        task = chance.randrange(40)
        return Pair(float(chance.random() < rates[task]), float(chance.random() < candidate[task]))

    measured = calibrated([pair(rates) for _ in range(4000)])
    accepts = [confirm((pair(better) for _ in range(200)), RULE).verdict == "accept" for _ in range(800)]
    predicted = predicted_power(measured, gain, RULE)
    assert abs(predicted.power - sum(accepts) / 800) <= 0.06


@given(st.floats(0, 1), st.floats(0, 1), st.floats(-1, 1))
def test_the_chances_of_a_pair_are_chances_and_differ_by_the_gain(flips: float, failing: float, gain: float) -> None:
    wins, losses = expected_pair_rates(Calibration(9, flips, failing), gain)
    assert wins - losses == pytest.approx(gain, abs=1e-9)
    assert wins + losses <= 1 + 1e-9
    assert min(wins, losses) >= -1e-9


def test_where_little_fails_no_gain_can_be_shown() -> None:
    assert smallest_gain(Calibration(40, 0.04, 0.02), RULE) is None
    assert smallest_gain(Calibration(40, 0.0, 0.0), RULE) is None
    assert smallest_gain(WORST, ConfirmRule(max_pairs=3)) is None


def test_pairs_for_a_gain_fall_as_it_grows() -> None:
    needed = [pairs_for(WORST, gain, RULE) for gain in (0.16, 0.3)]
    assert needed[0] is not None
    assert needed[1] is not None
    assert needed[0] > 2 * needed[1]
    power = predicted_power(WORST, 0.3, ConfirmRule(alpha=0.03, max_pairs=needed[1])).power
    assert power == pytest.approx(0.8, abs=0.06)
    assert pairs_for(WORST, 0.01, RULE, limit=300) is None


def test_a_gain_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadInput, match="no difference of mean scores"):
        predicted_power(WORST, 1.5, RULE)
