"""The names that models were served by: each kept once, under the sum of its reply, and none for old replies."""

from __future__ import annotations

import pytest
from test_stored_calls import claimed, keys

from skillopt_mcp.errors import StoreError, UnsafeStore
from skillopt_mcp.records.budgets import NO_CAPS, Spent
from skillopt_mcp.records.calls import Reply
from skillopt_mcp.store.budgets import Bill
from skillopt_mcp.store.calls import Settlement
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.serving import ServedBy, Servings
from skillopt_mcp.store.soundness import Soundness

NAMES = ["big/fp_1", "", "small", "big/fp_1", "small"]


@pytest.fixture
def answered(store: Store) -> Store:
    """Return a store whose calls were answered by several models."""
    replies = [
        Reply("x", id=claim.id, served=name)
        for claim, name in zip(claimed(store, len(NAMES), "one"), NAMES, strict=True)
    ]
    for some in (replies[:3], replies[3:]):
        store.calls.settle(Settlement(some, [], 0, [], "scope", "one", Bill("b", NO_CAPS, Spent(), [])))
    return store


def problems(store: Store) -> list[str]:
    soundness = store.room(Soundness)
    return [*soundness.file_problems(), *soundness.shape_problems(), *soundness.row_problems()]


def test_a_reply_comes_back_with_its_name_and_each_name_is_kept_once(answered: Store, pool: Pool) -> None:
    found = answered.calls.get_replies(keys(len(NAMES)))
    assert [found[key].served for key in keys(len(NAMES))] == NAMES
    assert sorted(pool.rows("select name from served")) == [("big/fp_1",), ("small",)]
    assert answered.room(Servings).list_of_scope("scope") == [
        ServedBy("target", "big/fp_1", 2), ServedBy("target", "small", 2)
    ]  # fmt: skip
    assert problems(answered) == []


def test_an_older_releases_reply_keeps_the_sum_that_it_had(answered: Store, pool: Pool) -> None:
    with pool.write() as connection:
        connection.execute(
            "update reply set served = null, sum = row_sum(call_id, text, messages, tokens_in, tokens_out, usd,"
            " latency_ms, fault, tokens_cached)"
        )
    assert problems(answered) == []
    found = answered.calls.get_replies(keys(len(NAMES)))
    assert {reply.served for reply in found.values()} == {""}


@pytest.mark.parametrize("value", ["null", "2"])
def test_no_reply_goes_over_to_another_model_unnoticed(answered: Store, pool: Pool, value: str) -> None:
    with pool.write() as connection:
        [[big]] = connection.execute("select id from served where name = 'big/fp_1'")
        other = value if value == "null" else str(3 - big)
        connection.execute(f"update reply set served = {other} where call_id = 1")
    assert problems(answered) == ["table reply: row 1 is not what was written"]
    with pytest.raises(UnsafeStore, match="row 1 of table reply is not what was written"):
        answered.calls.get_replies(keys(len(NAMES)))


@pytest.mark.parametrize("change", ["update served set name = 'other'", "delete from served"])
def test_a_name_is_never_rewritten_or_removed(answered: Store, pool: Pool, change: str) -> None:
    with pytest.raises(StoreError, match="is never re"), pool.write() as connection:
        connection.execute(change)
