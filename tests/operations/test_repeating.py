"""Repeating: what counts as an edit made again that came to nothing, and where it is told."""

from __future__ import annotations

import pytest
from workshop import LESSONS, Place, as_if_real, use

from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.documents.hunks import edits_between
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.candidates.repeating import Change, first_repeat, past_of
from skillopt_mcp.operations.changes.advising import by_a_person
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.promoting import promote_skill, rollback_skill
from skillopt_mcp.operations.looks.listing import list_skills
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.edits import Edit, Patch
from skillopt_mcp.records.skills import SkillFile, SkillFiles

TEXT = """\
---
name: clerk
description: Books amounts.
---

# Clerk

- Use tabs.
- Be kind.

## Steps

1. Read.
2. Write.
"""
RULES = "- Round half up.\n- Trim it.\n- Name the month."


def change(id: str, *edits: Edit) -> Change:
    before = SkillFiles((SkillFile("SKILL.md", TEXT.encode(), False),))
    applied = apply_patch(before, Patch(edits))
    assert all(report.status == "applied" for report in applied.reports)
    return Change(id, (*edits, *edits_between(before, applied.files)), before, applied.files)


def appended(content: str) -> Edit:
    return Edit("append", None, content)


def replaced(target: str, content: str) -> Edit:
    return Edit("replace", target, content)


def deleted(target: str) -> Edit:
    return Edit("delete", target)


@pytest.mark.parametrize(
    ("earlier", "now", "told"),
    [
        (appended("- Round half up."), appended("- Trim.\n- Round half up."), "makes an edit of c-1 again"),
        (appended("- Round half up."), appended("3. **Round half up**"), "makes an edit of c-1 again"),
        (appended("- Round half up."), appended("* round half up!"), "makes an edit of c-1 again"),
        (appended("- Round half up."), appended("- Round half down."), ""),
        (appended(RULES), appended("- Round half up.\n- Name the month."), "makes most of an edit of c-1 again"),
        (appended(RULES), appended("- Name the month."), ""),
        (appended("Example:\n\n- Round."), appended("Example:\n\n- Trim."), ""),
        (appended("```python\nx = 1\n```"), appended("```python\ny = 2\n```"), ""),
        (appended("```sh\nmake all\n```"), appended("~~~\nmake all\n~~~"), "makes an edit of c-1 again"),
        (deleted("- Use tabs.\n"), deleted("- Use tabs.\n- Be kind.\n"), "takes out what c-1 took out"),
        (deleted("- Use tabs.\n"), replaced("- Use tabs.", "- Use two tabs."), "takes out what c-1 took out"),
        (deleted("- Use tabs.\n"), replaced("- Use tabs.", "- **Use tabs.**"), ""),
        (replaced("- Use tabs.", "- Be kind."), deleted("- Use tabs.\n"), "takes out what c-1 took out"),
        (replaced("- Use tabs.", "- Use spaces."), replaced("- Use tabs.", "- Use two tabs."), ""),
        (replaced("- Use tabs.\n- Be kind.", "- Be kind.\n- Use tabs."), deleted("- Use tabs.\n"), ""),
        (appended("## Notes"), appended("## Notes\n\n- Trim."), ""),
        (
            Edit("set_description", None, "Books and rounds."),
            Edit("set_description", None, "Books and rounds."),
            "makes an edit of c-1 again",
        ),
        (Edit("set_description", None, "Books and rounds."), Edit("set_description", None, "Books days."), ""),
    ],
)
def test_an_edit_is_made_again_wherever_its_lines_come_back_and_a_move_is_none(
    earlier: Edit, now: Edit, told: str
) -> None:
    found = first_repeat(change("c-2", now), [past_of(change("c-1", earlier))])
    assert (found.told if found else "") == told


def undone(place: Place, workspace: Workspace) -> str:
    """Return a candidate that was promoted and that a person rolled back; a new version is live since."""
    candidate = place.accepted(workspace)
    assert promote_skill(workspace, candidate, Consent.PERSON_SIMULATED).status == "promoted"
    rollback_skill(workspace, "ledger-clerk", None, Consent.PERSON)
    place.main.write_bytes(place.main.read_bytes() + b"\nMy own words.\n")
    return candidate


def test_a_listing_names_a_new_edit_before_one_that_a_person_rolled_back(place: Place, workspace: Workspace) -> None:
    earlier = undone(place, workspace)
    new = place.propose(workspace, "- Keep the page.")
    again = place.propose(workspace)
    assert list_skills(workspace).skills[0].next_step == f"evaluate_candidate {new}"
    place.main.write_bytes(place.main.read_bytes() + b"\nMore of my own words.\n")
    again = place.propose(workspace)
    mind = f"; mind that it makes an edit of {earlier} again, which a person rolled back"
    assert list_skills(workspace).skills[0].next_step == f"evaluate_candidate {again}{mind}"
    assert place.accepted(workspace) == again
    step = list_skills(workspace).skills[0].next_step
    assert step == f"promote_skill {again}{mind}"
    told = by_a_person(workspace, step)
    assert told.endswith(f"skillopt-mcp promote {again} --simulated{mind}")


def test_edits_that_lead_back_to_what_was_live_at_first_say_that_it_was_live(
    place: Place, workspace: Workspace
) -> None:
    first = place.main.read_bytes()
    undone(place, workspace)
    edits = [{"op": "delete", "target": place.main.read_text().removeprefix(first.decode())}]
    back = propose_edits(workspace, str(place.skill), edits)
    told = f"what {back.candidate_id} leads to was live before, and is no more: rollback_skill "
    assert back.next_step.startswith(told)


def test_edits_given_by_hand_are_told_of_a_rejected_one_on_another_text(place: Place, workspace: Workspace) -> None:
    use(workspace, as_if_real())
    rejected = place.propose(workspace, "- Always answer with the word unknown.")
    while (result := evaluate_candidate(workspace, rejected)).verdict == "undecided":
        pass
    assert result.verdict == "reject"
    place.main.write_bytes(place.main.read_bytes() + b"\nMy own words.\n")
    edits = [{"op": "append", "content": "- Always answer with the word **unknown**."}]
    proposed = propose_edits(workspace, str(place.skill), edits)
    told = f"Mind that it makes an edit of {rejected} again, which its promotion test rejected. Call evaluate_candidate"
    assert proposed.next_step.startswith(told)
    other = propose_edits(workspace, str(place.skill), [{"op": "append", "content": LESSONS}])
    assert other.next_step.startswith("Call evaluate_candidate")


def test_what_a_simulation_rejected_is_held_against_no_edit(place: Place, workspace: Workspace) -> None:
    rejected = place.propose(workspace, "- Pay attention to the wording of the request.")
    while (result := evaluate_candidate(workspace, rejected)).verdict == "undecided":
        pass
    assert result.verdict == "reject"
    place.main.write_bytes(place.main.read_bytes() + b"\nMy own words.\n")
    edits = [{"op": "append", "content": "- Pay attention to the wording of the request."}]
    assert propose_edits(workspace, str(place.skill), edits).next_step.startswith("Call evaluate_candidate")
