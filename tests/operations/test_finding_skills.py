"""Finding: which of two skills of one name is meant, and what a look leaves alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from workshop import SIMULATION, Place

from skillopt_mcp.errors import NotFound
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.promoting import promote_skill
from skillopt_mcp.operations.finding import called, folder_at
from skillopt_mcp.operations.looks.history import history
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.workspace import Workspace

NAME = "ledger-clerk"


def copied(place: Place, folder: Path) -> Path:
    """Return a copy of the skill in another checkout, which has it in its own folder of skills."""
    copy = folder / ".claude" / "skills" / NAME
    shutil.copytree(place.skill, copy)
    (folder / ".git").mkdir()
    return copy


def opened(place: Place, project: Path) -> Workspace:
    return place.stack.enter_context(Workspace(place.store_path, target=SIMULATION, project=project))


def paths(workspace: Workspace) -> list[str]:
    return workspace.store.skills.find_paths(NAME)


def test_a_name_means_the_skill_of_the_folder_or_else_of_the_checkout(
    place: Place, workspace: Workspace, tmp_path: Path
) -> None:
    copy = copied(place, place.folder / "second")
    inner = place.folder / "second" / "docs" / "deep"
    inner.mkdir(parents=True)
    workspace.skill(str(copy))
    (place.root / ".git").mkdir()
    assert opened(place, place.root).skill(NAME).path == str(place.skill)
    assert opened(place, inner).skill(NAME).path == str(copy)
    assert opened(place, copy.parent).skill(NAME).path == str(copy)
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(NotFound, match="2 skills are named"):
        opened(place, elsewhere).skill(NAME)


def test_a_look_tracks_no_copy_and_says_where_the_tracked_one_is(place: Place, workspace: Workspace) -> None:
    copy = copied(place, place.folder / "second")
    for look in (inspect, history):
        with pytest.raises(NotFound, match=f'nothing is recorded of .*second.* its name is: "{place.skill}"'):
            look(workspace, str(copy))
    with pytest.raises(NotFound, match="nothing is recorded"):
        inspect(workspace, f"{copy}@{workspace.skill(str(place.skill)).live_version[:12]}")
    assert paths(workspace) == [str(place.skill)]
    workspace.skill(str(copy))
    assert f"at {copy}\n" in inspect(workspace, str(copy)).text


def test_a_look_by_name_is_at_the_tracked_skill_though_a_copy_is_nearer(place: Place, workspace: Workspace) -> None:
    copy = copied(place, place.folder / "second")
    there = opened(place, place.folder / "second")
    assert f"at {place.skill}\n" in inspect(there, NAME).text
    assert paths(there) == [str(place.skill)]
    assert there.skill(NAME).path == str(copy)
    assert f"at {copy}\n" in inspect(there, NAME).text


def test_a_path_of_a_new_name_is_tracked_by_a_look(place: Place, workspace: Workspace) -> None:
    other = shutil.copytree(place.skill, place.root / "another")
    assert f"at {other}\n" in inspect(workspace, str(other)).text


def test_advice_calls_a_skill_by_its_path_where_another_has_its_name(place: Place, workspace: Workspace) -> None:
    promote_skill(workspace, place.accepted(workspace), Consent.PERSON_SIMULATED)
    skill = workspace.skill(str(place.skill))
    assert called(workspace.store, skill) == NAME
    assert history(workspace, str(place.skill)).next_step.endswith(f"rollback {NAME}")
    copy = workspace.skill(str(copied(place, place.folder / "second")))
    assert called(workspace.store, copy) == copy.path
    assert history(workspace, str(place.skill)).next_step.endswith(f"rollback {place.skill}")
    workspace.store.skills.forget(copy.id)
    assert called(workspace.store, skill) == NAME


def test_a_point_is_the_path_of_the_folder_that_one_is_in(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.skill)
    assert folder_at(".") == place.skill
    assert folder_at("..") == place.root
    assert workspace.skill(".").path == workspace.kept(".").path == str(place.skill)
