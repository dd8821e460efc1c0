"""Repeating: what counts as an edit made again that came to nothing, and where it is shown."""

from __future__ import annotations

import pytest
from workshop import Place

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.repeats import Change, first_repeat, past_of
from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.documents.diffs import derive_edits
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.workspace.workspace import Workspace

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
    return Change(id, (*edits, *derive_edits(before, applied.files)), before, applied.files)


def appended(content: str) -> Edit:
    return Edit("append", None, content)


def replaced(target: str, content: str) -> Edit:
    return Edit("replace", target, content)


def deleted(target: str) -> Edit:
    return Edit("delete", target)


@pytest.mark.parametrize(
    ("earlier", "now", "reported"),
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
    earlier: Edit, now: Edit, reported: str
) -> None:
    found = first_repeat(change("c-2", now), [past_of(change("c-1", earlier))])
    assert (found.what if found else "") == reported


def test_what_a_simulation_rejected_is_held_against_no_edit(place: Place, workspace: Workspace) -> None:
    rejected = place.propose(workspace, "- Pay attention to the wording of the request.")
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, rejected).accepted is False
    place.main.write_bytes(place.main.read_bytes() + b"\nMy own words.\n")
    edits = [{"op": "append", "content": "- Pay attention to the wording of the request."}]
    again = propose_edits(workspace.store, workspace.place, str(place.skill), edits)
    assert (again.repeats, again.next_step.action) == ("", "evaluate_candidate")
