"""Retrying: every kind of fault has a policy, the server's wish is honoured, and no call waits for ever."""

from itertools import pairwise
from typing import get_args

import pytest

from skillopt_mcp.backends.base import FATAL, RETRYABLE
from skillopt_mcp.backends.spending import MAX_CALL_S, MAX_PAUSE_S, POLICIES, wait_before_next
from skillopt_mcp.core.calls import Fault

KEYS = [bytes([n]) * 32 for n in range(50)]


def seconds(fault: Fault, n: int, retry_after: float | None = None) -> list[float]:
    waits = [wait_before_next(fault, n, retry_after, key, age_s=0.0) for key in KEYS]
    assert {wait.given_up for wait in waits} == {None}
    return [wait.seconds for wait in waits]


def test_every_fault_has_a_policy_and_those_that_pass_are_tried_at_most_five_times() -> None:
    assert set(POLICIES) == set(get_args(Fault))
    assert {fault for fault, policy in POLICIES.items() if policy.attempts > 1} == RETRYABLE
    assert max(policy.attempts for policy in POLICIES.values()) == 5
    assert not any(POLICIES[fault].may_be_paid for fault in FATAL | {"rate_limit", "overloaded", "server"})


@pytest.mark.parametrize("fault", ["rate_limit", "server"])
def test_each_wait_is_a_multiple_of_the_last_and_spreads(fault: Fault) -> None:
    columns = [seconds(fault, n) for n in range(1, 5)]
    for n, column in enumerate(columns):
        middle = POLICIES[fault].wait_s * POLICIES[fault].growth ** n
        assert 0.5 * middle <= min(column) < max(column) <= 1.5 * middle
        assert len(set(column)) == len(KEYS)
    assert all(sum(later) > 0.7 * POLICIES[fault].growth * sum(earlier) for earlier, later in pairwise(columns))


def test_what_the_server_asks_for_is_waited_for_and_a_little_more_so_that_callers_spread() -> None:
    waits = seconds("rate_limit", 1, 20.0)
    assert 20.0 <= min(waits) < max(waits) <= 20.5
    assert len(set(waits)) == len(KEYS)
    assert seconds("rate_limit", 1, 0.0) == seconds("rate_limit", 1)


@pytest.mark.parametrize("asked", [MAX_PAUSE_S, 3600.0])
def test_a_call_is_not_given_up_because_a_server_asks_to_wait_for_long(asked: float) -> None:
    wait = wait_before_next("rate_limit", 1, asked, KEYS[0], age_s=0.0)
    assert wait.given_up is None
    assert wait.seconds >= asked


def test_all_attempts_together_have_a_deadline() -> None:
    assert wait_before_next("timeout", 1, None, KEYS[0], age_s=MAX_CALL_S - 60).given_up is None
    wait = wait_before_next("timeout", 1, None, KEYS[0], age_s=MAX_CALL_S)
    assert wait.given_up == "given up 1,800 s after it was first sent"
