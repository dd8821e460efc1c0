"""Learned: what a candidate of another store was made from never speaks for it here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from workshop import SEED, Place

from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.errors import Refused
from skillopt_mcp.operations.candidates.rebasing import rebase_candidate
from skillopt_mcp.operations.stores.taking_in import import_history
from skillopt_mcp.operations.stores.transferring import export_history
from skillopt_mcp.operations.stores.verifying import verify_store
from skillopt_mcp.operations.testing.choosing import target_tasks, tasks_to_test
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import IMPORTED, Candidate
from skillopt_mcp.records.judging import Contains
from skillopt_mcp.records.tasks import SPLITS, NewTask, Split, TaskFile
from skillopt_mcp.splits import EQUAL_SHARES

N = 90


@pytest.fixture
def bare(place: Place) -> Workspace:
    """Return a workspace on a store that knows nothing yet."""
    workspace = place.open(store="bare.db")
    workspace.store.permissions.add_root(str(place.root))
    return workspace


def put(place: Place, workspace: Workspace, tasks: list[NewTask]) -> None:
    skill = workspace.skill(str(place.skill))
    assert set(workspace.store.tasks.add_tasks(skill.id, tasks, EQUAL_SHARES)) == {"added"}


def in_splits(shift: int, n: int = N) -> list[NewTask]:
    """Return the same tasks each time, in splits that another shift moves."""
    return [replace(task, split=SPLITS[(at + shift) % 3]) for at, task in enumerate(make_tasks(n, SEED))]


def sent(place: Place, folder: Path, tasks: list[NewTask]) -> Path:
    """Return the history of a store that made a candidate of these tasks."""
    workspace = place.open(store="first.db")
    put(place, workspace, tasks)
    place.propose(workspace)
    return Path(export_history(workspace, str(place.skill), folder / "clerk.history").file)


def candidate_of(place: Place, workspace: Workspace) -> Candidate:
    [found] = workspace.store.candidates.list_candidates(workspace.skill(str(place.skill)).id)
    return found


def drawn(workspace: Workspace, candidate: Candidate) -> set[str]:
    """Return what the promotion test of a candidate may draw."""
    _, held = tasks_to_test(workspace, candidate, target_tasks(workspace, candidate.skill_id, retired=True))
    return {task.prompt for task in held}


def asked(tasks: list[NewTask], *splits: Split) -> set[str]:
    return {task.prompt for task in tasks if task.split in splits}


def test_a_promotion_test_draws_nothing_that_was_train_or_val_where_the_candidate_was_made(
    place: Place, bare: Workspace, tmp_path: Path
) -> None:
    there, here = in_splits(0), in_splits(2)
    file = sent(place, tmp_path, there)
    put(place, bare, here)
    assert import_history(bare, file).status == "conflicts"
    got = import_history(bare, file, keep_mine=True)
    clean = asked(there, "test") & asked(here, "test", "val")
    assert (got.candidates, got.known_tasks) == (1, N // 3)
    candidate = candidate_of(place, bare)
    assert drawn(bare, candidate) == clean
    result = evaluate_candidate(bare, candidate.id)
    assert "without 30 tasks that were train or val where the candidate was made" in result.reason
    assert verify_store(bare.store.path).problems == []
    assert import_history(bare, file, keep_mine=True).status == "nothing_new"


def test_the_same_question_under_another_id_and_judge_is_a_conflict_and_is_not_drawn(
    place: Place, bare: Workspace, tmp_path: Path
) -> None:
    there = [replace(task, split="train") for task in make_tasks(9, SEED)]
    file = sent(place, tmp_path, there)
    judge = Contains(kind="contains", expected="x")
    same = replace(there[0], name="mine", judge=judge, split="test", prompt=f"\n{there[0].prompt} ")
    put(place, bare, [same, *in_splits(2, 30)[9:]])
    [conflict] = import_history(bare, file).conflicts
    assert conflict == f"task '{there[0].name}': what it asks is in test here (task 'mine'), in train in the file"
    assert import_history(bare, file, keep_mine=True).known_tasks == 1
    found = drawn(bare, candidate_of(place, bare))
    assert found
    assert same.prompt not in found


def test_a_task_with_the_same_prompt_and_other_files_is_another_task(
    place: Place, bare: Workspace, tmp_path: Path
) -> None:
    there = [replace(task, split="train") for task in make_tasks(9, SEED)]
    file = sent(place, tmp_path, there)
    with_file = replace(there[0], name="mine", split="test", files=(TaskFile("a.txt", "other"),))
    put(place, bare, [with_file])
    assert import_history(bare, file).conflicts == []
    assert drawn(bare, candidate_of(place, bare)) == {with_file.prompt}


def test_a_task_that_is_added_after_the_import_is_not_drawn_either(
    place: Place, bare: Workspace, tmp_path: Path
) -> None:
    there = [replace(task, split="train") for task in make_tasks(9, SEED)]
    import_history(bare, sent(place, tmp_path, there), str(place.skill))
    again = replace(there[3], name="again", judge=Contains(kind="contains", expected="x"), split="test")
    put(place, bare, [again, *in_splits(2, 30)[9:]])
    assert again.prompt not in drawn(bare, candidate_of(place, bare))


def test_a_candidate_made_from_all_that_could_test_it_is_refused_and_costs_nothing(
    place: Place, bare: Workspace, tmp_path: Path
) -> None:
    tasks = make_tasks(12, SEED)
    file = sent(place, tmp_path, [replace(task, split="train") for task in tasks])
    put(place, bare, [replace(task, split="test") for task in tasks])
    import_history(bare, file, keep_mine=True)
    with pytest.raises(Refused, match=r"all 12 held-out tasks were train or val .* add test tasks"):
        evaluate_candidate(bare, candidate_of(place, bare).id)


def test_what_a_candidate_was_made_from_goes_on_to_a_third_store(place: Place, bare: Workspace, tmp_path: Path) -> None:
    there = in_splits(0)
    here = [replace(task, split="test") if at < 9 else task for at, task in enumerate(there)]
    put(place, bare, here)
    import_history(bare, sent(place, tmp_path, there), keep_mine=True)
    onward = Path(export_history(bare, str(place.skill), tmp_path / "onward.history").file)
    third = place.open(store="third.db")
    put(place, third, [replace(task, split="test") for task in make_tasks(N, SEED)])
    import_history(third, onward, keep_mine=True)
    assert drawn(third, candidate_of(place, third)) == asked(there, "test")


def test_an_imported_candidate_stays_one_when_it_is_made_again(place: Place, bare: Workspace, tmp_path: Path) -> None:
    there, here = in_splits(0), in_splits(2)
    file = sent(place, tmp_path, there)
    put(place, bare, here)
    import_history(bare, file, keep_mine=True)
    old = candidate_of(place, bare)
    place.main.write_text(place.main.read_text() + "\nAn edit of mine.\n")
    made = bare.store.candidates.get_candidate(rebase_candidate(bare, old.id).candidate_id or "")
    assert made.findings.count(IMPORTED) == 1
    assert drawn(bare, made) == drawn(bare, old)


def test_a_candidate_of_this_store_is_tested_on_all_that_is_held_out_here(
    place: Place, bare: Workspace, tmp_path: Path
) -> None:
    file = sent(place, tmp_path, in_splits(0))
    put(place, bare, in_splits(2))
    own = place.propose(bare, "- A lesson of this store.")
    import_history(bare, file, keep_mine=True)
    assert len(drawn(bare, bare.store.candidates.get_candidate(own))) == N // 3


def test_the_history_of_another_skill_is_refused_unless_it_is_meant(
    place: Place, bare: Workspace, tmp_path: Path
) -> None:
    file = sent(place, tmp_path, in_splits(0))
    other = place.root / "another"
    other.mkdir()
    (other / "SKILL.md").write_text("---\nname: another\ndescription: Another one.\n---\n# Another\n")
    bare.skill(str(other))
    head = verify_store(bare.store.path, live=False).head
    with pytest.raises(Refused, match=r'it is the history of another skill: "ledger-clerk".* --other-skill'):
        import_history(bare, file, str(other))
    assert verify_store(bare.store.path, live=False).head == head
    got = import_history(bare, file, str(other), other_skill=True)
    assert (got.status, got.of, got.skill) == ("imported", "ledger-clerk", "another")


def test_a_skill_that_was_renamed_and_shares_a_version_takes_its_history_in(
    place: Place, bare: Workspace, tmp_path: Path
) -> None:
    file = sent(place, tmp_path, in_splits(0))
    renamed = place.skill.rename(place.root / "clerk")
    assert import_history(bare, file, str(renamed)).of == "ledger-clerk"
