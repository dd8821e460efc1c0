"""Update: the candidate that a patch makes."""

from __future__ import annotations

import pytest
from memory_ask import SKILL, adds

from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.edits import Edit, Patch
from skillopt_mcp.stages.update import update


def test_the_candidate_is_the_current_version_with_the_edits_made() -> None:
    applied = update(SKILL, Patch((Edit("replace", "- Answer.", "- Answer with a number."),)), budget=1)
    assert applied.files.main == SKILL.main.replace(b"- Answer.", b"- Answer with a number.")


@pytest.mark.parametrize("patch", [Patch(()), Patch((Edit("delete", "not there"),))])
def test_a_patch_that_changes_nothing_gives_the_parent(patch: Patch) -> None:
    assert update(SKILL, patch, budget=1).files == SKILL


def test_a_patch_over_the_budget_is_refused() -> None:
    with pytest.raises(BadInput, match="2 edits and the budget is 1"):
        update(SKILL, Patch((adds("a"), adds("b"))), budget=1)
