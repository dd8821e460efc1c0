"""Declined: a no that a person gives in a dialog is kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from full_server import LESSONS, NO, YES, Person, World, call
from mcp_types import ElicitResult

from skillopt_mcp.actions.promotions.consent import permit
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.reports.history import history

EDIT = {"op": "append", "content": LESSONS}
AT = "[0-2][0-9]:[0-5][0-9]"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_second_question_about_the_same_change_says_that_the_first_was_answered_with_no(world: World) -> None:
    candidate_id, person = world.accepted(), Person(NO)
    promote = ("promote_skill", {"candidate_id": candidate_id})
    first = call(world.server(), *promote, person=person)
    assert re.search(f"^at {AT} the person was asked, and said no$", first["reason"])
    call(world.server(), *promote, person=person)
    asked = [text.split("\n") for text in person.asked]
    assert not any(row.startswith("MIND") for row in asked[0])
    assert re.fullmatch(f"MIND: you said no at {AT}", asked[1][2])
    promoted = call(world.server(), *promote, person=Person(YES))
    assert promoted["status"] == "promoted"


def test_a_no_to_a_rollback_is_shown_before_it_is_asked_again(world: World) -> None:
    assert call(world.server(), "promote_skill", {"candidate_id": world.accepted()}, person=Person(YES))["version"]
    person, rollback = Person(NO), ("rollback_skill", {"skill": "ledger-clerk"})
    call(world.server(), *rollback, person=person)
    call(world.server(), *rollback, person=person)
    first, second = (text.split("\n") for text in person.asked)
    assert "MIND" not in first[1]
    assert re.fullmatch(f"MIND: you said no at {AT}", second[1])


def test_no_standing_permission_covers_what_a_person_said_no_to(world: World) -> None:
    candidate_id, before = world.accepted(), world.main.read_bytes()
    promote = ("promote_skill", {"candidate_id": candidate_id})
    call(world.server(), *promote, person=Person(NO))
    permit(world.workspace.store, world.workspace.place, "ledger-clerk", simulated=True)
    refused = call(world.server(), *promote)
    assert (refused["status"], world.main.read_bytes()) == ("needs_approval", before)
    assert refused["reason"].endswith("the person was asked, and said no")


def test_what_a_host_may_have_declined_by_itself_is_shown_once_and_binds_no_one(world: World) -> None:
    candidate_id, workspace, server = world.accepted(), world.workspace, world.server()
    promote = ("promote_skill", {"candidate_id": candidate_id})
    for _ in range(2):
        declined = call(server, *promote, person=Person(ElicitResult(action="decline")))
        assert declined["reason"].endswith("; the host answered decline, perhaps without asking the user")
    [reported] = history(workspace.store, workspace.place, "ledger-clerk").declined
    assert reported.endswith(": the host answered decline, perhaps without asking the user")
    assert verify_store(workspace.store.path).problems == []
    person = Person(ElicitResult(action="cancel"))
    call(server, *promote, person=person)
    assert re.fullmatch(f"MIND: declined at {AT}, perhaps by the host itself", person.asked[0].split("\n")[2])
    permit(workspace.store, workspace.place, "ledger-clerk", simulated=True)
    assert call(server, *promote)["reason"] == "its edits cite no rollout of our own", "and no refusal of a person"


def test_a_question_that_was_called_off_is_not_a_no(world: World) -> None:
    promote = ("promote_skill", {"candidate_id": world.accepted()})
    call(world.server(), *promote, person=Person(ElicitResult(action="cancel")))
    person = Person(NO)
    call(world.server(), *promote, person=person)
    assert "MIND" not in person.asked[0]
