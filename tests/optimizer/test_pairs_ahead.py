"""Pacing: how many pairs are asked ahead, by how many are done."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.training.confirmation import FEW, MOST, USUAL, Pace


def windows(pace: Pace, limit: int) -> list[int]:
    """Return the numbers of pairs that are done each time that all asked ahead have come back."""
    done = [0]
    while done[-1] < limit:
        done.append(min(limit, done[-1] + pace.ahead(done[-1])))
    return done


def test_usually_a_few_pairs_are_asked_ahead_however_many_are_done() -> None:
    assert [USUAL.ahead(n) for n in (0, 6, 200)] == [8, 8, 8]
    assert Pace(40).ahead(0) == 40


def test_so_many_are_asked_as_a_verdict_takes_at_the_least() -> None:
    assert windows(Pace(MOST, sure=9), 40) == [0, 9, 15, 22, 33, 40]
    assert windows(Pace(MOST, sure=20), 20) == [0, 16, 20]


@given(most=st.integers(0, MOST), sure=st.integers(1, 60), n_done=st.integers(0, 400))
def test_what_a_verdict_does_not_use_is_bounded_by_what_it_uses(most: int, sure: int, n_done: int) -> None:
    in_vain = n_done + Pace(most, sure).ahead(n_done) - max(sure, n_done + 1)
    assert in_vain <= max(FEW, n_done // 2) - 1
