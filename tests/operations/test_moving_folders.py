"""Moving folders: all skills of a folder go on in another one, and what cannot is told and stays."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from workshop import Place

from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.skills.moving import forget_skill
from skillopt_mcp.operations.skills.moving_folders import FolderMove, move_folder, plan_folder_move
from skillopt_mcp.operations.stores.backing_up import back_up, restore_store, review_backup
from skillopt_mcp.operations.workspace import Workspace


@pytest.fixture
def trio(place: Place, workspace: Workspace) -> Path:
    """Return the folder that now holds two of three tracked skills, which were in another one."""
    for name in ("b", "deep/c"):
        workspace.skill(str(shutil.copytree(place.skill, place.root / name)))
    new = place.folder / "new"
    place.root.rename(new)
    shutil.rmtree(new / "b")
    return new


def plan(place: Place, workspace: Workspace, new: Path) -> FolderMove:
    found = plan_folder_move(workspace, str(place.root), str(new))
    assert found is not None
    return found


def test_all_skills_below_a_folder_are_moved_and_the_others_are_told(
    place: Place, workspace: Workspace, trio: Path
) -> None:
    found = plan(place, workspace, trio)
    expected = [(str(place.root / name), str(trio / name)) for name in ("deep/c", "ledger-clerk")]
    assert (sorted(found.skills), found.left) == (
        expected,
        (f"'{place.root / 'b'}': there is no '{trio / 'b/SKILL.md'}'",),
    )
    done = move_folder(workspace, found)
    assert sorted((each.before, each.path) for each in done.moved) == expected
    assert done.left == list(found.left)
    assert f"Skill roots that lay there: {place.root}" in done.next_step
    assert workspace.store.tasks.count_tasks(workspace.skill(str(trio / "ledger-clerk")).id)["test"] == 30


def test_one_that_cannot_be_moved_does_not_keep_the_others(place: Place, workspace: Workspace, trio: Path) -> None:
    shutil.copytree(trio / "deep" / "c", place.root / "deep" / "c")
    done = move_folder(workspace, plan(place, workspace, trio))
    assert [each.skill for each in done.moved] == ["ledger-clerk"]
    assert "still holds a skill" in done.left[1]


def test_a_skill_or_a_folder_with_none_below_is_no_move_of_a_folder(
    place: Place, workspace: Workspace, trio: Path
) -> None:
    assert plan_folder_move(workspace, str(place.skill), str(trio)) is None
    assert plan_folder_move(workspace, str(place.folder / "nothing"), str(trio)) is None
    assert plan_folder_move(workspace, "skills", str(trio)) is None
    with pytest.raises(BadInput, match="is not a folder"):
        plan_folder_move(workspace, str(place.root), str(place.folder / "nowhere"))
    (place.folder / "empty").mkdir()
    with pytest.raises(BadInput, match="holds none of the 3 skills below"):
        plan_folder_move(workspace, str(place.root), str(place.folder / "empty"))


def test_a_forgotten_skill_stays_where_it_was(place: Place, workspace: Workspace, trio: Path) -> None:
    forget_skill(workspace, str(place.root / "deep" / "c"))
    assert [path for path, _ in plan(place, workspace, trio).skills] == [str(place.skill)]


def test_a_restore_names_the_folders_that_are_missing_and_moves_them_at_once(
    place: Place, workspace: Workspace, trio: Path, tmp_path: Path
) -> None:
    file = tmp_path / "copy.db"
    back_up(place.store_path, file)
    found = review_backup(place.store_path, file)
    assert found.missing == [f"{place.root} (2 skills)", f"{place.root / 'deep'} (1 skill)"]
    move = f"skillopt-mcp skills move {place.root} NEW-FOLDER"
    assert found.next_step.endswith(move)
    assert restore_store(place.folder / "elsewhere" / "s.db", file).next_step.endswith(move)
    move_folder(workspace, plan(place, workspace, trio))
    forget_skill(workspace, str(place.root / "b"))
    back_up(place.store_path, tmp_path / "later.db")
    assert (review_backup(place.store_path, tmp_path / "later.db").missing) == []
