"""Next steps: what the console script and the server advise is carried out, through the same door, and not refused."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillopt_mcp.core.next_step import NextStep
from tests.acceptance.doors import Server, ToolFailed
from tests.acceptance.doors_care import Desk

MINE = b"---\nname: desk\ndescription: Mine.\n---\nMy own words.\n"
FULFILLED = {"promoted", "rolled_back", "verdict", "candidate", "work", "running", "estimate", None}


def edit(desk: Desk) -> None:
    desk.skill_file.write_bytes(MINE)


def promote(desk: Desk) -> None:
    desk.promote("good")


def promote_and_edit(desk: Desk) -> None:
    promote(desk)
    edit(desk)


def promote_and_roll_back(desk: Desk) -> None:
    promote(desk)
    desk.rollback()


# What was done, and the candidate that is looked at then.
STATES: dict[str, tuple[Callable[[Desk], object], str]] = {
    "untested": (str, "untested"), "accepted": (str, "good"), "not accepted": (str, "idle"),
    "held": (str, "held"), "promoted": (promote, "good"), "promoted, then edited": (promote_and_edit, "good"),
    "rolled back": (promote_and_roll_back, "good"), "edited": (edit, "good"),
}  # fmt: skip


def steps_at_console(desk: Desk, id: str) -> list[dict[str, Any] | None]:
    """Return what the commands advise, refused ones too."""
    found = []
    for command, *arguments in (
        ("skills",), ("show", desk.skill_path), ("show", id), ("promote", id), ("rollback", desk.skill_path),
    ):  # fmt: skip
        options = {"yes": command in ("promote", "rollback")} | ({"simulated": True} if command == "promote" else {})
        if command in ("promote", "rollback") and desk.run(command, *arguments, **options).exit_code == 0:
            continue  # it was done: the desk is brought back
        found.append(json.loads(desk.run(command, *arguments, json=True, **options).out).get("next_step"))
    return found


def steps_of_tools(desk: Desk, server: Server, id: str) -> list[dict[str, Any] | None]:
    """Return what the tools advise that change nothing, or are refused."""
    found = []
    for tool, arguments in (
        ("list_skills", {}), ("inspect", {"id": "desk"}), ("inspect", {"id": id}),
        ("evaluate_candidate", {"candidate_id": id}), ("promote_skill", {"candidate_id": id}),
        ("rollback_skill", {"skill": "desk"}),
    ):  # fmt: skip
        if tool == "evaluate_candidate" and id == desk.ids["untested"]:
            continue  # that would test it
        try:
            found.append(dict(server.tool(tool, **arguments)).get("next_step"))
        except ToolFailed:
            continue
    return found


def follow(desk: Desk, step: dict[str, Any], server: Server | None) -> None:
    """Carry out a step, by the server's tool where there is a server and the step needs no person at a terminal."""
    action, given = step["action"], dict(step["arguments"])
    if action in ("propose_edits", "record_trajectory") and server is None:
        return None  # what a person says to their agent
    if server and not step["command"] and action not in ("replay", "check"):
        given |= {"task": "greet", "hard": False, "reason": "no Latin"} if action == "record_trajectory" else {}
        result = server.tool(action, **given)
        if result.get("status") == "needs_approval":  # a dialog cannot hold it
            assert result["next_step.command"]
            return follow(desk, dict(result["next_step"]), None)
        assert result.get("status") in FULFILLED, (step, result)
        return None
    command = shlex.split(NextStep(**step).as_command())[1:]
    options = {"target": desk.target} if command[0] == "evaluate" else {}
    done = desk.at_terminal(command[0], *command[1:], **options)
    assert done.exit_code == 0, (step, done)
    return None


@pytest.mark.parametrize("door", ["console", "client"])
@pytest.mark.parametrize("state", STATES)
def test_what_is_advised_is_carried_out_through_the_same_door(
    desk: Desk, state: str, door: str, tmp_path: Path
) -> None:
    act, name = STATES[state]
    act(desk)
    kept, id = desk.keep(tmp_path), desk.ids[name]
    if door == "console":
        steps = steps_at_console(desk, id)
    else:
        with desk.serve(target=desk.target, optimizer=desk.target) as server:
            steps = steps_of_tools(desk, server, id)
    distinct = {json.dumps(each, sort_keys=True): each for each in steps if each}
    assert distinct
    for step in distinct.values():
        desk.bring_back(kept)
        if door == "console":
            follow(desk, step, None)
            continue
        with desk.serve(agrees=True, target=desk.target) as server:
            follow(desk, step, server)
