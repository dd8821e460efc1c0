"""Moving: a renamed skill keeps what was recorded of it, and one whose folder is gone can be read and hidden."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from workshop import Place

from skillopt_mcp.actions.promotions.consent import permit
from skillopt_mcp.actions.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import BadInput, BadSkill, Busy, NotFound, Refused
from skillopt_mcp.core.skills import SkillRow
from skillopt_mcp.reports.history import diff_versions, history
from skillopt_mcp.reports.listing import list_skills
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.reports.run_report import list_runs
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.workspace.skill_folders import lock_name
from skillopt_mcp.workspace.skills import forget_skill, move_skill
from skillopt_mcp.workspace.workspace import Workspace

JUDGE = {"kind": "exact", "expected": "7"}


def renamed(place: Place) -> Path:
    return place.skill.rename(place.root / "bookkeeper")


def rows(workspace: Workspace) -> dict[str, SkillRow]:
    return {row.name: row for row in list_skills(workspace.store, workspace.place).skills}


def assert_sound(place: Place) -> None:
    assert verify_store(place.store_path).problems == []


def test_a_skill_whose_folder_is_gone_keeps_its_counts_and_says_what_to_do(place: Place, workspace: Workspace) -> None:
    record_trajectory(workspace.store, workspace.place, "ledger-clerk", Recording(task="sum", hard=False, answer="no"))
    before = rows(workspace)["ledger-clerk"]
    renamed(place)
    row = rows(workspace)["ledger-clerk"]
    assert replace(row, next_step=before.next_step) == before
    assert (row.splits.val, row.n_trajectories) == (30, 1)
    assert row.next_step.action == "skills move"
    with pytest.raises(BadSkill, match="skills move"):
        workspace.place.skill("ledger-clerk")


def test_what_the_store_holds_is_read_without_the_folder(place: Place, workspace: Workspace) -> None:
    first = workspace.place.skill("ledger-clerk").live_version
    promote_skill(workspace.store, workspace.place, place.accepted(workspace), Consent.PERSON_SIMULATED)
    text = place.main.read_text()
    live = workspace.place.skill("ledger-clerk").live_version
    renamed(place)
    for name in ("ledger-clerk", str(place.skill), str(place.main)):
        assert [row.version for row in history(workspace.store, workspace.place, name).rows] == [live[:12]]
        assert text in inspect(workspace.store, workspace.place, f"{name}@{live}").text
    assert history(workspace.store, workspace.place, "ledger-clerk").next_step.action == "skills move"
    assert "its folder is gone" in inspect(workspace.store, workspace.place, "ledger-clerk").text
    assert diff_versions(workspace.store, workspace.place, "ledger-clerk", first, live).startswith(
        "--- a/ledger-clerk/SKILL.md"
    )
    assert list_runs(workspace.store, workspace.place, "ledger-clerk").runs == []
    with pytest.raises(BadSkill, match="skills move"):
        rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, Consent.PERSON)


def test_a_moved_skill_goes_on_with_its_id_tasks_and_history(place: Place, workspace: Workspace) -> None:
    before = place.main.read_bytes()
    promote_skill(workspace.store, workspace.place, place.accepted(workspace), Consent.PERSON_SIMULATED)
    skill = workspace.place.skill("ledger-clerk")
    new = renamed(place)
    moved = move_skill(workspace.store, workspace.place, "ledger-clerk", "bookkeeper")
    assert (moved.skill, moved.path, moved.before, moved.edited) == ("bookkeeper", str(new), str(place.skill), False)
    assert (workspace.place.skill("bookkeeper").id, rows(workspace).keys()) == (skill.id, {"bookkeeper"})
    assert rows(workspace)["bookkeeper"].splits.test == 30
    assert rollback_skill(workspace.store, workspace.place, "bookkeeper", None, Consent.PERSON).status == "rolled_back"
    assert (new / "SKILL.md").read_bytes() == before
    assert_sound(place)
    new.rename(place.skill)
    assert move_skill(workspace.store, workspace.place, str(new), str(place.skill)).skill == "ledger-clerk"
    assert_sound(place)


def test_a_process_that_goes_on_sees_what_another_moved_or_hid(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillopt_mcp.workspace.skill_folders.TICK_NS", -(10**12))  # what was looked at is old at once
    skill, new = workspace.place.skill("ledger-clerk"), renamed(place)
    assert workspace.place.skill(str(new)).id != skill.id
    opened = place.open()
    move_skill(opened.store, opened.place, "ledger-clerk", str(new))
    assert workspace.place.skill(str(new)).id == skill.id
    twin = place.root / "twin"
    twin.mkdir()
    (twin / "SKILL.md").write_text("# Twin\n")
    workspace.place.skill("twin")
    opened = place.open()
    forget_skill(opened.store, opened.place, "twin")
    assert workspace.place.skill("twin").path == str(twin)
    assert rows(workspace)["twin"].tracked


def test_a_skill_that_is_where_it_was_is_not_moved_away(place: Place, workspace: Workspace) -> None:
    twin = place.root / "twin"
    twin.mkdir()
    (twin / "SKILL.md").write_bytes(place.main.read_bytes())
    with pytest.raises(Refused, match="still holds a skill"):
        move_skill(workspace.store, workspace.place, "ledger-clerk", str(twin))
    with pytest.raises(BadInput, match="where the skill is already"):
        move_skill(workspace.store, workspace.place, "ledger-clerk", str(place.skill))
    with pytest.raises(BadSkill):
        move_skill(workspace.store, workspace.place, "ledger-clerk", str(place.root / "nowhere"))
    with pytest.raises(NotFound, match="tracked"):
        move_skill(workspace.store, workspace.place, "no-such-skill", str(twin))
    assert workspace.place.skill("ledger-clerk").path == str(place.skill)


def test_a_memory_file_does_not_become_a_skill(place: Place, workspace: Workspace) -> None:
    memory = place.folder / "CLAUDE.md"
    memory.write_text("# Memory\n")
    workspace.place.skill(str(memory))
    memory.unlink()
    with pytest.raises(BadInput, match="another kind of document"):
        move_skill(workspace.store, workspace.place, str(memory), str(place.skill))
    assert "its file is gone" in rows(workspace)[f"{place.folder.name}:CLAUDE.md"].next_step.why


def test_a_skill_whose_files_are_being_changed_is_busy(place: Place, workspace: Workspace) -> None:
    skill = workspace.place.skill("ledger-clerk")
    renamed(place)
    lock = lock_run(workspace.store.locks_path, lock_name(skill.id))
    assert lock
    with pytest.raises(Busy):
        move_skill(workspace.store, workspace.place, "ledger-clerk", "bookkeeper")
    lock.release()


def test_a_forgotten_skill_is_hidden_and_loses_its_permission_and_nothing_else(
    place: Place, workspace: Workspace
) -> None:
    permit(workspace.store, workspace.place, "ledger-clerk", simulated=True)
    skill = workspace.place.skill("ledger-clerk")
    with pytest.raises(Refused, match="is there, and the store holds 90 tasks"):
        forget_skill(workspace.store, workspace.place, "ledger-clerk")
    new = renamed(place)
    done = forget_skill(workspace.store, workspace.place, "ledger-clerk")
    assert done.kept == "90 tasks"
    assert forget_skill(workspace.store, workspace.place, "ledger-clerk").kept == "90 tasks"
    assert [row.name for row in list_skills(workspace.store, workspace.place).skills if row.tracked] == []
    assert workspace.store.permissions.get(skill.id) is None
    assert workspace.place.find_kept("ledger-clerk").id == skill.id
    assert_sound(place)
    new.rename(place.skill)
    assert workspace.place.skill("ledger-clerk").id == skill.id
    assert rows(workspace)["ledger-clerk"].splits.train == 30
    assert_sound(place)


def test_what_was_recorded_of_the_new_folder_is_set_aside_and_the_same_move_swaps_it_back(
    place: Place, workspace: Workspace
) -> None:
    skill, new = workspace.place.skill("ledger-clerk"), renamed(place)
    record_trajectory(workspace.store, workspace.place, str(new), Recording(task="sum", hard=False, answer="no"))
    add_tasks(workspace.store, workspace.place, str(new), [{"prompt": "Why?", "judge": JUDGE, "split": "test"}])
    other = workspace.place.skill("bookkeeper")
    moved = move_skill(workspace.store, workspace.place, "ledger-clerk", "bookkeeper")
    assert (moved.set_aside, workspace.place.skill("bookkeeper").id) == ("1 tasks, 1 attempts", skill.id)
    assert (rows(workspace).keys(), rows(workspace)["bookkeeper"].splits.train) == ({"bookkeeper"}, 30)
    again = move_skill(workspace.store, workspace.place, str(place.skill), str(new))
    assert (again.set_aside.startswith("90 tasks"), workspace.place.skill("bookkeeper").id) == (True, other.id)
    assert_sound(place)
