"""Spending: the lifetime error budget, by its arithmetic and over whole lives."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.confirm import ConfirmRule, alpha_for, confirm, next_alpha, refund
from skillopt_mcp.records.evidence import Pair

WEALTHS = st.lists(st.none() | st.floats(0, 40), max_size=60)


def life(wealths: list[float | None], alpha: float) -> tuple[list[float], float]:
    """Return the error rates of a skill's tests, and what they spent; a wealth is that of a rejection, None: none."""
    staked: list[float] = []
    refunded = 0.0
    for j, wealth in enumerate(wealths, start=1):
        staked.append(next_alpha(j, alpha, math.fsum(staked), refunded))
        if wealth is not None:
            refunded += refund(staked[-1], wealth)
    return staked, math.fsum(staked) - refunded


def test_without_a_rejection_each_test_has_its_own_share() -> None:
    staked, _ = life([None] * 1200, 0.05)
    assert all(math.isclose(alpha, alpha_for(j, 0.05), rel_tol=1e-6) for j, alpha in enumerate(staked, start=1))


@given(WEALTHS, st.floats(0.001, 0.5))
def test_no_life_spends_more_than_alpha_and_none_has_less_than_its_share(
    wealths: list[float | None], alpha: float
) -> None:
    staked, spent = life(wealths, alpha)
    assert spent <= alpha * (1 + 1e-9)
    assert all(each >= alpha_for(j, alpha) for j, each in enumerate(staked, start=1))


def test_a_rejection_without_evidence_either_way_gives_all_back() -> None:
    staked, spent = life([1.0] * 30, 0.05)
    assert math.isclose(spent, 0.0, abs_tol=1e-12)
    assert staked[9] == pytest.approx(0.05 * alpha_for(10, 1.0) / (1 - sum(alpha_for(j, 1.0) for j in range(1, 10))))


def test_evidence_for_a_rejected_candidate_gives_back_no_more_than_was_put_in() -> None:
    assert refund(0.03, 5.0) == 0.03
    assert refund(0.03, 0.25) == pytest.approx(0.0075)
    assert refund(0.03, 0.0) == 0.0


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.9, 0.9), (0.2, 0.15)])
def test_a_life_of_candidates_that_are_no_better_accepts_any_in_at_most_five_of_a_hundred(
    rates: tuple[float, float],
) -> None:
    n_wrong = 0
    for seed in range(200):
        chance = random.Random(f"life {rates} {seed}")
        staked = refunded = 0.0
        accepted = False
        for j in range(1, 9):
            alpha = next_alpha(j, 0.05, staked, refunded)
            drawn = (Pair(float(chance.random() < rates[0]), float(chance.random() < rates[1])) for _ in range(80))
            end = confirm(drawn, ConfirmRule(alpha, max_pairs=80))
            staked += alpha
            refunded += refund(alpha, end.wealth) if end.verdict == "reject" else 0.0
            accepted = accepted or end.verdict == "accept"
        n_wrong += accepted
    assert n_wrong / 200 <= 0.05


@pytest.mark.parametrize("j", [0, -1])
def test_tests_count_from_one(j: int) -> None:
    with pytest.raises(BadInput, match="tests count from 1"):
        next_alpha(j, 0.05, 0.0, 0.0)
