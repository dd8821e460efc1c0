"""Away: a person at a terminal is shown what a permission promoted without them, once."""

from __future__ import annotations

import json
import os

import pytest
from changes import at_a_terminal

from tests.away import promote_alone
from tests.processes import Script

NOTE = "promoted while you were away"


@pytest.mark.parametrize("command", [("skills",), ("show", "ledger-clerk")])
def test_a_person_at_a_terminal_is_shown_what_was_promoted_without_them_once(cli, make_place, command) -> None:
    place = make_place()
    handle, old = promote_alone(place.store_path, place.skill_path)
    command = tuple(handle if word == "ledger-clerk" else word for word in command)
    for _ in range(2):
        assert NOTE in cli(*command, store=place.store_path).stdout, "a pipe is no person"
    code, screen = at_a_terminal(place, *command, answer="")
    assert (code, NOTE in screen, f"rollback {handle} {old[:12]}" in screen) == (0, True, True)
    code, screen = at_a_terminal(place, *command, answer="")
    assert (code, NOTE in screen) == (0, False)


def test_a_session_begins_with_what_was_promoted_without_a_person_until_one_has_looked(make_place) -> None:
    place = make_place()

    def begun() -> str:
        event = json.dumps({"hook_event_name": "SessionStart", "transcript_path": "/nowhere"})
        script = Script([*place.command, "capture"], place.skill_path, os.environ, stdin=event)
        assert (script.wait(), script.err) == (0, "")
        return script.out

    assert begun() == "", "nothing was promoted"
    handle, old = promote_alone(place.store_path, place.skill_path)
    for _ in range(2):
        said = json.loads(begun())
        assert all(each in said["systemMessage"] for each in (NOTE, f"diff {handle}", f"rollback {handle} {old[:12]}"))
        assert said["systemMessage"] in said["hookSpecificOutput"]["additionalContext"]
    at_a_terminal(place, "skills", answer="")
    assert begun() == ""
