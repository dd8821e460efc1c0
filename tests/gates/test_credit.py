"""Credit: which edits are blamed, which are praised, and what bisection rescues."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.credit import Credit, CreditRule, bisect, credit
from skillopt_mcp.records.evidence import Pair


def shares(effect: float, n_worlds: int = 300) -> dict[str, float]:
    """Return how often an edit of this effect gets each verdict, where every task is a coin."""
    found: dict[str, float] = {}
    for seed in range(n_worlds):
        chance = random.Random(f"credit {effect} {seed}")
        pairs = [
            Pair(float(chance.random() < 0.5 - effect / 2), float(chance.random() < 0.5 + effect / 2))
            for _ in range(60)
        ]
        verdict = credit(pairs, CreditRule()).verdict
        found[verdict] = found.get(verdict, 0.0) + 1 / n_worlds
    return found


def test_harmful_edits_are_found_and_helpful_ones_not_blamed() -> None:
    assert shares(-0.3).get("harms", 0.0) >= 0.88
    assert shares(0.3).get("harms", 0.0) <= 0.05
    assert shares(0.3).get("helps", 0.0) >= 0.88


def test_an_edit_without_effect_is_blamed_or_praised_within_the_error_rate() -> None:
    found = shares(0.0)
    assert found.get("harms", 0.0) <= 0.15
    assert found.get("helps", 0.0) <= 0.15


def test_an_edit_that_never_matters_is_spare_and_costs_only_tokens() -> None:
    assert credit([Pair(1.0, 1.0)] * 60, CreditRule()) == Credit("spare", 0.0, 60)
    assert credit([Pair(1.0, 1.0)] * 5, CreditRule()).verdict == "unclear"


def test_a_pair_with_a_missing_arm_says_nothing() -> None:
    assert credit([Pair(None, 1.0), Pair(0.0, None)], CreditRule()) == Credit("unclear", 0.0, 0)
    worse = [Pair(1.0, 0.0)] * 20
    assert credit([Pair(None, None), *worse], CreditRule()) == credit(worse, CreditRule())


@given(st.sets(st.integers(0, 9)), st.integers(0, 10))
def test_bisection_rescues_what_gains_alone_and_asks_few_questions(good: set[int], n: int) -> None:
    asked: list[tuple[int, ...]] = []

    def gains(part: tuple[int, ...]) -> bool:
        asked.append(part)
        return set(part) <= good

    assert set(bisect(n, gains)) == ({place for place in good if place < n} if n >= 2 else set())
    assert len(asked) <= max(0, 2 * n - 2)
    assert len(set(asked)) == len(asked)


def test_a_part_that_gains_is_kept_whole() -> None:
    assert bisect(4, lambda part: part == (2, 3)) == (2, 3)


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"delta": 1.0}, {"max_pairs": 0}])
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        CreditRule(**wrong)  # type: ignore[arg-type]
