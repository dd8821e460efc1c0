"""The names that models were served by: each kept once, under the sum of its reply, and none for old replies."""

from __future__ import annotations

import pytest
from test_stored_calls import claimed, keys

from skillopt_mcp.core.budgets import NO_CAPS, Spent
from skillopt_mcp.core.calls import Reply
from skillopt_mcp.core.errors import StoreError
from skillopt_mcp.store.calls import Bill, ServedRow, Settlement
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool

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


def test_a_reply_comes_back_with_its_name_and_each_name_is_kept_once(answered: Store, pool: Pool) -> None:
    found = answered.calls.get_replies(keys(len(NAMES)))
    assert [found[key].served for key in keys(len(NAMES))] == NAMES
    assert sorted(pool.rows("select name from served")) == [("big/fp_1",), ("small",)]
    assert answered.ledger.list_served("scope") == [
        ServedRow("target", "big/fp_1", 2), ServedRow("target", "small", 2)
    ]  # fmt: skip


@pytest.mark.parametrize("change", ["update served set name = 'other'", "delete from served"])
def test_a_name_is_never_rewritten_or_removed(answered: Store, pool: Pool, change: str) -> None:
    with pytest.raises(StoreError, match="is never re"), pool.write() as connection:
        connection.execute(change)
