"""Approvals at rest: one covers what a person was shown or less of it, and never more."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from children import SKILL

from skillopt_mcp.core.candidates import Approval, Promotion
from skillopt_mcp.core.skills import Skill
from skillopt_mcp.store.opening import Store

SHOWN = [each for n in range(4) for each in itertools.combinations(("a secret", "a host", "a script"), n)]


def given(skill: Skill, *findings: str) -> Approval:
    return Approval(skill.id, "promote", SKILL.digest, SKILL.digest, findings, "t-1", "me")


@pytest.mark.parametrize("shown", SHOWN, ids=", ".join)
def test_an_approval_covers_what_it_was_shown_with_and_less(store: Store, skill: Skill, shown: tuple[str, ...]) -> None:
    added = store.approvals.add_approval(given(skill, *shown))
    for found in SHOWN:
        covered = store.approvals.find_unused(given(skill, *found)) == (added, "me")
        assert covered is (set(found) <= set(shown))
    assert store.approvals.find_unused(replace(given(skill), evidence="t-2")) is None


def test_an_approval_serves_one_change_and_another_where_that_one_did_not_happen(store: Store, skill: Skill) -> None:
    approval_id = store.approvals.add_approval(given(skill))
    change = Promotion(
        0, skill.id, "promote", None, SKILL.digest, SKILL.digest, "pending", "accept", "person", "terminal"
    )
    begun = store.promotions.begin(change, approval_id)
    assert begun
    assert store.promotions.begin(change, approval_id) is None
    store.promotions.undo(begun)
    assert store.promotions.begin(change, approval_id)
    assert store.promotions.begin(change, approval_id) is None
