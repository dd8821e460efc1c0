"""Moving: a renamed skill keeps what was recorded of it, and one whose folder is gone can be read and hidden."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from workshop import PLACEBO, SEED, Place

from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.documents.frontmatter import block_end
from skillopt_mcp.errors import BadInput, BadSkill, Busy, NotFound, Refused
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.candidates.rebasing import rebase_candidate
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.permitting import permit
from skillopt_mcp.operations.changes.promoting import promote_skill, rollback_skill
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.looks.history import diff_versions, history
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.looks.listing import TO_TRACK, list_skills
from skillopt_mcp.operations.recovery import lock_name
from skillopt_mcp.operations.results import SkillRow
from skillopt_mcp.operations.skills.moving import forget_skill, move_skill
from skillopt_mcp.operations.spending.listing_runs import list_runs
from skillopt_mcp.operations.stores.exporting import export_version
from skillopt_mcp.operations.stores.transferring import export_history
from skillopt_mcp.operations.stores.verifying import verify_store
from skillopt_mcp.operations.tasks.adding import add_tasks
from skillopt_mcp.operations.tasks.retiring import retire_tasks
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.judging import spec_json
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store.histories import Histories
from skillopt_mcp.store.pool import Pool

JUDGE = {"kind": "exact", "expected": "7"}


def renamed(place: Place) -> Path:
    return place.skill.rename(place.root / "bookkeeper")


def rows(workspace: Workspace) -> dict[str, SkillRow]:
    return {row.name: row for row in list_skills(workspace).skills}


def assert_sound(place: Place) -> None:
    assert verify_store(place.store_path).problems == []


def test_a_skill_whose_folder_is_gone_keeps_its_counts_and_says_what_to_do(place: Place, workspace: Workspace) -> None:
    record_trajectory(workspace, "ledger-clerk", Recording(task="sum", hard=False, answer="no"))
    before = rows(workspace)["ledger-clerk"]
    renamed(place)
    row = rows(workspace)["ledger-clerk"]
    assert row.model_copy(update={"next_step": ""}) == before.model_copy(update={"next_step": ""})
    assert (row.splits.val, row.n_trajectories) == (30, 1)
    assert row.next_step.startswith(f'its folder is gone: "{place.skill}" does not exist any more; if it was renamed')
    assert f"skillopt-mcp skills move {place.skill} NEW-PATH" in row.next_step
    with pytest.raises(BadSkill, match="skills move"):
        workspace.skill("ledger-clerk")


def test_a_folder_that_cannot_be_read_is_told_from_one_that_is_gone(place: Place, workspace: Workspace) -> None:
    place.main.write_bytes(b"\0")
    row = rows(workspace)["ledger-clerk"]
    assert (row.splits.val, row.next_step.partition(":")[0]) == (30, "its folder cannot be read")


def test_what_the_store_holds_is_read_without_the_folder(place: Place, workspace: Workspace) -> None:
    first = workspace.skill("ledger-clerk").live_version
    promote_skill(workspace, place.accepted(workspace), Consent.PERSON_SIMULATED)
    text = place.main.read_text()
    live = workspace.skill("ledger-clerk").live_version
    renamed(place)
    for name in ("ledger-clerk", str(place.skill), str(place.main)):
        assert [row.version for row in history(workspace, name).rows] == [live[:12]]
        assert text in inspect(workspace, f"{name}@{live}").text
    assert "its folder is gone" in history(workspace, "ledger-clerk").next_step
    assert "its folder is gone" in inspect(workspace, "ledger-clerk").text
    assert diff_versions(workspace, "ledger-clerk", first, live).startswith("--- a/ledger-clerk/SKILL.md")
    assert list_runs(workspace, "ledger-clerk").runs == []
    assert export_history(workspace, "ledger-clerk", place.folder / "x.history").n_lines > 90
    with pytest.raises(BadSkill, match="skills move"):
        rollback_skill(workspace, "ledger-clerk", None, Consent.PERSON)


def test_a_moved_skill_goes_on_with_its_id_tasks_and_history(place: Place, workspace: Workspace) -> None:
    before = place.main.read_bytes()
    promote_skill(workspace, place.accepted(workspace), Consent.PERSON_SIMULATED)
    skill = workspace.skill("ledger-clerk")
    new = renamed(place)
    moved = move_skill(workspace, "ledger-clerk", "bookkeeper")
    assert (moved.skill, moved.path, moved.before, moved.edited) == ("bookkeeper", str(new), str(place.skill), False)
    assert (workspace.skill("bookkeeper").id, rows(workspace).keys()) == (skill.id, {"bookkeeper"})
    assert rows(workspace)["bookkeeper"].splits.test == 30
    assert rollback_skill(workspace, "bookkeeper", None, Consent.PERSON).status == "rolled_back"
    assert (new / "SKILL.md").read_bytes() == before
    assert_sound(place)
    new.rename(place.skill)
    assert move_skill(workspace, str(new), str(place.skill)).skill == "ledger-clerk"
    assert_sound(place)


def test_an_edit_on_the_way_is_a_version_of_the_skill(place: Place, workspace: Workspace) -> None:
    old = workspace.skill("ledger-clerk").live_version
    (renamed(place) / "SKILL.md").write_text("# Mine\n")
    moved = move_skill(workspace, "ledger-clerk", "bookkeeper")
    skill = workspace.skill("bookkeeper")
    assert moved.edited
    assert workspace.store.skills.get_version(skill.id, skill.live_version).parent_id == old
    assert "an edit of yours" in moved.next_step
    assert_sound(place)


def test_a_new_folder_that_was_only_looked_at_gives_way(place: Place, workspace: Workspace) -> None:
    skill, new = workspace.skill("ledger-clerk"), renamed(place)
    other = workspace.skill(str(new))
    assert rows(workspace).keys() == {"ledger-clerk", "bookkeeper"}
    move_skill(workspace, "ledger-clerk", str(new))
    assert (workspace.skill("bookkeeper").id, rows(workspace).keys()) == (skill.id, {"bookkeeper"})
    assert workspace.store.skills.get_skill(other.id).path == str(place.skill)
    assert_sound(place)


def test_a_process_that_goes_on_sees_what_another_moved_or_hid(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillopt_mcp.operations.sightings.TICK_NS", -(10**12))  # what was looked at is old at once
    skill, new = workspace.skill("ledger-clerk"), renamed(place)
    assert workspace.skill(str(new)).id != skill.id
    move_skill(place.open(), "ledger-clerk", str(new))
    assert workspace.skill(str(new)).id == skill.id
    twin = place.root / "twin"
    twin.mkdir()
    (twin / "SKILL.md").write_text("# Twin\n")
    workspace.skill("twin")
    forget_skill(place.open(), "twin")
    assert workspace.skill("twin").path == str(twin)
    assert rows(workspace)["twin"].tracked


def test_a_new_folder_that_evidence_may_rest_on_is_not_merged(place: Place, workspace: Workspace) -> None:
    new = renamed(place)
    record_trajectory(workspace, str(new), Recording(task="sum", hard=False, answer="no"))
    add_tasks(workspace, str(new), [{"prompt": "Why?", "judge": JUDGE, "split": "test"}])
    proposed = propose_edits(workspace, str(new), [{"op": "append", "content": PLACEBO}])
    evaluate_candidate(workspace, proposed.candidate_id or "", rule=ConfirmRule(max_pairs=2))
    told = r"skill of its own, with 1 tasks, 1 attempts, 1 candidates, 1 promotion tests: those cannot be merged"
    with pytest.raises(Refused, match=told):
        move_skill(workspace, "ledger-clerk", str(new))
    assert workspace.store.skills.list_forgotten() == set()
    assert rows(workspace)["ledger-clerk"].splits.train == 30
    assert_sound(place)


def test_attempts_and_tasks_of_the_new_folder_go_with_a_move(place: Place, workspace: Workspace) -> None:
    old = workspace.skill("ledger-clerk")
    record_trajectory(workspace, "ledger-clerk", Recording(task="sum", hard=True, session_id="s", index=0))
    again = {"prompt": "Asked before?", "judge": JUDGE}
    add_tasks(workspace, "ledger-clerk", [again])
    new, other = renamed(place), place.open()
    for index, answer in enumerate(("no", "nought")):
        record_trajectory(
            other, str(new), Recording(task="sum", hard=False, answer=answer, session_id="s", index=index)
        )
    add_tasks(other, str(new), [again, {"prompt": "Asked since?", "judge": JUDGE, "split": "val"}])
    (new / "SKILL.md").write_text("# Edited since\n")
    record_trajectory(other, str(new), Recording(task="sum", answer="later"))
    moved = move_skill(workspace, "ledger-clerk", "bookkeeper")
    assert (moved.joined, moved.edited) == ("1 tasks, 3 attempts", True)
    assert "1 tasks, 3 attempts joined them" in moved.next_step
    assert moved.next_step.endswith("skillopt-mcp tasks check bookkeeper")
    row = rows(workspace)["bookkeeper"]
    assert (workspace.skill("bookkeeper").id, sum(row.splits.model_dump().values()), row.n_trajectories) == (
        old.id, 92, 4,
    )  # fmt: skip
    assert rows(workspace).keys() == {"bookkeeper"}
    lines = list(workspace.store.room(Histories).walk_trajectories(old.id))
    # Another attempt has that place in its session: both are kept.
    assert [(line.position, line.answer) for line in lines] == [(0, ""), (None, "no"), (1, "nought"), (None, "later")]
    assert record_trajectory(workspace, "bookkeeper", Recording(task="trajectory:4", hard=True)).duplicate is False
    assert_sound(place)
    new.rename(place.skill)
    assert move_skill(workspace, "bookkeeper", str(place.skill)).joined == ""
    assert rows(workspace).keys() == {"ledger-clerk"}
    assert_sound(place)


def test_a_candidate_of_the_new_folder_is_known_by_its_old_id_after_a_move(place: Place, workspace: Workspace) -> None:
    new, other = renamed(place), place.open()
    proposed = propose_edits(other, str(new), [{"op": "append", "content": PLACEBO}])
    old_id = str(proposed.candidate_id)
    moved = move_skill(workspace, "ledger-clerk", "bookkeeper")
    [made] = workspace.store.candidates.list_candidates(workspace.skill("bookkeeper").id)
    assert moved.candidates == {old_id: made.id}
    assert f" {old_id} is {made.id} now. " in moved.next_step
    for use_it in (evaluate_candidate, rebase_candidate):
        with pytest.raises(BadSkill) as told:
            use_it(workspace, old_id)
        assert str(told.value) == (
            f'"{place.skill}", the folder of {old_id}, is gone, and the same change is a candidate of a skill that is '
            f'there: use {made.id}, of "{new}"'
        )
    with pytest.raises(BadSkill, match=f"use {made.id}, of "):
        promote_skill(workspace, old_id, Consent.PERSON)
    shutil.rmtree(new)
    with pytest.raises(BadSkill, match="does not exist any more; if it was renamed or moved"):
        evaluate_candidate(workspace, old_id)


def test_a_skill_whose_predecessor_is_forgotten_is_listed_and_shown(place: Place, workspace: Workspace) -> None:
    before = workspace.skill("ledger-clerk").live_version
    main = renamed(place) / "SKILL.md"
    main.write_text(f"{main.read_text()}\nMore.\n")
    skill = workspace.skill(str(main.parent))
    assert workspace.store.skills.get_version(skill.id, skill.live_version).parent_id == before
    candidate = propose_edits(workspace, str(main.parent), [{"op": "append", "content": PLACEBO}]).candidate_id
    main.write_text(f"{main.read_text()}\nBy hand.\n")
    forget_skill(workspace, "ledger-clerk")
    assert rows(workspace)["bookkeeper"].next_step.startswith(f"{candidate} is stale, as the file has changed since: ")
    shown = inspect(workspace, f"bookkeeper@{skill.live_version}")
    assert "of 'bookkeeper' (recorded " in shown.text
    assert ", parent none)" in shown.text
    assert_sound(place)


def test_whoever_knew_a_task_of_the_new_folder_knows_it_after_a_move(place: Place, workspace: Workspace) -> None:
    def known_to(session: str) -> set[str]:
        sql = "select prompt from exposure join task on id = task_id where session = ? and skill_id = ?"
        return {str(row[0]) for row in pool.rows(sql, [session, skill.id])}

    skill, new = workspace.skill("ledger-clerk"), renamed(place)
    first, second, *_ = (task.prompt for task in workspace.store.tasks.list_tasks(skill.id) if task.split == "test")
    pool = Pool(place.store_path)
    agent, other = place.open(), place.open()
    [task] = [task for task in workspace.store.tasks.list_tasks(skill.id) if task.prompt == first]
    add_tasks(agent, str(new), [{"prompt": first, "judge": json.loads(spec_json(task.judge))}])
    record_trajectory(other, str(new), Recording(task=f" {second}", hard=True))
    assert (known_to(agent.session), known_to(other.session)) == (set(), set())
    move_skill(workspace, "ledger-clerk", "bookkeeper")
    assert (known_to(agent.session), known_to(other.session)) == ({first}, {second})
    pool.close()


def test_a_task_of_the_new_folder_that_the_skill_has_no_room_for_stops_a_move(
    place: Place, workspace: Workspace
) -> None:
    add_tasks(workspace, "ledger-clerk", [{"prompt": "One?", "judge": JUDGE, "id": "mine", "split": "test"}])
    new = renamed(place)
    add_tasks(workspace, str(new), [{"prompt": "Other?", "judge": JUDGE, "id": "mine"}])
    with pytest.raises(Refused, match=r"task 'mine' of '.*bookkeeper' cannot join .*another task has that id: retire"):
        move_skill(workspace, "ledger-clerk", "bookkeeper")
    retire_tasks(workspace, str(new), ["mine"])
    retire_tasks(workspace, "ledger-clerk", ["mine"])
    leak = {"prompt": "One? ", "judge": {"kind": "exact", "expected": "8"}, "id": "leak", "split": "train"}
    add_tasks(workspace, str(new), [leak])
    with pytest.raises(Refused, match=r"'leak'.*a retired task of another split asked the same"):
        move_skill(workspace, "ledger-clerk", "bookkeeper")
    retire_tasks(workspace, str(new), ["leak"])
    assert rows(workspace)["ledger-clerk"].splits.test == 30
    assert move_skill(workspace, "ledger-clerk", "bookkeeper").joined == "2 tasks"
    assert rows(workspace)["bookkeeper"].splits.train == 30
    assert_sound(place)


def test_the_error_budget_of_a_skill_follows_its_history(place: Place, workspace: Workspace) -> None:
    first = evaluate_candidate(workspace, place.propose(workspace, PLACEBO), rule=ConfirmRule(max_pairs=2))
    new = renamed(place)
    record_trajectory(workspace, str(new), Recording(task="sum", hard=False, answer="no"))
    add_tasks(workspace, str(new), [{"prompt": "Asked since?", "judge": JUDGE}])
    move_skill(workspace, "ledger-clerk", "bookkeeper")
    proposed = propose_edits(workspace, str(new), [{"op": "append", "content": f"{PLACEBO}!"}])
    second = evaluate_candidate(workspace, proposed.candidate_id or "", rule=ConfirmRule(max_pairs=2))
    assert second.alpha < first.alpha
    assert [test.j for test in workspace.store.decisions.list_tests(workspace.skill(str(new)).id)] == [1, 2]


def test_a_folder_that_looks_like_a_skill_whose_own_is_gone_says_how_to_move_it(
    place: Place, workspace: Workspace
) -> None:
    record_trajectory(workspace, "ledger-clerk", Recording(task="sum", hard=False, answer="no"))
    new = renamed(place)
    way = f"skillopt-mcp skills move {place.skill} {new}, and tasks, attempts and history go on here"
    found = rows(workspace)
    assert found["bookkeeper"].next_step.startswith('it looks like "ledger-clerk", whose folder is gone: ')
    assert way in found["bookkeeper"].next_step
    assert found["ledger-clerk"].next_step.endswith(f'; it looks like what is at "{new}" now')
    recorded = record_trajectory(workspace, "bookkeeper", Recording(task="sum", hard=False, answer="no"))
    assert recorded.next_step.startswith("First, it looks like")
    assert way in recorded.next_step
    assert way in add_tasks(workspace, "bookkeeper", [{"prompt": "Why?", "judge": JUDGE}]).warnings[0]
    assert way in rows(workspace)["bookkeeper"].next_step
    assert way in inspect(workspace, "bookkeeper").next_step
    # It is told with the first three attempts, and not looked for at each that follows.
    later = [record_trajectory(workspace, "bookkeeper", Recording(task=f"sum {n}", hard=False)) for n in range(3)]
    assert [way in each.next_step for each in later] == [True, True, False]
    move_skill(workspace, "ledger-clerk", "bookkeeper")
    assert not any("looks like" in row.next_step for row in rows(workspace).values())


@pytest.mark.parametrize(
    ("text", "is_alike"),
    [
        ("---\nname: ledger-clerk\ndescription: x\n---\n# Another text\n", True),
        ("---\nname: bookkeeper\ndescription: x\n---\n{body}", True),
        ("---\nname: bookkeeper\ndescription: x\n---\n# Another text\n", False),
    ],
)
def test_a_skill_is_known_by_its_name_or_by_its_text(
    place: Place, workspace: Workspace, text: str, *, is_alike: bool
) -> None:
    main = renamed(place) / "SKILL.md"
    old = main.read_bytes()
    main.write_text(text.format(body=old[block_end(old) or 0 :].decode()))
    assert ("looks like" in rows(workspace)["bookkeeper"].next_step) is is_alike


def test_a_skill_that_is_forgotten_or_has_no_history_is_not_looked_for(place: Place) -> None:
    workspace = place.open()
    workspace.skill("ledger-clerk")
    renamed(place)
    assert rows(workspace)["bookkeeper"].next_step == TO_TRACK
    add_tasks_of = workspace.store.skills.find_skill("ledger-clerk")
    assert add_tasks_of
    workspace.store.tasks.add_tasks(add_tasks_of.id, make_tasks(3, SEED), EQUAL_SHARES)
    assert "looks like" in rows(workspace)["bookkeeper"].next_step
    forget_skill(workspace, "ledger-clerk")
    assert rows(workspace)["bookkeeper"].next_step == TO_TRACK


def test_the_files_of_a_skill_that_was_lost_are_had_back_as_the_message_says(
    place: Place, workspace: Workspace
) -> None:
    before, live = place.main.read_bytes(), workspace.skill("ledger-clerk").live_version
    shutil.rmtree(place.skill)
    way = f"skillopt-mcp show {place.skill}@{live[:12]} --out {place.skill}"
    assert way in rows(workspace)["ledger-clerk"].next_step
    with pytest.raises(BadSkill, match=re.escape(way)):
        workspace.skill("ledger-clerk")
    export_version(workspace, str(place.skill), live[:12], place.skill)
    assert (place.main.read_bytes(), workspace.skill("ledger-clerk").live_version) == (before, live)


def test_a_skill_that_is_where_it_was_is_not_moved_away(place: Place, workspace: Workspace) -> None:
    twin = place.root / "twin"
    twin.mkdir()
    (twin / "SKILL.md").write_bytes(place.main.read_bytes())
    with pytest.raises(Refused, match="still holds a skill"):
        move_skill(workspace, "ledger-clerk", str(twin))
    with pytest.raises(BadInput, match="where the skill is already"):
        move_skill(workspace, "ledger-clerk", str(place.skill))
    with pytest.raises(BadSkill):
        move_skill(workspace, "ledger-clerk", str(place.root / "nowhere"))
    with pytest.raises(NotFound, match="tracked"):
        move_skill(workspace, "nobody", str(twin))
    assert workspace.skill("ledger-clerk").path == str(place.skill)


def test_a_folder_that_became_a_link_to_the_new_one_is_moved(place: Place, workspace: Workspace) -> None:
    skill, new = workspace.skill("ledger-clerk"), renamed(place)
    place.skill.symlink_to(new)
    move_skill(workspace, str(place.skill), str(new))
    assert workspace.skill("bookkeeper").id == skill.id


def test_a_memory_file_does_not_become_a_skill(place: Place, workspace: Workspace) -> None:
    memory = place.folder / "CLAUDE.md"
    memory.write_text("# Memory\n")
    workspace.skill(str(memory))
    memory.unlink()
    with pytest.raises(BadInput, match="another kind of document"):
        move_skill(workspace, str(memory), str(place.skill))
    assert "its file is gone" in rows(workspace)[f"{place.folder.name}:CLAUDE.md"].next_step


def test_a_skill_whose_files_are_being_changed_is_busy(place: Place, workspace: Workspace) -> None:
    skill = workspace.skill("ledger-clerk")
    renamed(place)
    lock = lock_run(workspace.store.locks_path, lock_name(skill.id))
    assert lock
    with pytest.raises(Busy):
        move_skill(workspace, "ledger-clerk", "bookkeeper")
    lock.release()


def test_a_forgotten_skill_is_hidden_and_loses_its_permission_and_nothing_else(
    place: Place, workspace: Workspace
) -> None:
    permit(workspace, "ledger-clerk", simulated=True)
    skill = workspace.skill("ledger-clerk")
    with pytest.raises(Refused, match="is there, and the store holds 90 tasks"):
        forget_skill(workspace, "ledger-clerk")
    new = renamed(place)
    done = forget_skill(workspace, "ledger-clerk")
    assert done.kept == "90 tasks"
    assert forget_skill(workspace, "ledger-clerk").kept == "90 tasks"
    assert [row.name for row in list_skills(workspace).skills if row.tracked] == []
    assert workspace.store.permissions.get(skill.id) is None
    assert workspace.kept("ledger-clerk").id == skill.id
    assert_sound(place)
    new.rename(place.skill)
    assert workspace.skill("ledger-clerk").id == skill.id
    assert rows(workspace)["ledger-clerk"].splits.train == 30
    assert_sound(place)


def test_a_forgotten_skill_comes_back_by_a_move(place: Place, workspace: Workspace) -> None:
    renamed(place)
    forget_skill(workspace, str(place.skill))
    move_skill(workspace, str(place.skill), "bookkeeper")
    assert rows(workspace)["bookkeeper"].splits.train == 30
    assert_sound(place)


def test_a_skill_with_nothing_recorded_is_forgotten_though_it_is_there(place: Place) -> None:
    workspace = place.open()
    workspace.skill("ledger-clerk")
    assert forget_skill(workspace, "ledger-clerk").kept == ""
    assert not rows(workspace)["ledger-clerk"].tracked
    assert_sound(place)


def test_a_forgotten_skill_leaves_its_name_to_the_one_that_is_listed(place: Place, workspace: Workspace) -> None:
    second = place.folder / "second" / "ledger-clerk"
    shutil.copytree(place.skill, second)
    workspace.skill(str(second))
    with pytest.raises(NotFound, match="2 skills are named"):
        workspace.skill("ledger-clerk")
    forget_skill(workspace, str(second))
    assert workspace.skill("ledger-clerk").path == str(place.skill)
    assert (found := workspace.store.skills.find_skill("ledger-clerk")) is not None
    assert found.path == str(place.skill)
    place.skill.rename(place.root / "bookkeeper")
    with pytest.raises(BadSkill, match="skills move"):
        workspace.skill("ledger-clerk")
    forget_skill(workspace, "ledger-clerk")
    assert workspace.skill("ledger-clerk").path == str(second)


def test_a_skill_that_two_branches_name_differently_is_moved_to_and_fro(place: Place, workspace: Workspace) -> None:
    skill, new = workspace.skill("ledger-clerk"), renamed(place)
    for _ in range(2):
        move_skill(workspace, "ledger-clerk", "bookkeeper")
        new.rename(place.skill)
        # Whoever looks at the folder that is back tracks it as another skill.
        assert workspace.kept("ledger-clerk").id != skill.id
        move_skill(workspace, "bookkeeper", "ledger-clerk")
        place.skill.rename(new)
        assert workspace.kept("bookkeeper").id != skill.id
    named = [(each.name, Path(each.path).name) for each in workspace.store.skills.list_skills()]
    assert sorted(named) == [("bookkeeper", "bookkeeper"), ("ledger-clerk", "ledger-clerk")]
    assert move_skill(workspace, "ledger-clerk", "bookkeeper").skill == "bookkeeper"
    assert workspace.store.tasks.count_tasks(workspace.skill("bookkeeper").id)["val"] == 30
    assert_sound(place)


def test_a_skill_that_has_the_name_of_another_folder_gets_its_own_when_it_is_looked_at(
    place: Place, workspace: Workspace
) -> None:
    skill = workspace.skill("ledger-clerk")
    workspace.store.skills.move(skill.id, "bookkeeper", skill.path)
    assert place.open().skill(str(place.skill)).name == "ledger-clerk"


def test_a_folder_in_a_checkout_may_be_gone_because_of_another_branch(place: Place, workspace: Workspace) -> None:
    branch = "if another branch of this checkout has it: check that out; if it"
    shutil.copytree(place.skill, place.root / "bookkeeper")
    (place.folder / ".git").mkdir()
    shutil.rmtree(place.skill)
    assert branch in rows(workspace)["ledger-clerk"].next_step
    assert branch in rows(workspace)["bookkeeper"].next_step
    with pytest.raises(BadSkill, match=branch):
        workspace.skill("ledger-clerk")
    (place.folder / ".git").rmdir()
    assert branch not in rows(workspace)["ledger-clerk"].next_step


def test_an_export_of_a_renamed_folder_says_whose_history_it_may_lack(place: Place, workspace: Workspace) -> None:
    new = renamed(place)
    sent = export_history(workspace, str(new), place.folder / "x.history")
    assert sent.likeness.startswith('it looks like "ledger-clerk", whose folder is gone')
    move_skill(workspace, "ledger-clerk", "bookkeeper")
    assert export_history(workspace, str(new), place.folder / "y.history").likeness == ""


def test_that_a_folder_is_gone_is_told_once(place: Place, workspace: Workspace) -> None:
    renamed(place)
    found = inspect(workspace, "ledger-clerk", consent=Consent.PERSON)
    assert f"{found.text}{found.next_step}".count("does not exist any more") == 1
    assert "its folder is gone\n" in found.text


def test_forgetting_a_skill_that_was_tested_says_that_a_copy_begins_another_error_rate(
    place: Place, workspace: Workspace
) -> None:
    place.accepted(workspace)
    renamed(place)
    told = forget_skill(workspace, "ledger-clerk").next_step
    assert "It had 1 promotion test: a copy of other words, or another name, begins a life with an error rate" in told
