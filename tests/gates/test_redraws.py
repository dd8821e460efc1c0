"""Redraws: what one interruption explains is forgiven, and nothing beyond it helps a candidate."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.gates.confirm import PAIRS_AT_ONCE, ConfirmRule, Redraws, Restarts, confirm, redraws_of
from skillopt_mcp.records.evidence import Pair

ANEW = st.builds(Restarts, st.integers(0, 1), st.integers(0, 1))


@given(first=st.integers(0, 200), taken=st.lists(ANEW, max_size=PAIRS_AT_ONCE))
def test_what_one_interruption_cut_short_is_held_against_nobody(first: int, taken: list[Restarts]) -> None:
    redraws = Redraws()
    assert not any(redraws.take(first + n, anew) for n, anew in enumerate(taken))
    assert redraws.n_charged == 0


@given(st.lists(st.builds(Restarts, st.integers(0, 5), st.integers(0, 5)), max_size=40))
def test_what_was_redrawn_for_the_live_version_as_often_is_held_against_nobody(taken: list[Restarts]) -> None:
    even = [Restarts(max(each.base, each.candidate), each.candidate) for each in taken]
    assert redraws_of(dict(enumerate(even))).n_charged == 0


def test_beyond_it_a_candidate_that_is_redrawn_alone_has_a_missing_pair_each_time() -> None:
    redraws = Redraws()
    assert not redraws.take(0, Restarts(candidate=1))
    assert [redraws.take(20 + n, Restarts(candidate=1)) for n in range(4)] == [False, True, True, True]
    assert not redraws.take(24, Restarts())
    assert str(redraws) == (
        "5 attempts of the candidate and 0 of the live version were restarted, more than an interruption explains: "
        "3 pairs of it counted as missing"
    )


def test_redraws_of_the_same_attempt_within_the_first_interruption_count_but_for_one() -> None:
    redraws = Redraws()
    assert redraws.take(0, Restarts(candidate=3))
    assert not redraws.take(1, Restarts(base=1))
    assert str(Redraws()) == ""


def placebo(chance: random.Random) -> str:
    """Return the verdict on a placebo whose wrong attempts hang, and are ended and drawn again until one is right."""
    redraws, pairs = Redraws(), list[Pair]()
    for n in range(120):
        base, times = float(chance.random() < 0.5), 0
        while chance.random() < 0.5:
            times += 1
        pairs.append(Pair(base, None if redraws.take(n, Restarts(candidate=times)) else 1.0))
    return confirm(pairs, ConfirmRule(alpha=0.0304, max_pairs=120)).verdict


def test_ending_whatever_hangs_gets_a_placebo_accepted_in_at_most_five_of_a_hundred_tests() -> None:
    assert sum(placebo(random.Random(seed)) == "accept" for seed in range(400)) <= 20
