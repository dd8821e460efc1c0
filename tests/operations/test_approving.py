"""Approving: what a person is asked in a dialog, where hosts show no more than its first rows, or one window full."""

from zlib import crc32

import pytest
from workshop import PLACEBO, SEED, Place, solving, use

from skillopt_mcp.actions.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.actions.promotions.review import DIALOG_ROWS, FIRST_ROWS, question_of_promotion, question_of_rollback
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_skill
from skillopt_mcp.core.calls import Call, Rollout
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.workspace.workspace import Workspace

LAST = make_skill(SEED).main.decode().splitlines()[-1]


def accepted(place: Place, workspace: Workspace, content: str, tenths: tuple[int, int] = (0, 10), **edit: str) -> str:
    """Return an accepted candidate: so many tenths of the tasks are solved without `content`, and so many with it."""

    def right_with_it(call: Call) -> str:
        assert isinstance(call.request, Rollout)
        judge = call.request.task.judge.model_dump()
        solved = tenths[content in call.request.files.text]
        return str(judge["expected"]) if crc32(call.request.task.prompt.encode()) % 10 < solved else "no"

    use(workspace, Scripted(right_with_it, name="anthropic:some-model"))
    return place.accepted(workspace, content, **edit)


def rows_to_undo(place: Place, workspace: Workspace, content: str, **edit: str) -> list[str]:
    """Return the rows of the question whether to undo an edit, none when it is not to be asked."""
    candidate = accepted(place, workspace, content, **edit)
    assert promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON).status == "promoted"
    asked = question_of_rollback(workspace.store, workspace.place, "ledger-clerk", None, Consent.APPROVED)
    return asked.text.split("\n") if asked else []


def test_the_changed_lines_stand_in_the_first_rows_where_these_hold_them(place: Place, workspace: Workspace) -> None:
    rows = rows_to_undo(place, workspace, "- Keep the page.", op="replace", target=LAST)
    assert rows[0].startswith(f'Write an earlier version over "{place.skill}"? (')
    assert rows[1:FIRST_ROWS] == ["-- Keep the page.", f"+{LAST}"]


def test_one_changed_line_stands_under_the_verdict_on_it(place: Place, workspace: Workspace) -> None:
    candidate = accepted(place, workspace, "- Keep the page.", op="insert_after", target=LAST)
    asked = question_of_promotion(workspace.store, workspace.place, candidate, Consent.APPROVED)
    assert asked
    rows = asked.text.split("\n")
    assert rows[1].startswith("Verdict: BETTER. ")
    assert rows[1].endswith(" 0 worse, 0 same (own evidence).")
    assert rows[2:4] == ["+- Keep the page.", ""]


def test_the_change_and_what_the_gate_said_follow_in_full(place: Place, workspace: Workspace) -> None:
    use(workspace, solving(lambda call: PLACEBO in call.request.files.text, "scripted"))  # type: ignore[union-attr]
    candidate = place.accepted(workspace, PLACEBO)
    asked = question_of_promotion(workspace.store, workspace.place, candidate, Consent.APPROVED)
    assert asked
    rows = asked.text.split("\n")
    assert rows[FIRST_ROWS : FIRST_ROWS + 2] == ["", "--- a/ledger-clerk/SKILL.md"]
    assert f"+{PLACEBO}" in rows
    assert any(row.startswith("On tasks like your 30 the new text solves more: ") for row in rows)
    assert any(row.startswith("Better: ") for row in rows)
    assert "This rests on a SIMULATION, which says nothing about a real model." in rows


@pytest.mark.parametrize(("n", "asked"), [(DIALOG_ROWS - 16, True), (DIALOG_ROWS, False)])
def test_what_overflows_a_window_is_not_asked(place: Place, workspace: Workspace, n: int, asked: bool) -> None:
    rows = rows_to_undo(place, workspace, "\n".join(f"- Keep page {page}." for page in range(n)))
    assert bool(rows) is asked
    assert len(rows) <= DIALOG_ROWS


def test_the_very_change_that_a_person_rolled_back_says_so_in_the_first_rows(
    place: Place, workspace: Workspace
) -> None:
    undone = accepted(place, workspace, "- Keep the page.")
    promote_skill(workspace.store, workspace.place, undone, Consent.PERSON)
    rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, Consent.PERSON)
    asked = question_of_promotion(workspace.store, workspace.place, undone, Consent.APPROVED)
    assert asked
    assert asked.text.split("\n")[FIRST_ROWS - 1].startswith("MIND: a person rolled this back")
