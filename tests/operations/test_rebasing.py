"""Rebasing: a stale candidate's edits go on top of a person's, and have to prove themselves again."""

from __future__ import annotations

import pytest
from workshop import LESSONS, PLACEBO, Place

from skillopt_mcp.actions.candidates import propose_edits, rebase_candidate
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.promoting import promote_skill
from skillopt_mcp.core.candidates import Candidate, Consent, NewCandidate, candidate_id
from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.errors import NotFound, Refused
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.workspace.workspace import Workspace

NOTE = "- A rule that a person wrote by hand.\n"


def edited(place: Place) -> bytes:
    """Return the skill as a person left it, with a rule of their own above the last line."""
    lines = place.main.read_bytes().splitlines(keepends=True)
    place.main.write_bytes(b"".join([*lines[:-1], NOTE.encode(), lines[-1]]))
    return place.main.read_bytes()


def test_a_stale_candidate_goes_live_on_top_of_a_persons_edit(place: Place, workspace: Workspace) -> None:
    stale = place.accepted(workspace)
    theirs = edited(place)
    assert promote_skill(workspace.store, workspace.place, stale, Consent.PERSON_SIMULATED).status == "stale"
    result = rebase_candidate(workspace.store, workspace.place, stale)
    assert result.status == "candidate"
    assert result.candidate_id
    assert result.candidate_id != stale
    refused = promote_skill(workspace.store, workspace.place, result.candidate_id, Consent.PERSON_SIMULATED)
    assert (refused.status, refused.reason) == ("refused", "it was not tested against the live version")
    while not evaluate_candidate(workspace.store, workspace.models, workspace.place, result.candidate_id).accepted:
        pass
    assert (
        promote_skill(workspace.store, workspace.place, result.candidate_id, Consent.PERSON_SIMULATED).status
        == "promoted"
    )
    assert place.main.read_bytes() == theirs.rstrip(b"\n") + f"\n\n{LESSONS}\n".encode()
    assert stale in workspace.store.candidates.get_candidate(result.candidate_id).reasoning


def test_an_edit_whose_place_is_gone_is_reported_and_the_others_stay(place: Place, workspace: Workspace) -> None:
    last = place.main.read_text().rstrip("\n").splitlines()[-1]
    edits = [{"op": "replace", "target": last, "content": "- Other."}, {"op": "append", "content": PLACEBO}]
    made = propose_edits(workspace.store, workspace.place, str(place.skill), edits)
    assert made.candidate_id
    place.main.write_text(place.main.read_text().replace(last, "- Mine."))
    result = rebase_candidate(workspace.store, workspace.place, made.candidate_id)
    assert [(edit.status, edit.reason) for edit in result.edits] == [("unmatched", "not_found"), ("applied", None)]
    assert (result.next_step.action, result.next_step.arguments) == (
        "evaluate_candidate", {"candidate_id": result.candidate_id}
    )  # fmt: skip
    assert "+- Mine." not in result.diff
    assert place.main.read_text().rstrip("\n").endswith("- Mine.")


def test_a_candidate_that_keeps_no_edits_is_rebased_by_what_differs(place: Place, workspace: Workspace) -> None:
    tracked = workspace.place.skill(str(place.skill))
    base = workspace.store.skills.get_files(tracked.id, tracked.live_version)
    best = apply_patch(base, Patch((Edit("append", content=LESSONS),))).files
    made = Candidate(
        candidate_id(tracked.id, base.digest, best.digest), tracked.id, base.digest, best.digest, "host", "best",
        ("edit 0 rests on one recorded session alone",),
    )  # fmt: skip
    workspace.store.candidates.add_candidate(NewCandidate(made, best))
    theirs = place.main.read_text()
    place.main.write_text(theirs.replace("---\n\n", f"---\n\n{NOTE}\n", 1))
    assert place.main.read_text() != theirs
    result = rebase_candidate(workspace.store, workspace.place, made.id)
    assert (result.status, result.findings) == ("held", ["edit 0 rests on one recorded session alone"])
    assert [edit.status for edit in result.edits] == ["applied"]


def test_a_candidate_that_is_not_stale_is_refused(place: Place, workspace: Workspace) -> None:
    made = place.propose(workspace)
    with pytest.raises(Refused, match="nothing has to be rebased"):
        rebase_candidate(workspace.store, workspace.place, made)
    with pytest.raises(NotFound):
        rebase_candidate(workspace.store, workspace.place, "c-000000000000")
    tracked = workspace.place.skill(str(place.skill))
    place.main.write_bytes(workspace.store.skills.get_files(tracked.id, _version(workspace, made)).main)
    with pytest.raises(Refused, match="is what is live"):
        rebase_candidate(workspace.store, workspace.place, made)


def test_a_promoted_candidate_that_a_person_edited_is_not_made_twice(place: Place, workspace: Workspace) -> None:
    made = place.accepted(workspace)
    assert promote_skill(workspace.store, workspace.place, made, Consent.PERSON_SIMULATED).status == "promoted"
    edited(place)
    with pytest.raises(Refused, match="is in what is live already"):
        rebase_candidate(workspace.store, workspace.place, made)


def _version(workspace: Workspace, made: str) -> str:
    return workspace.store.candidates.get_candidate(made).version_id


def test_a_checkout_with_other_line_endings_differs_from_an_edit(place: Place, workspace: Workspace) -> None:
    stale = place.accepted(workspace)
    text = place.main.read_bytes()
    place.main.write_bytes(text.replace(b"\n", b"\r\n"))
    cure = "'SKILL.md text eol=lf' in .gitattributes"
    refused = promote_skill(workspace.store, workspace.place, stale, Consent.PERSON_SIMULATED)
    assert (refused.status, cure in refused.reason) == ("stale", True)
    with pytest.raises(Refused, match=cure):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, stale)
    place.main.write_bytes(text.replace(b"\n", b"\r\n") + b"- Mine.\r\n")
    refused = promote_skill(workspace.store, workspace.place, stale, Consent.PERSON_SIMULATED)
    assert (refused.status, cure in refused.reason) == ("stale", False)
    assert refused.next_step.command == f"skillopt-mcp evaluate {stale} --rebase"
    place.main.write_bytes(text)
    assert promote_skill(workspace.store, workspace.place, stale, Consent.PERSON_SIMULATED).status == "promoted"
