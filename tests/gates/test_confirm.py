"""Confirm: the promotion gate, by its arithmetic and by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.confirm import (
    ConfirmRule,
    alpha_for,
    confirm,
    fewest_more,
    fewest_pairs,
    no_worse,
    pairs_needed,
)
from skillopt_mcp.records.evidence import Confirmation, Pair

BETTER, SAME, WORSE, MISSING = Pair(0.0, 1.0), Pair(1.0, 1.0), Pair(1.0, 0.0), Pair(None, 1.0)
SCORES = st.none() | st.sampled_from([0.0, 1.0]) | st.floats(0, 1)
PAIRS = st.lists(st.builds(Pair, SCORES, SCORES), max_size=60)


def worlds(n_worlds: int, n_pairs: int, draw: Callable[[random.Random], Pair], rule: ConfirmRule) -> list[Confirmation]:
    """Return the verdict of each seeded world."""
    ends = []
    for seed in range(n_worlds):
        chance = random.Random(f"world {seed}")
        ends.append(confirm([draw(chance) for _ in range(n_pairs)], rule))
    return ends


def share(ends: list[Confirmation], verdict: str) -> float:
    """Return the share of worlds that ended so."""
    return sum(end.verdict == verdict for end in ends) / len(ends)


def bernoulli(base: float, candidate: float) -> Callable[[random.Random], Pair]:
    """Return a draw of pass or fail with these rates."""
    return lambda chance: Pair(float(chance.random() < base), float(chance.random() < candidate))


def by_task(chance: random.Random) -> Pair:
    """Return a pair of a task whose pass rate is the same for both arms and differs from task to task."""
    rate = (0.02, 0.1, 0.9, 0.98, 0.5)[chance.randrange(5)]
    return Pair(float(chance.random() < rate), float(chance.random() < rate))


def graded(chance: random.Random) -> Pair:
    """Return two soft scores with the same mean."""
    return Pair(chance.betavariate(2, 2), chance.betavariate(2, 2))


@pytest.mark.parametrize("draw", [bernoulli(0.5, 0.5), bernoulli(0.3, 0.2), by_task, graded])
def test_a_candidate_that_is_no_better_is_accepted_in_at_most_five_of_a_hundred(
    draw: Callable[[random.Random], Pair],
) -> None:
    assert share(worlds(500, 200, draw, ConfirmRule(max_pairs=200)), "accept") <= 0.05


def test_a_candidate_with_a_real_gain_is_rarely_rejected() -> None:
    rule = ConfirmRule(min_effect=0.1, max_pairs=200)
    assert share(worlds(500, 200, bernoulli(0.45, 0.55), rule), "reject") <= 0.05


@pytest.mark.parametrize(("effect", "power", "pairs"), [(0.2, 0.85, 100), (0.3, 0.98, 50), (0.5, 1.0, 22)])
def test_real_gains_are_found_soon(effect: float, power: float, pairs: float) -> None:
    ends = worlds(200, 200, bernoulli(0.5 - effect / 2, 0.5 + effect / 2), ConfirmRule(max_pairs=200))
    assert share(ends, "accept") >= power
    assert sum(end.n_pairs for end in ends) / len(ends) <= pairs


def test_harm_is_rejected_soon() -> None:
    ends = worlds(100, 200, bernoulli(0.65, 0.35), ConfirmRule())
    assert share(ends, "reject") == 1.0
    assert sum(end.n_pairs for end in ends) / len(ends) <= 50


@pytest.mark.parametrize("n", [1, 3, 6])
def test_wealth_is_a_fair_game_when_nothing_differs(n: int) -> None:
    rule = ConfirmRule(alpha=1e-9, beta=1e-9)
    wealths = [confirm(pairs, rule).wealth for pairs in product((BETTER, WORSE), repeat=n)]
    assert math.isclose(sum(wealths) / len(wealths), 1.0)


def test_the_first_crossing_decides_and_later_pairs_are_ignored() -> None:
    won = confirm([BETTER] * 30, ConfirmRule())
    assert (won.verdict, won.n_expected) == ("accept", 0)
    assert won.wealth >= 20
    assert confirm([BETTER] * won.n_pairs + [WORSE] * 100, ConfirmRule()) == won
    assert confirm([BETTER] * (won.n_pairs - 1), ConfirmRule()).verdict == "undecided"
    assert won.n_pairs == 7


def test_harm_that_comes_first_is_rejected_whatever_follows() -> None:
    lost = confirm([WORSE] * 30 + [BETTER] * 300, ConfirmRule())
    assert (lost.verdict, lost.n_pairs, lost.n_expected) == ("reject", 6, 0)
    assert lost.reason == "a gain of 0.05 or more on these tasks is excluded at an error rate of 0.05"


def test_a_smaller_error_rate_asks_for_more_evidence() -> None:
    first, tenth = (confirm([BETTER] * 60, ConfirmRule(alpha=alpha_for(j, 0.05))) for j in (1, 10))
    assert first.n_pairs < tenth.n_pairs
    assert tenth.wealth >= 1 / tenth.alpha


def test_an_outage_accepts_nothing_and_condemns_nothing() -> None:
    outage = confirm([MISSING] * 200, ConfirmRule())
    assert (outage.verdict, outage.n_missing, outage.n_expected) == ("undecided", 200, None)
    assert confirm([MISSING] * 50 + [BETTER] * 30, ConfirmRule(max_pairs=400)).verdict == "undecided"


def test_a_missing_arm_counts_as_the_worst_difference_and_stays_out_of_the_means() -> None:
    missing = confirm([BETTER, MISSING, Pair(0.0, None), SAME], ConfirmRule())
    worse = confirm([BETTER, WORSE, WORSE, SAME], ConfirmRule())
    assert (missing.wealth, missing.n_missing, worse.n_missing) == (worse.wealth, 2, 0)
    assert (missing.base_mean, missing.candidate_mean) == (0.5, 1.0)


def test_no_pairs_and_only_ties_decide_nothing() -> None:
    none = confirm([], ConfirmRule())
    assert none == Confirmation(
        verdict="undecided",
        reason="not decided: evidence 1.00 to 1, 20.0 to 1 is asked; too early to say how many more pairs",
        n_pairs=0,
        n_expected=None,
        alpha=0.05,
        wealth=none.wealth,
        base_mean=0.0,
        candidate_mean=0.0,
    )
    assert math.isclose(none.wealth, 1.0)
    assert confirm([SAME] * 20, ConfirmRule(min_effect=0.0)).n_expected is None


def test_it_pauses_at_max_pairs_and_may_go_on_from_there() -> None:
    pairs = [BETTER, BETTER, SAME, WORSE] * 60
    paused = confirm(pairs, ConfirmRule(max_pairs=12))
    assert (paused.verdict, paused.n_pairs) == ("undecided", 12)
    assert confirm(pairs, ConfirmRule(max_pairs=240)).verdict == "accept"


def test_the_estimate_of_pairs_still_expected_is_about_right() -> None:
    pairs = [BETTER, BETTER, SAME, WORSE, SAME] * 60
    decided = confirm(pairs, ConfirmRule(max_pairs=300))
    early = confirm(pairs[:20], ConfirmRule())
    assert early.n_expected is not None
    assert 0.6 <= (20 + early.n_expected) / decided.n_pairs <= 1.5
    assert f"about {early.n_expected} more pairs expected" in early.reason


@given(PAIRS, st.integers(1, 80))
def test_a_verdict_never_changes_when_more_pairs_come(pairs: list[Pair], cut: int) -> None:
    earlier, later = confirm(pairs[:cut], ConfirmRule()), confirm(pairs, ConfirmRule())
    assert later.n_pairs >= earlier.n_pairs
    if earlier.verdict != "undecided":
        assert later == earlier


@given(PAIRS)
def test_verdict_and_wealth_agree_and_an_estimate_is_at_least_one_pair(pairs: list[Pair]) -> None:
    end = confirm(pairs, ConfirmRule())
    assert (end.verdict == "accept") is (end.wealth >= 20)
    assert end.n_expected is None or (end.n_expected == 0) is (end.verdict != "undecided")
    assert 0.0 <= end.base_mean <= 1.0
    assert 0.0 <= end.candidate_mean <= 1.0


@given(PAIRS, st.integers(0, 59))
def test_a_better_pair_never_lowers_the_evidence(pairs: list[Pair], at: int) -> None:
    rule = ConfirmRule(alpha=1e-300, beta=1e-300)
    raised = [BETTER if index == at else pair for index, pair in enumerate(pairs)]
    assert confirm(raised, rule).wealth >= confirm(pairs, rule).wealth


@pytest.mark.parametrize(("effect", "sd"), [(0.2, 0.69), (0.3, 0.67), (0.5, 0.61)])
def test_pairs_needed_is_near_what_is_used(effect: float, sd: float) -> None:
    ends = worlds(150, 400, bernoulli(0.5 - effect / 2, 0.5 + effect / 2), ConfirmRule(max_pairs=400))
    used = sum(end.n_pairs for end in ends) / len(ends)
    assert 0.75 <= pairs_needed(effect, sd, ConfirmRule()) / used <= 1.4


def test_smaller_gains_and_noisier_tasks_need_more_pairs() -> None:
    rule = ConfirmRule()
    assert pairs_needed(0.05, 0.7, rule) > pairs_needed(0.1, 0.7, rule) > pairs_needed(0.1, 0.3, rule)
    assert pairs_needed(0.3, 0.7, ConfirmRule(alpha=0.01)) > pairs_needed(0.3, 0.7, rule)
    assert pairs_needed(1.0, 0.0, rule) <= 7


@pytest.mark.parametrize(
    "make",
    [
        lambda: ConfirmRule(alpha=0.0),
        lambda: ConfirmRule(beta=1.0),
        lambda: ConfirmRule(alpha=float("nan")),
        lambda: ConfirmRule(min_effect=-0.1),
        lambda: ConfirmRule(max_pairs=0),
        lambda: ConfirmRule(margin=0.1),
        lambda: ConfirmRule(margin=-1.0),
        lambda: no_worse(0.0),
        lambda: no_worse(1.0),
        lambda: pairs_needed(0.0, 0.5, ConfirmRule()),
        lambda: pairs_needed(0.1, 2.0, ConfirmRule()),
        lambda: confirm([Pair(0.0, 1.5)], ConfirmRule()),
        lambda: confirm([Pair(float("nan"), 1.0)], ConfirmRule()),
    ],
)
def test_values_that_would_break_the_error_rate_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(BadInput):
        make()


def test_a_candidate_that_loses_too_much_is_called_no_worse_in_at_most_five_of_a_hundred() -> None:
    ends = worlds(400, 300, bernoulli(0.5, 0.4), no_worse(0.1, max_pairs=300))
    assert share(ends, "accept") <= 0.05


def test_filler_may_go_and_what_is_useful_stays() -> None:
    rule = no_worse(0.15)
    assert share(worlds(100, 400, bernoulli(0.5, 0.5), rule), "accept") >= 0.85
    useful = worlds(100, 400, bernoulli(0.65, 0.35), rule)
    assert share(useful, "accept") <= 0.05
    assert share(useful, "reject") >= 0.9


def test_the_reason_says_which_claim_was_tested() -> None:
    rule = no_worse(0.2)
    assert confirm([SAME] * 200, rule).reason.startswith("no worse by more than 0.2 on these tasks: evidence ")
    assert confirm([WORSE] * 200, rule).reason == (
        "that it loses nothing on these tasks is excluded at an error rate of 0.05"
    )
    larger = ConfirmRule(min_effect=0.1, margin=0.1)
    assert confirm([BETTER] * 200, larger).reason.startswith("better by more than 0.1 on these tasks: evidence ")


def test_a_gain_below_the_one_that_is_asked_for_is_accepted_in_at_most_five_of_a_hundred() -> None:
    rule = ConfirmRule(min_effect=0.2, margin=0.2)
    assert share(worlds(400, 200, bernoulli(0.4, 0.6), rule), "accept") <= 0.05
    assert share(worlds(100, 200, bernoulli(0.1, 0.9), rule), "accept") >= 0.95


@pytest.mark.parametrize("margin", [-0.5, -0.1, 0.0, 0.1, 0.4])
def test_wealth_never_falls_below_zero_and_is_a_fair_game_at_the_margin(margin: float) -> None:
    rule = ConfirmRule(alpha=1e-9, beta=1e-9, min_effect=max(0.0, margin), margin=margin)
    wins = (1 + margin) / 2
    mean = sum(
        confirm(pairs, rule).wealth * wins ** pairs.count(BETTER) * (1 - wins) ** pairs.count(WORSE)
        for pairs in product((BETTER, WORSE), repeat=6)
    )
    assert math.isclose(mean, 1.0)
    assert confirm([WORSE] * 50, rule).wealth >= 0


@given(st.lists(st.sampled_from([Pair(0.0, 1.0), Pair(1.0, 0.0), Pair(1.0, 1.0), Pair(None, 1.0)]), max_size=30))
def test_no_verdict_comes_sooner_than_the_fewest_more_pairs(pairs: list[Pair]) -> None:
    rule = ConfirmRule(alpha=0.03, max_pairs=10_000)
    fewest = fewest_more(pairs, rule)
    ends = [
        confirm([*pairs, *[pair] * n], rule).verdict
        for n in (fewest - 1, fewest)
        for pair in (Pair(0.0, 1.0), Pair(1.0, 0.0))
        if n >= 0
    ]
    if confirm(pairs, rule).verdict == "undecided":
        assert ends[:2] == ["undecided", "undecided"]
        assert set(ends[2:]) & {"accept", "reject"}


def test_how_many_more_pairs_a_verdict_takes_follows_from_the_evidence_so_far() -> None:
    rule = ConfirmRule(alpha=0.03)
    assert fewest_more([], rule) == 6
    assert fewest_more([Pair(0.0, 1.0)] * 6, rule) == fewest_pairs(rule) - 6 == 2
    assert fewest_more([Pair(1.0, 1.0)] * 4 + [Pair(1.0, 0.0)] * 3, rule) < 6


@pytest.mark.parametrize("rule", [ConfirmRule(), ConfirmRule(alpha=0.001), no_worse(0.1)])
def test_no_test_is_shorter_than_the_fewest_pairs(rule: ConfirmRule) -> None:
    fewest = fewest_pairs(rule)
    assert confirm([BETTER] * fewest, rule).verdict == "accept"
    assert confirm([BETTER] * (fewest - 1), rule).verdict == "undecided"
