"""Promotions: what a promotion and a rollback write, what they refuse, and what kills and edits do to them."""

from __future__ import annotations

import os
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from tests.acceptance.doors import PROMOTED, ROLLED_BACK
from tests.acceptance.doors_care import (
    FILES,
    HELD,
    LESSON,
    REFUSED,
    RUNNABLE,
    STALE,
    UNAPPROVED,
    Desk,
    files_of,
    status,
    steps,
)  # fmt: skip

Contents = dict[str, tuple[bytes, bool]]
# At which steps a change is killed or disturbed.
EVERY = 1 if os.environ.get("THOROUGH") else 3
MINE = b"---\nname: desk\ndescription: Mine.\n---\nMy own words.\n"


def test_a_tool_writes_nothing_without_an_accept_and_a_person(desk: Desk) -> None:
    before = desk.files()
    with desk.serve() as server:
        found = {name: status(server, "promote_skill", candidate_id=i) for name, i in desk.ids.items()}
        undone = status(server, "rollback_skill", skill="desk")
    for name in ("bad", "idle", "untested"):
        assert found.pop(name) == REFUSED, name
    assert found == {"good": UNAPPROVED, "both": UNAPPROVED, "code": UNAPPROVED, "long": UNAPPROVED, "held": HELD}
    assert undone != ROLLED_BACK
    assert (desk.files(), desk.changes()) == (before, [])


def test_a_command_writes_only_what_is_proven_clean_and_seen(desk: Desk) -> None:
    before = desk.files()
    for name, options in [
        ("untested", {}),
        ("bad", {}),
        ("bad", {"unproven": True}),
        ("untested", {"unproven": True}),
        ("idle", {}),
        ("held", {}),
        ("good", {"simulated": False}),
        ("good", {"yes": False}),
    ]:
        desk.promote(name, exit_code=1, **options)
        assert desk.files() == before, name
    assert desk.changes() == []


@pytest.mark.parametrize("name", ["untested", "bad"])
def test_an_unproven_candidate_goes_live_by_a_person_who_looks_alone_and_stays_labelled(desk: Desk, name: str) -> None:
    desk.facts("skills permit", desk.skill_path, simulated=True, yes=True)
    before = desk.files()
    with desk.serve() as server:
        assert status(server, "promote_skill", candidate_id=desk.ids[name]) == REFUSED
        assert status(server, "promote_skill", candidate_id=desk.ids[name], unproven=True) == UNAPPROVED
    for answers in ({}, {"unproven": True}):
        desk.promote(name, exit_code=1, **answers)
    assert desk.at_terminal("promote", desk.ids[name]).exit_code == 1
    assert desk.at_terminal("promote", desk.ids[name], unproven=True, answer="n\n").exit_code == 1
    assert desk.files() == before
    assert desk.at_terminal("promote", desk.ids[name], unproven=True).exit_code == 0
    assert desk.changes() == ["promote"]
    shown = desk.facts("show", desk.skill_path)
    assert (shown["skill.unproven"], shown["history.rows"][0]["verdict"]) == (True, "unproven")
    assert "UNPROVEN" in shown["text"]
    desk.rollback()
    assert (desk.facts("show", desk.skill_path)["skill.unproven"], desk.files()) == (False, before)


def test_what_is_live_or_was_never_live_or_is_on_another_text_is_refused(desk: Desk) -> None:
    versions = desk.facts("show", desk.skill_path)["skill.candidates"]
    never_live = next(row["version"] for row in versions if row["id"] == desk.ids["bad"])
    desk.promote("good")
    live = desk.files()
    assert desk.promote("good", exit_code=1)["status"] == REFUSED
    assert desk.promote("both", exit_code=1)["status"] == STALE
    desk.rollback(never_live, exit_code=1)
    with desk.serve() as server:
        assert server.tool("promote_skill", candidate_id=desk.ids["both"])["status"] == STALE
    assert (desk.files(), desk.changes()) == (live, ["promote"])


def test_nothing_is_written_outside_of_the_folders_that_a_person_allowed(desk: Desk) -> None:
    moved = desk.folder / "elsewhere" / "desk"
    moved.parent.mkdir()
    desk.skill_path.rename(moved)
    desk.facts("skills move", desk.skill_path, moved)
    before = files_of(moved)
    assert desk.promote("good", exit_code=1)["status"] == REFUSED
    with desk.serve() as server:
        assert server.tool("promote_skill", candidate_id=desk.ids["good"])["status"] == REFUSED
    assert files_of(moved) == before
    desk.facts("skills add-root", moved.parent)
    assert desk.promote("good")["status"] == PROMOTED
    assert LESSON.encode() in files_of(moved)["SKILL.md"][0]


def test_a_link_or_a_write_protected_file_is_left_alone(desk: Desk) -> None:
    desk.skill_file.chmod(0o444)
    before = desk.files()
    desk.promote("good", exit_code=1)
    assert desk.files() == before
    desk.skill_file.chmod(0o644)
    aside = desk.folder / "aside.md"
    desk.skill_file.rename(aside)
    desk.skill_file.symlink_to(aside)
    desk.promote("good", exit_code=1)
    assert aside.read_bytes() == FILES["SKILL.md"]


def test_a_rollback_restores_every_byte_and_can_be_undone(desk: Desk) -> None:
    before = desk.files()
    assert before == {name: (content, name in RUNNABLE) for name, content in FILES.items()}
    assert desk.promote("both")["status"] == PROMOTED
    after = desk.files()
    changed = [name for name in before if after[name] != before[name]]
    assert changed == ["SKILL.md", "references/more.md"]
    assert all(after[name][0].startswith(before[name][0]) for name in before)
    assert desk.rollback()["status"] == ROLLED_BACK
    assert desk.files() == before
    again = desk.facts("show", desk.skill_path)["history.rows"][0]["previous_version"]
    assert desk.rollback(again)["status"] == ROLLED_BACK
    assert (desk.files(), desk.verify()) == (after, 0)
    assert desk.changes() == ["promote", "rollback", "rollback"]


def between(desk: Desk, kind: str) -> tuple[tuple[str, ...], dict[str, Any], Contents]:
    """Return a command that changes two files and makes or removes a third, its options, and what it leaves."""
    before = desk.files()
    desk.promote("both")
    if kind == "rollback":
        return ("rollback", str(desk.skill_path)), {}, before
    after = desk.files()
    desk.rollback()
    return ("promote", desk.ids["both"]), {"simulated": True}, after


@pytest.mark.parametrize("kind", ["promote", "rollback"])
def test_killed_at_any_step_a_change_is_whole_or_did_not_happen(desk: Desk, kind: str, tmp_path: Path) -> None:
    command, options, new = between(desk, kind)
    old = desk.files()
    kept = desk.keep(tmp_path)
    ends, n = list[bool](), 1
    with (
        steps(desk, "kill", tmp_path, *command, yes=True, json=True, **options) as kill,
        steps(desk, "kill", tmp_path, "skills", json=True) as start,
    ):
        while (code := kill(n)[0]) == -SIGKILL:
            torn = {name for name, content in desk.files().items() if content not in (old.get(name), new.get(name))}
            assert all(Path(name).name.startswith(".") for name in torn), (n, torn)
            assert start(0)[0] == 0
            assert desk.files() in (old, new), n
            ends.append(desk.files() == new)
            desk.bring_back(kept)
            n += EVERY
    assert (code, desk.files()) == (0, new)
    assert ends == sorted(ends), "from some step on, it is finished"
    assert 0 < ends.index(True) < len(ends)
    assert desk.verify() == 0


@pytest.mark.parametrize("kind", ["promote", "rollback"])
def test_what_a_person_saves_during_a_change_is_what_stays(desk: Desk, kind: str, tmp_path: Path) -> None:
    command, options, _ = between(desk, kind)
    kept, edit, n = desk.keep(tmp_path), tmp_path / "mine.md", 1
    edit.write_bytes(MINE)
    with steps(desk, "edit", edit, *command, yes=True, json=True, **options) as disturb:
        while (ended := disturb(n))[1] >= n:
            assert desk.skill_file.read_bytes() == MINE, (n, ended)
            desk.bring_back(kept)
            n += EVERY
    assert n > 15


def test_what_a_person_saved_before_is_never_overwritten_by_a_promotion(desk: Desk) -> None:
    desk.skill_file.write_bytes(MINE)
    before = desk.files()
    assert desk.promote("good", exit_code=1)["status"] == STALE
    with desk.serve() as server:
        assert status(server, "promote_skill", candidate_id=desk.ids["good"]) == STALE
    assert (desk.at_terminal("promote", desk.ids["good"], simulated=True).exit_code, desk.files()) == (1, before)


@pytest.mark.parametrize("over_edit", [False, True])
def test_a_persons_edit_goes_only_by_a_person_at_a_terminal_and_comes_back(desk: Desk, over_edit: bool) -> None:
    before = desk.files()
    desk.promote("good")
    promoted = desk.files()
    desk.skill_file.write_bytes(MINE)
    edited = desk.files()
    assert desk.rollback(exit_code=1)["status"] == STALE
    with desk.serve() as server:
        assert status(server, "rollback_skill", skill="desk") == STALE
    assert desk.run("rollback", desk.skill_path, over_edit=over_edit, yes=True).exit_code == 1
    assert desk.at_terminal("rollback", desk.skill_path, over_edit=over_edit, answer="n\n").exit_code == 1
    assert desk.files() == edited
    done = desk.at_terminal("rollback", desk.skill_path, over_edit=over_edit)
    assert (done.exit_code, "OVER AN EDIT: it is kept as version" in done.out) == (0, True)
    assert desk.files() == promoted, "the text right before the edit"
    mine = desk.facts("show", desk.skill_path)["history.rows"][0]["previous_version"]
    assert desk.rollback()["status"] == ROLLED_BACK
    assert desk.files() == before
    desk.rollback(mine)
    assert (desk.files(), desk.verify()) == (edited, 0)


def test_a_rollback_goes_back_text_by_text_whoever_wrote_them(desk: Desk) -> None:
    texts = [desk.files()]
    for text in (MINE, b"# Other\n", MINE):  # the last one by hand, too
        desk.skill_file.write_bytes(text)
        desk.run("skills", json=True)
        texts.append(desk.files())
    for before in texts[-2::-1]:
        assert desk.at_terminal("rollback", desk.skill_path).exit_code == 0
        assert desk.files() == before
    done = desk.at_terminal("rollback", desk.skill_path)
    assert (done.exit_code, desk.files()) == (1, texts[0])
    assert "no text of 'desk' before the live one is known" in " ".join(done.out.split())


def test_a_version_that_is_named_goes_over_an_edit_with_a_word_for_that_alone(desk: Desk) -> None:
    first = desk.facts("show", desk.skill_path)["skill.live_version"]
    before = desk.files()
    desk.promote("good")
    desk.skill_file.write_bytes(MINE)
    assert desk.at_terminal("rollback", desk.skill_path, first).exit_code == 1
    assert desk.skill_file.read_bytes() == MINE
    assert desk.at_terminal("rollback", desk.skill_path, first, over_edit=True).exit_code == 0
    assert desk.files() == before
