"""Names: what one answer calls a thing, every other operation knows, or says what it is instead."""

from __future__ import annotations

import pytest
from hostwork import begun
from workshop import LESSONS, PLACEBO, Place

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import NotFound
from skillopt_mcp.core.notes import Note
from skillopt_mcp.reports.listing import list_skills
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace


def make_skills(place: Place, *names: str) -> None:
    for name in names:
        (place.root / name).mkdir()
        (place.root / name / "SKILL.md").write_text(f"# {name}\n")


def test_a_version_is_inspected_by_its_id_alone(place: Place, workspace: Workspace) -> None:
    (row,) = list_skills(workspace.store, workspace.place).skills
    assert row.live_version
    found = inspect(workspace.store, workspace.place, row.live_version)
    assert (found.kind, found.id) == ("version", f"{place.skill}@{row.live_version}")
    with pytest.raises(NotFound, match='"0123456789ab" is a version of no skill here, and no skill of that name'):
        inspect(workspace.store, workspace.place, "0123456789ab")


def test_a_rollback_takes_a_version_as_inspect_spells_it_and_names_those_there_are(
    place: Place, workspace: Workspace
) -> None:
    before = workspace.place.skill(str(place.skill)).live_version
    candidate_id = place.accepted(workspace)
    assert promote_skill(workspace.store, workspace.place, candidate_id, Consent.PERSON_SIMULATED).status == "promoted"
    live = workspace.place.skill(str(place.skill)).live_version
    with pytest.raises(NotFound, match=f"it was live as, the newest first: .*{before[:12]}"):
        rollback_skill(workspace.store, workspace.place, "ledger-clerk", "00000000", Consent.PERSON)
    assert (
        f"live before, the newest first: {before[:12]}"
        in inspect(workspace.store, workspace.place, "ledger-clerk").text
    )
    for back in (live, before):
        result = rollback_skill(
            workspace.store, workspace.place, "ledger-clerk", f"ledger-clerk@{back[:12]}", Consent.PERSON
        )
        assert result.status == ("refused" if back == live else "rolled_back")
        assert (result.undo is None) == (back == live)


def test_what_is_given_for_a_candidate_is_shown_with_its_candidate(place: Place, host: Workspace) -> None:
    candidate_id = place.propose(host)
    job = begun(host, candidate_id).job_id
    opened = place.open()
    run = start_run(opened.store, opened.models, opened.place, str(place.skill), Config()).id
    for id, facts in {job: ("promotion test", candidate_id), run: ("run",)}.items():
        with pytest.raises(NotFound) as error:
            evaluate_candidate(host.store, host.models, host.place, id, Wait(host.jobs))
        assert all(fact in str(error.value) for fact in (id, *facts))


def test_blanks_around_an_id_or_a_name_are_no_part_of_it(place: Place, host: Workspace) -> None:
    candidate_id = place.propose(host)
    assert inspect(host.store, host.place, f" {candidate_id}\n").kind == "candidate"
    assert inspect(host.store, host.place, " ledger-clerk ").kind == "skill"
    assert (
        evaluate_candidate(host.store, host.models, host.place, f" {candidate_id} ", Wait(host.jobs)).candidate_id
        == candidate_id
    )


def test_an_unknown_skill_is_shown_with_those_most_like_it(place: Place, workspace: Workspace) -> None:
    make_skills(place, *(f"alpha-{n:02}" for n in range(12)), "release-notes")
    with pytest.raises(NotFound, match=r'"Release-Notes" .*\(did you mean "release-notes"\?\)'):
        workspace.place.skill("Release-Notes")
    with pytest.raises(NotFound, match=r'\(found: "alpha-00", .* and 4 more\)'):
        workspace.place.skill("zzz")


def test_a_half_made_patch_says_so_before_it_is_tested(place: Place, workspace: Workspace) -> None:
    from_edits = [{"op": "append", "content": PLACEBO}, {"op": "replace", "target": "no such text", "content": "x"}]
    made = propose_edits(workspace.store, workspace.place, str(place.skill), from_edits)
    assert made.status == "candidate"
    assert (made.next_step.action, made.next_step.why) == (
        "evaluate_candidate",
        "not tested yet; 1 of 2 edits was not made",
    )


def test_what_a_person_rolled_back_is_reported_as_that_at_once(place: Place, workspace: Workspace) -> None:
    candidate_id = place.accepted(workspace)
    promote_skill(workspace.store, workspace.place, candidate_id, Consent.PERSON_SIMULATED)
    rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, Consent.PERSON)
    result = evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id)
    assert result.next_step.action == "propose_edits"
    assert Note(code="rolled_back", ids=[candidate_id]) in result.notes
    again = propose_edits(workspace.store, workspace.place, str(place.skill), [{"op": "append", "content": LESSONS}])
    assert again.candidate_id == candidate_id
