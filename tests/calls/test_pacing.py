"""Pacing: a backend gets fewer calls at once when it says so, more when it does not, and none when it is down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.backends.rounds import Breaker, Pace
from skillopt_mcp.core.calls import Fault


def reject(pace: Pace, n: int, retry_after: float | None = None) -> None:
    for _ in range(n):
        pace.rejected(0.0, retry_after)


def answer(pace: Pace, n: int) -> None:
    for _ in range(n):
        pace.answered()


def test_a_window_that_is_rejected_whole_halves_the_calls_down_to_one() -> None:
    pace, limits = Pace(16), []
    for _ in range(6):
        limits.append(pace.limit)
        reject(pace, pace.limit)
    assert limits == [16, 8, 4, 2, 1, 1]


def test_a_window_without_a_rejection_adds_one_call_up_to_the_slots() -> None:
    pace, limits = Pace(8), []
    reject(pace, 8)
    for _ in range(7):
        limits.append(pace.limit)
        answer(pace, pace.limit)
    assert limits == [4, 5, 6, 7, 8, 8, 8]


def test_single_rejections_among_many_answers_cost_little() -> None:
    pace = Pace(16)
    for _ in range(50):
        answer(pace, 19)
        reject(pace, 1)
    assert pace.limit >= 14


@pytest.mark.parametrize("most", [6, 12, 20])
def test_a_limit_that_rejected_calls_is_not_climbed_into_again_and_again(most: int) -> None:
    pace, n_answered, n_rejected, n_windows = Pace(32), 0, 0, 0
    while n_answered < 50 * most:
        n = min(pace.limit, most)
        n_rejected, n_answered, n_windows = n_rejected + pace.limit - n, n_answered + n, n_windows + 1
        extra = pace.limit - n
        answer(pace, n)
        reject(pace, extra)
    assert n_windows <= 52
    assert n_rejected <= 60


def test_a_limit_that_is_lifted_is_found_again() -> None:
    pace = Pace(32)
    for _ in range(40):
        extra = max(0, pace.limit - 4)
        answer(pace, pace.limit - extra)
        reject(pace, extra)
    assert pace.limit <= 5
    for _ in range(60):
        answer(pace, pace.limit)
    assert pace.limit == 32


@given(st.integers(1, 64), st.lists(st.booleans(), max_size=300))
def test_there_is_always_one_call_and_never_more_than_the_slots(concurrency: int, answers: list[bool]) -> None:
    pace = Pace(concurrency)
    for is_answer in answers:
        answer(pace, 1) if is_answer else reject(pace, 1)
        assert 1 <= pace.limit <= concurrency


def test_one_call_that_has_to_wait_does_not_hold_up_the_others() -> None:
    pace = Pace(8)
    reject(pace, 2, 30.0)
    answer(pace, 1)
    reject(pace, 2, 30.0)
    assert pace.closed_until == 0.0


def test_a_backend_that_tells_call_after_call_to_wait_gets_none_until_then() -> None:
    pace = Pace(8)
    reject(pace, 3, 30.0)
    assert pace.closed_until == 30.0
    alone = Pace(1)
    reject(alone, 1, 5.0)
    assert alone.closed_until == 5.0


def noted(faults: list[Fault | None]) -> Breaker:
    breaker = Breaker()
    for fault in faults:
        breaker.note(fault)
    return breaker


def test_a_few_faults_at_the_start_prove_nothing() -> None:
    assert not noted(["server"] * 19).is_open
    assert noted(["server"] * 20).is_open


def test_more_than_half_of_the_last_twenty_must_have_failed() -> None:
    assert not noted(["server"] * 10 + [None] * 10).is_open
    breaker = noted([None] * 100 + ["server"] * 4 + ["timeout"] * 7)
    assert breaker.is_open
    assert str(breaker) == "11 of the last 20 calls failed (7 timeout, 4 server)"
    assert not noted(["server"] * 20 + [None] * 10).is_open
