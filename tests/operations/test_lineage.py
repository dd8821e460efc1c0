"""Lineage: a skill keeps its one error rate, and what its tests have drawn, through renames, copies and edits."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from workshop import EVEN, PLACEBO, SEED, Place, use

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.candidates import propose_edits
from skillopt_mcp.errors import Refused
from skillopt_mcp.gates.confirm import ConfirmRule, alpha_for
from skillopt_mcp.maintenance.verify import verify_store
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.records.calls import Call, Rollout
from skillopt_mcp.records.results import Evaluated
from skillopt_mcp.tasks import add_tasks, remove_tasks
from skillopt_mcp.training.confirmation import upcoming_alpha
from skillopt_mcp.workspace import Workspace

REAL = "anthropic:some-model"
LIFE = 0.05
TWO_PAIRS = ConfirmRule(max_pairs=2)
LIKE_THESE = ConfirmRule(claim="like_these")


def coin(call: Call) -> str:
    """Answer as the task wants half of the time, by nothing that a version holds."""
    assert isinstance(call.request, Rollout)
    judge = call.request.task.judge.model_dump()
    is_right = random.Random(f"{SEED}/{call.draw}/{call.request.files.digest}").random() < 0.5
    return str(judge["expected"]) if is_right else "no"


def failing() -> Backend:
    return Scripted(lambda call: "no", name=REAL)


def with_tasks(workspace: Workspace, folder: Path, n: int = 90) -> None:
    tracked = workspace.skill(str(folder))
    workspace.store.tasks.add_tasks(tracked.id, make_tasks(n, SEED), EVEN)


def verdict_on(workspace: Workspace, folder: Path, text: str, rule: ConfirmRule = TWO_PAIRS) -> Evaluated:
    proposed = propose_edits(workspace, str(folder), [{"op": "append", "content": f"{PLACEBO} {text}"}])
    return evaluate_candidate(workspace, proposed.candidate_id or "", rule=rule)


def copied(place: Place, name: str) -> Path:
    folder = place.root / name
    shutil.copytree(place.skill, folder)
    return folder


def next_alpha(workspace: Workspace, folder: Path) -> float:
    return upcoming_alpha(workspace.store, workspace.skill(str(folder)).id, REAL, LIFE)


@pytest.fixture
def unlucky(workspace: Workspace) -> Workspace:
    """Return a workspace whose target fails everything, as if it were a real model: no test comes to a verdict."""
    use(workspace, failing())
    return workspace


def test_no_rename_lets_the_next_test_of_a_placebo_have_more_of_the_error_rate(
    place: Place, workspace: Workspace
) -> None:
    use(workspace, Scripted(coin, name=REAL))
    folder, alphas, verdicts = place.skill, list[float](), set[str | None]()
    for n in range(12):
        new = folder.rename(place.root / f"clerk-{n}")
        with_tasks(workspace, new, 30)
        found = verdict_on(workspace, new, str(n), ConfirmRule(max_pairs=16))
        alphas.append(found.alpha)
        verdicts.add(found.verdict)
        folder = new
    assert alphas == sorted(alphas, reverse=True)
    assert alphas == [pytest.approx(alpha_for(j, LIFE), rel=1e-3) for j in range(1, 13)]
    assert verdicts == {"undecided"}
    assert verify_store(place.store_path).problems == []


def test_a_copy_of_a_skill_shares_its_error_rate_and_neither_is_held_up(place: Place, unlucky: Workspace) -> None:
    verdict_on(unlucky, place.skill, "1")
    copy = copied(place, "copy")
    with_tasks(unlucky, copy)
    assert next_alpha(unlucky, copy) == next_alpha(unlucky, place.skill) == pytest.approx(alpha_for(2, LIFE))
    verdict_on(unlucky, copy, "2")
    assert next_alpha(unlucky, copy) == next_alpha(unlucky, place.skill) == pytest.approx(alpha_for(3, LIFE))


def test_what_a_test_has_drawn_is_not_fresh_again_in_another_folder(place: Place, unlucky: Workspace) -> None:
    verdict_on(unlucky, place.skill, "1", replace(LIKE_THESE, max_pairs=28))
    new = place.skill.rename(place.root / "bookkeeper")
    with_tasks(unlucky, new)
    with pytest.raises(Refused, match=r"there are 2 \(28 more ask nearly what a retired task asked, or one of another"):
        verdict_on(unlucky, new, "2", LIKE_THESE)


def test_a_retirement_is_before_or_after_a_test_whatever_was_tested_in_other_folders(
    place: Place, unlucky: Workspace
) -> None:
    for n in range(3):
        verdict_on(unlucky, place.skill, str(n))
    copy = copied(place, "copy")
    with_tasks(unlucky, copy)
    first = verdict_on(unlucky, copy, "4")
    held = [task for task in unlucky.store.tasks.list_in_use(unlucky.skill(str(copy)).id) if task.split == "test"]
    add_tasks(
        unlucky, str(copy), [{"id": "late", "prompt": "?", "judge": {"kind": "numeric", "expected": 1}, "split": "val"}]
    )
    remove_tasks(unlucky, str(copy), [held[0].name, "late"])
    again = evaluate_candidate(unlucky, first.candidate_id, rule=TWO_PAIRS)
    assert "before this test began" not in again.reason
    assert "; 1 of its tasks was retired since it began, and stays in it" in again.reason
    assert "2 held-out tasks were retired" in verdict_on(unlucky, copy, "5").reason
