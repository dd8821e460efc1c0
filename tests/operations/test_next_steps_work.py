"""Next steps: in every state of a skill, what any surface advises is carried out, and refused by none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from workshop import Place

from skillopt_mcp.actions.candidates import propose_edits, rebase_candidate
from skillopt_mcp.actions.opening_tests import current_test
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import Refused
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.reports.facts import gather, gather_skills
from skillopt_mcp.reports.listing import list_skills
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.training.promotion_test import Asked
from skillopt_mcp.workspace.workspace import Workspace

PLACEBO, SKILL = "- Take your time.", "ledger-clerk"


def no_worse(place: Place, workspace: Workspace) -> str:
    """A text that is no worse, and no shorter: `promote` refuses it."""
    candidate_id = place.propose(workspace, PLACEBO)
    found = evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id, asked=Asked(0.3))
    assert found.test
    assert (found.test.verdict, found.accepted) == ("no_worse", False)
    return candidate_id


def better_then_no_worse(place: Place, workspace: Workspace) -> str:
    place.accepted(workspace)
    return no_worse(place, workspace)


def rejected(place: Place, workspace: Workspace) -> str:
    candidate_id = place.propose(workspace, PLACEBO)
    assert not evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted
    return candidate_id


def promoted(place: Place, workspace: Workspace) -> str:
    candidate_id = place.accepted(workspace)
    assert promote_skill(workspace.store, workspace.place, candidate_id, Consent.PERSON_SIMULATED).status == "promoted"
    return candidate_id


def rolled_back(place: Place, workspace: Workspace) -> str:
    candidate_id = promoted(place, workspace)
    assert rollback_skill(workspace.store, workspace.place, SKILL, None, Consent.PERSON).status == "rolled_back"
    return candidate_id


def stale(place: Place, workspace: Workspace) -> str:
    candidate_id = place.accepted(workspace)
    place.main.write_text(f"{place.main.read_text()}\nMine.\n")
    return candidate_id


def rejected_stale(place: Place, workspace: Workspace) -> str:
    candidate_id = rejected(place, workspace)
    place.main.write_text(f"{place.main.read_text()}\nMine.\n")
    return candidate_id


STATES: dict[str, Callable[[Place, Workspace], str]] = {
    "untested": lambda place, workspace: place.propose(workspace),
    "accepted": lambda place, workspace: place.accepted(workspace),
    "no worse": no_worse, "better, then no worse": better_then_no_worse, "rejected": rejected, "promoted": promoted,
    "rolled back": rolled_back, "stale": stale, "rejected, stale": rejected_stale,
}  # fmt: skip
PERSON = Consent.PERSON_SIMULATED
SURFACES: dict[str, Callable[[Workspace, str], list[NextStep | None]]] = {
    "skills": lambda workspace, _: [list_skills(workspace.store, workspace.place).next_step],
    "show SKILL": lambda workspace, _: [inspect(workspace.store, workspace.place, SKILL).next_step],
    "show CANDIDATE": lambda workspace, id: [inspect(workspace.store, workspace.place, id, consent=PERSON).next_step],
    "the page of a candidate": lambda workspace, id: list(gather(workspace.store, workspace.place, id).steps),
    "the page of skills": lambda workspace, _: [
        each.row.next_step for each in gather_skills(workspace.store, workspace.place)
    ],
    "evaluate": lambda workspace, id: [
        evaluate_candidate(workspace.store, workspace.models, workspace.place, id).next_step
    ],
    "promote": lambda workspace, id: [promote_skill(workspace.store, workspace.place, id, Consent.STANDING).next_step],
    "propose again": lambda workspace, _: [
        propose_edits(workspace.store, workspace.place, SKILL, [{"op": "append", "content": PLACEBO}]).next_step
    ],
}


def carry_out(workspace: Workspace, step: NextStep) -> None:
    given = dict(step.arguments)
    if step.action == "promote_skill":
        consent = replace(PERSON, unproven=bool(given.get("unproven")))
        assert (
            promote_skill(workspace.store, workspace.place, str(given["candidate_id"]), consent).status == "promoted"
        ), step
    elif step.action == "rollback_skill":
        version = str(given["version"]) if "version" in given else None
        seen = workspace.place.skill(SKILL).live_version if given.get("over_edit") else None
        consent = replace(Consent.PERSON, over_edit=bool(seen))
        assert (
            rollback_skill(workspace.store, workspace.place, str(given["skill"]), version, consent, seen).status
            == "rolled_back"
        ), step
    elif step.action == "evaluate_candidate" and given.get("rebase"):
        assert rebase_candidate(workspace.store, workspace.place, str(given["candidate_id"])).candidate_id, step
    elif step.action == "evaluate_candidate":
        assert (
            evaluate_candidate(workspace.store, workspace.models, workspace.place, str(given["candidate_id"])).status
            == "verdict"
        ), step
    elif step.action == "propose_edits":
        propose_from_evidence(
            workspace.store, workspace.models, workspace.place, str(given["skill"]), int(str(given.get("rollouts", 0)))
        )
    elif step.action == "inspect":
        inspect(workspace.store, workspace.place, str(given["id"]))
    else:
        raise AssertionError(f"no state here leads to {step}")


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("state", STATES)
def test_what_is_advised_is_not_refused(place: Place, state: str, surface: str) -> None:
    noted = place.folder / "id"

    def make(place: Place) -> None:
        with place.open() as workspace:
            place.add_tasks(workspace)
            noted.write_text(STATES[state](place, workspace))

    place.begin_as(state, make)
    workspace, made = place.open(), noted.read_text()
    if surface == "evaluate" and state in ("promoted", "stale", "rejected, stale"):
        with pytest.raises(Refused):
            evaluate_candidate(workspace.store, workspace.models, workspace.place, made)
        return
    steps = SURFACES[surface](workspace, made)
    for step in filter(None, steps):
        carry_out(workspace, step)


def test_the_candidate_that_is_better_is_advised_though_a_newer_one_is_no_worse(place: Place) -> None:
    workspace = place.open()
    place.add_tasks(workspace)
    better = place.accepted(workspace)
    no_worse(place, workspace)
    step = list_skills(workspace.store, workspace.place).next_step
    assert (step.action, step.arguments) == ("promote_skill", {"candidate_id": better})


def number_of_next_test(place: Place, text: str) -> int:
    workspace = place.open()
    candidate = workspace.store.candidates.get_candidate(place.propose(workspace, text))
    return current_test(workspace.store, workspace.models, workspace.place, candidate, Asked()).row.number


def test_nothing_but_a_proof_gives_error_rate_back(place: Place) -> None:
    workspace = place.open()
    place.add_tasks(workspace)
    idle = rejected(place, workspace)
    assert number_of_next_test(place, "- Try.") == 2
    assert (
        promote_skill(workspace.store, workspace.place, idle, replace(Consent.PERSON, unproven=True)).status
        == "promoted"
    )
    assert number_of_next_test(place, "- Try.") == 2
    assert rollback_skill(workspace.store, workspace.place, SKILL, None, Consent.PERSON).status == "rolled_back"
    assert number_of_next_test(place, "- Try.") == 2
    place.main.write_text(f"{place.main.read_text()}\nMine.\n")
    assert number_of_next_test(place, "- Try.") == 2
    assert promoted(place, workspace)
    assert number_of_next_test(place, "- Try.") == 1
    assert rollback_skill(workspace.store, workspace.place, SKILL, None, Consent.PERSON).status == "rolled_back"
    assert number_of_next_test(place, "- Try.") == 3


def test_an_edit_of_a_file_that_was_never_promoted_is_put_back(place: Place) -> None:
    workspace = place.open()
    place.add_tasks(workspace)
    before = place.main.read_bytes()
    place.main.write_bytes(before + b"\nMine.\n")
    opened = place.open()
    assert rollback_skill(opened.store, opened.place, SKILL, None, Consent.PERSON).status == "rolled_back"
    assert place.main.read_bytes() == before
