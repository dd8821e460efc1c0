"""Calls at rest: claimed and answered in any number at once, each once."""

import pytest

from skillopt_mcp.core.budgets import NO_CAPS, Cost, Spent
from skillopt_mcp.core.calls import Call, Question, Reply
from skillopt_mcp.store.calls import Bill, Claim, Settlement
from skillopt_mcp.store.opening import Store


def keys(n: int) -> list[bytes]:
    return [f"{n}/{number}".encode().rjust(32) for number in range(n)]


def claimed(store: Store, n: int, owner: str) -> list[Claim]:
    fresh = [(key, Call("target", "rollout", Question("i", "e", "q"), f"{key!r}")) for key in keys(n)]
    bill = Bill("b", NO_CAPS, Spent(), [Cost(1)] * n)
    return list(store.calls.settle(Settlement([], [], 0, fresh, "scope", owner, bill)).claims)


@pytest.mark.parametrize("n", [1, 2, 3, 40, 127, 128, 129, 300, 4_000])
def test_any_number_of_calls_is_claimed_once_in_order_and_answered(store: Store, n: int) -> None:
    first = claimed(store, n, "one")
    assert [claim.id for claim in first] == list(range(1, n + 1))
    assert claimed(store, n, "two") == first
    replies = [Reply(f"text {claim.id}", id=claim.id) for claim in first]
    store.calls.settle(Settlement(replies, [], 0, [], "scope", "one", Bill("b", NO_CAPS, Spent(), [])))
    found = store.calls.get_replies([*keys(n), b"another".rjust(32)])
    assert [found[key].text for key in keys(n)] == [f"text {number}" for number in range(1, n + 1)]
    assert len(found) == n
