"""Update: the candidate that a patch, a list of suggestions or a whole text makes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from memory_ask import BRIEF, SKILL, MemoryAsk, adds, question, silent

from skillopt_mcp.core.edits import Edit, EditReport, Patch
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.documents.edits import notes_in
from skillopt_mcp.training.stages.update import NOTED, NOTED_BEFORE, REWRITTEN, annotate, update

FRONT = "---\nname: clerk\ndescription: Counts.\n---\n"
REGION = "<!-- SLOW_UPDATE_START -->\nkept\n<!-- SLOW_UPDATE_END -->\n"
WHOLE = SkillFiles((SkillFile(MAIN_FILE, f"{FRONT}\n# Clerk\n\n- Read.\n\n{REGION}".encode()),))
REWRITE = f"{FRONT}\n# Clerk\n\n- Read twice.\n\n{REGION}"
SUGGESTIONS = Patch((adds("Read twice.", "trial:1"), adds("Be brief.", "trial:2", from_failure=False)), "why")
ONE = replace(BRIEF, budget=1)
BOTH = ("trial:1", "trial:2")
BY_SUGGESTIONS = replace(BRIEF, mode="rewrite_from_suggestions")
BY_MINIBATCH = replace(BRIEF, mode="full_rewrite_minibatch")


def rewriting(text: str) -> MemoryAsk:
    """Return an optimizer that answers with this whole text."""
    return MemoryAsk(lambda call: json.dumps({"reasoning": "done", "skill": text}))


@pytest.mark.parametrize("patch", [Patch(()), Patch((Edit("delete", "not there"),))])
def test_a_patch_that_changes_nothing_gives_the_parent(patch: Patch) -> None:
    assert update(MemoryAsk(silent), SKILL, patch, ONE).applied.files == SKILL


def test_suggestions_are_worked_in_by_one_call_and_become_one_edit_with_the_sources_of_all() -> None:
    ask = rewriting(REWRITE)
    made = update(ask, WHOLE, SUGGESTIONS, BY_SUGGESTIONS)
    [call] = ask.sent
    assert (call.stage, question(call).refs) == ("rewrite", BOTH)
    assert '"instruction": "Read twice."' in question(call).evidence
    assert made.applied.files.main.decode() == REWRITE
    assert made.applied.reports == (EditReport(0, "replace", MAIN_FILE, "applied", detail=REWRITTEN),)
    assert made.patch == Patch((Edit("replace", None, REWRITE, sources=BOTH, cited=BOTH),), "done")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (REWRITE.replace("Counts.", "Counts all."), "front matter"),
        (REWRITE.replace("kept", "mine"), "protected region"),
        (REWRITE.replace(REGION, ""), "protected region"),
    ],
)
def test_a_rewrite_of_what_is_protected_is_asked_again_and_then_leaves_the_parent(text: str, problem: str) -> None:
    ask = rewriting(text)
    made = update(ask, WHOLE, SUGGESTIONS, BY_SUGGESTIONS)
    assert (made.applied.files, made.applied.reports, made.patch.edits) == (WHOLE, (), ())
    assert len(ask.sent) == 3
    assert problem in question(ask.sent[1]).instructions
    assert made.unusable[0].startswith("rewrite: ")


def test_the_text_of_a_minibatch_is_taken_without_a_call() -> None:
    patch = Patch((Edit("replace", None, REWRITE, sources=("trial:1",)),), "why")
    made = update(MemoryAsk(silent), WHOLE, patch, BY_MINIBATCH)
    assert (made.applied.files.main.decode(), made.patch) == (REWRITE, patch)


def test_notes_go_into_the_appendix_of_the_same_candidate_and_keep_their_sources() -> None:
    made = update(MemoryAsk(silent), SKILL, Patch((adds("- more", "trial:1"),)), ONE)
    noted = annotate(made, (adds("Mind the rule.", "trial:2"),), most=5)
    assert notes_in(noted.applied.files) == ("Mind the rule.",)
    assert noted.applied.files.main.startswith(made.applied.files.main)
    assert noted.patch.edits == (adds("- more", "trial:1"), adds("Mind the rule.", "trial:2"))
    assert noted.applied.reports[1] == EditReport(1, "append", MAIN_FILE, "applied", detail=NOTED)


def test_a_note_that_is_there_already_or_comes_twice_counts_once() -> None:
    made = update(MemoryAsk(silent), SKILL, Patch(()), ONE)
    first = annotate(made, (adds("Mind the rule."), adds("Mind the rule."), adds("Check the sum.")), most=5)
    assert [report.status for report in first.applied.reports] == ["applied", "unmatched", "applied"]
    again = annotate(update(MemoryAsk(silent), first.applied.files, Patch(()), ONE), (adds("Check the sum."),), most=5)
    [report] = again.applied.reports
    assert (report.status, report.reason, report.detail) == ("unmatched", "no_change", NOTED_BEFORE)
    assert notes_in(again.applied.files) == notes_in(first.applied.files) == ("Mind the rule.", "Check the sum.")


def test_notes_that_cannot_be_written_leave_the_candidate_as_it_was() -> None:
    broken = SkillFiles((SkillFile(MAIN_FILE, b"# A\n\n<!-- APPENDIX_START -->\nno end\n"),))
    made = update(MemoryAsk(silent), broken, Patch(()), ONE)
    noted = annotate(made, (adds("Mind the rule."),), most=5)
    assert (noted.applied, noted.patch) == (made.applied, made.patch)
    assert noted.unusable[0].startswith("appendix: ")
