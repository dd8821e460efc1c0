"""Consent: who may agree to a change, in a dialog, at a terminal or for good, and what an agent's shell is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp_types import ElicitResult

from tests.acceptance.doors import PROMOTED, ROLLED_BACK
from tests.acceptance.doors_care import AGENT_SHELLS, FILES, HELD, RUNNABLE, UNAPPROVED, Desk, status

YES, UNTICKED = ({"any": answer} for answer in (True, False))


@pytest.mark.parametrize(
    ("action", "content", "written"),
    [("accept", YES, True), ("accept", UNTICKED, False), ("decline", None, False), ("cancel", None, False)],
)
def test_a_dialog_writes_on_a_yes_alone(
    desk: Desk,
    action: Literal["accept", "decline", "cancel"],
    content: dict[str, str | int | float | bool | list[str] | None] | None,
    written: bool,
) -> None:
    before = desk.files()
    with desk.dialog(ElicitResult(action=action, content=content)) as server:
        promoted = status(server, "promote_skill", candidate_id=desk.ids["good"])
        assert len(server.questions) == 1
        assert str(desk.skill_path) in server.questions[0]
        assert promoted == (PROMOTED if written else UNAPPROVED)
        assert (desk.files() != before) is written
        assert desk.changes() == ["promote"] * written
        if written:
            assert status(server, "rollback_skill", skill="desk") == ROLLED_BACK
            assert (len(server.questions), desk.files()) == (2, before)
        # What the guard holds is never a matter of a dialog.
        n_asked = len(server.questions)
        assert status(server, "promote_skill", candidate_id=desk.ids["held"]) == HELD
        assert (len(server.questions), desk.files()) == (n_asked, before)


@pytest.mark.parametrize(("answer", "exit_code"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("\x03", 130)])
def test_a_person_at_a_terminal_decides(desk: Desk, answer: str, exit_code: int) -> None:
    before = desk.files()
    done = desk.at_terminal("promote", desk.ids["good"], simulated=True, answer=answer)
    assert (done.exit_code, desk.files() == before) == (exit_code, exit_code != 0)
    assert "[y/N]" in done.out


def test_a_person_who_looks_may_promote_what_the_guard_holds(desk: Desk) -> None:
    done = desk.at_terminal("promote", desk.ids["held"], simulated=True)
    assert (done.exit_code, desk.changes()) == (0, ["promote"])
    assert b"collect.example" in desk.skill_file.read_bytes()


def test_a_standing_permission_has_limits_and_ends(desk: Desk) -> None:
    before = desk.files()
    permit = {"simulated": True, "yes": True}
    with desk.serve() as server:
        desk.facts("skills permit", desk.skill_path, yes=True)
        assert status(server, "promote_skill", candidate_id=desk.ids["good"]) == UNAPPROVED, "a simulation"
        desk.facts("skills permit", desk.skill_path, **permit)
        for name in ("both", "code", "long", "held"):
            found = status(server, "promote_skill", candidate_id=desk.ids[name])
            assert (found, desk.files()) == (HELD if name == "held" else UNAPPROVED, before), name
        desk.facts("skills revoke", desk.skill_path)
        assert status(server, "promote_skill", candidate_id=desk.ids["good"]) == UNAPPROVED
        assert desk.files() == before
        desk.facts("skills permit", desk.skill_path, **permit)
        assert status(server, "promote_skill", candidate_id=desk.ids["good"]) == PROMOTED
        assert status(server, "rollback_skill", skill="desk") == ROLLED_BACK
        assert status(server, "promote_skill", candidate_id=desk.ids["good"]) == PROMOTED
        # What a person rolled back stays so, until a person brings it back.
        desk.rollback()
        assert status(server, "promote_skill", candidate_id=desk.ids["good"]) == UNAPPROVED
    assert (desk.files(), desk.changes()) == (before, ["promote", "rollback"] * 2)


def test_a_server_may_want_a_person_each_time(desk: Desk) -> None:
    desk.facts("skills permit", desk.skill_path, simulated=True, yes=True)
    with desk.serve(require_approval=True) as server:
        assert status(server, "promote_skill", candidate_id=desk.ids["good"]) == UNAPPROVED


def kept(path: Path) -> list[str]:
    """Return what a store holds, but for what a mere look at a run writes: the boot of the machine, and its mark."""
    with closing(sqlite3.connect(path)) as store:
        return [line for line in store.iterdump() if not line.startswith(('INSERT INTO "mark"', 'INSERT INTO "boot"'))]


def test_an_agents_shell_agrees_to_nothing(desk: Desk) -> None:
    desk.facts("store backup", copy := desk.folder / "copy.db")
    desk.facts("skills permit", desk.skill_path, simulated=True, yes=True)
    before, good = desk.files(), desk.ids["good"]
    commands: list[tuple[str, tuple[object, ...], dict[str, Any]]] = [
        ("promote", (good,), {"simulated": True}),
        ("rollback", (desk.skill_path,), {"over_edit": True}),
        ("skills permit", (desk.skill_path,), {"simulated": True}),
        ("skills add-root", (desk.folder,), {}),
        ("tasks remove", (desk.skill_path, "q1"), {"reason": "wrong"}),
        ("tasks judges add", ("own", "--", "/bin/true"), {}),
        ("store restore", (copy,), {}),
        ("store erase", (desk.skill_path,), {"all": True}),
    ]
    store = kept(desk.store_path)
    for n, (command, arguments, options) in enumerate(commands):
        desk.environ[AGENT_SHELLS[n % len(AGENT_SHELLS)]] = "1"
        done = desk.at_terminal(command, *arguments, **options)
        assert (done.exit_code, "[y/N]" in done.out) == (1, False), (command, done.out)
        for name in AGENT_SHELLS:
            desk.environ.pop(name, None)
    for name in AGENT_SHELLS:
        desk.environ[name] = "1"
        assert desk.run("promote", good, simulated=True, yes=True).exit_code == 1
        del desk.environ[name]
    assert desk.files() == before == {name: (content, name in RUNNABLE) for name, content in FILES.items()}
    assert desk.changes() == []
    assert kept(desk.store_path) == store
