"""Declined: a no that a person gives in a dialog is kept, and nobody is asked as if they had not said it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from full_server import LESSONS, NO, YES, Person, World, call
from mcp_types import ElicitResult

from skillopt_mcp.cli.main import main
from skillopt_mcp.operations.changes.permitting import permit
from skillopt_mcp.operations.looks.history import history
from skillopt_mcp.operations.looks.inspecting import described
from skillopt_mcp.operations.looks.listing import list_skills
from skillopt_mcp.operations.stores.verifying import verify_store

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])
EDIT = {"op": "append", "content": LESSONS}
AT = "[0-2][0-9]:[0-5][0-9]"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@ERAS
def test_a_second_question_about_the_same_change_says_that_the_first_was_answered_with_no(
    world: World, era: str
) -> None:
    candidate_id, person = world.accepted(), Person(NO)
    promote = ("promote_skill", {"candidate_id": candidate_id})
    first = call(world.server(), *promote, era, person)
    assert re.search(f"^at {AT} the person was asked, and said no$", first["reason"])
    call(world.server(), *promote, era, person)
    asked = [text.split("\n") for text in person.asked]
    assert not any(row.startswith("MIND") for row in asked[0])
    assert re.fullmatch(f"MIND: you said no at {AT}", asked[1][2])
    promoted = call(world.server(), *promote, era, Person(YES))
    assert promoted["status"] == "promoted"


def test_a_no_to_a_rollback_is_told_before_it_is_asked_again(world: World) -> None:
    assert call(world.server(), "promote_skill", {"candidate_id": world.accepted()}, person=Person(YES))["version"]
    person, rollback = Person(NO), ("rollback_skill", {"skill": "ledger-clerk"})
    call(world.server(), *rollback, person=person)
    call(world.server(), *rollback, person=person)
    first, second = (text.split("\n") for text in person.asked)
    assert "MIND" not in first[1]
    assert re.fullmatch(f"MIND: you said no at {AT}", second[1])


def test_what_a_person_said_no_to_is_shown_with_the_candidate_and_in_the_history(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    candidate_id, workspace = world.accepted(), world.workspace
    call(world.server(), "promote_skill", {"candidate_id": candidate_id}, person=Person(NO))
    declined = [line for line in described(workspace, candidate_id)[1].splitlines() if line.startswith("declined: ")]
    assert len(declined) == 1
    assert re.fullmatch("declined: a person, asked through the host( [(].+[)])? said no, [-0-9T:.]+Z", declined[0])
    [told] = history(workspace, "ledger-clerk").declined
    assert re.fullmatch(
        "[-0-9T:.]+Z promote [0-9a-f]{12} -> [0-9a-f]{12}: a person, asked through the host.* said no", told
    )
    assert main(["--store", str(workspace.store_path), "history", "ledger-clerk"]) == 0
    assert f"declined: {told}\n" in capsys.readouterr().out.replace("\n    ", " ")
    verified = verify_store(workspace.store_path)
    assert (verified.problems, workspace.store.decisions.latest_in(candidate_id)) == ([], None)


def test_a_change_that_a_person_said_no_to_is_proposed_no_more_until_they_approve_it(world: World) -> None:
    candidate_id, workspace = world.accepted(), world.workspace
    assert list_skills(workspace).skills[0].next_step == f"promote_skill {candidate_id}"
    call(world.server(), "promote_skill", {"candidate_id": candidate_id}, person=Person(NO))
    assert candidate_id not in list_skills(workspace).skills[0].next_step
    again = call(world.server(), "propose_edits", {"skill": "ledger-clerk", "edits": [EDIT]})["next_step"]
    assert (
        again == f"{candidate_id} was tested before and accepted, and a person said no to it: ask what they want "
        "changed."
    )
    second = world.accepted(f"{LESSONS}\n- Keep the page.")
    assert list_skills(workspace).skills[0].next_step == f"promote_skill {second}"


def test_no_standing_permission_covers_what_a_person_said_no_to(world: World) -> None:
    candidate_id, before = world.accepted(), world.main.read_bytes()
    promote = ("promote_skill", {"candidate_id": candidate_id})
    call(world.server(), *promote, person=Person(NO))
    permit(world.workspace, "ledger-clerk", simulated=True)
    refused = call(world.server(), *promote)
    assert (refused["status"], world.main.read_bytes()) == ("needs_approval", before)
    assert refused["reason"].endswith("the person was asked, and said no")


def test_what_a_host_may_have_declined_by_itself_is_told_once_and_binds_nobody(world: World) -> None:
    candidate_id, workspace, server = world.accepted(), world.workspace, world.server()
    promote = ("promote_skill", {"candidate_id": candidate_id})
    for _ in range(2):
        declined = call(server, *promote, person=Person(ElicitResult(action="decline")))
        assert declined["reason"].endswith("; the host answered decline, perhaps without asking anybody")
    [told] = history(workspace, "ledger-clerk").declined
    assert told.endswith(": the host answered decline, perhaps without asking anybody")
    assert verify_store(workspace.store_path).problems == []
    assert list_skills(workspace).skills[0].next_step == f"promote_skill {candidate_id}"
    person = Person(ElicitResult(action="cancel"))
    call(server, *promote, person=person)
    assert re.fullmatch(f"MIND: declined at {AT}, perhaps by the host itself", person.asked[0].split("\n")[2])
    permit(workspace, "ledger-clerk", simulated=True)
    assert call(server, *promote)["status"] == "promoted"


def test_a_question_that_was_called_off_is_nobodys_no(world: World) -> None:
    promote = ("promote_skill", {"candidate_id": world.accepted()})
    call(world.server(), *promote, person=Person(ElicitResult(action="cancel")))
    person = Person(NO)
    call(world.server(), *promote, person=person)
    assert "MIND" not in person.asked[0]
