"""Rejected before: a proposal is told of the edits that came to nothing, and none of them comes back as a new one."""

from __future__ import annotations

import json
from pathlib import Path

from hostwork import begun_proposal
from workshop import LESSONS, PLACEBO, Place, as_if_real, use

from benchmarks.host_agent import items_of
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.admin.erase import erase
from skillopt_mcp.backends.work import EVIDENCE
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.results import Proposed
from skillopt_mcp.prompts.history import TEXT_LIMIT
from skillopt_mcp.prompts.rendering import cut_middle
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace

WORSE = "- Always answer with the word unknown."


def recorded(host: Workspace, place: Place, n: int = 6) -> list[str]:
    """Record failed attempts, and return their ids."""
    told = [
        Recording(task=f"{n}: book it (needs: currency)", answer="1", hard=False, reason="no", session_id=f"s{n}")
        for n in range(n)
    ]
    return [str(record_trajectory(host.store, host.place, str(place.skill), each).trajectory_id) for each in told]


def evidence(standing: Proposed) -> str:
    [item] = items_of(standing.work)
    return Path(item.folder, "WORK.md").read_text().partition(EVIDENCE)[2]


def answered(host: Workspace, standing: Proposed, content: str, *evidence: int) -> Proposed:
    """Return the outcome of a proposal whose one question is answered with an edit."""
    [item] = items_of(standing.work)
    edit = {
        "op": "append",
        "target": None,
        "content": content,
        "path": "SKILL.md",
        "evidence": list(evidence) or [1, 2, 3],
    }
    reply = json.dumps({"reasoning": "so", "edits": [edit]})
    result = submit_work(
        host.store, host.models, host.place, [{"work_id": item.work_id, "reply": reply}], wait=Wait(host.jobs)
    )
    assert result.proposed, result
    return result.proposed


def rejected(place: Place, content: str = WORSE) -> str:
    """Return a candidate that a test with a real model rejected."""
    workspace = place.open()
    use(workspace, as_if_real())
    candidate = place.propose(workspace, content)
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate).accepted is False
    return candidate


def test_a_proposal_is_told_of_the_edits_that_a_test_rejected_and_what_a_person_rolled_back(
    place: Place, host: Workspace
) -> None:
    undone = place.accepted(place.open())
    opened = place.open()
    assert promote_skill(opened.store, opened.place, undone, Consent.PERSON_SIMULATED).status == "promoted"
    opened = place.open()
    rollback_skill(opened.store, opened.place, "ledger-clerk", None, Consent.PERSON)
    rejected(place)
    recorded(host, place)
    told = evidence(begun_proposal(host, str(place.skill)))
    history = told.partition("## Earlier steps")[2].partition("## Evidence")[0]
    assert "Edits of earlier candidates of this skill that were not adopted, the latest first:" in history
    rows = [json.loads(line) for line in history.splitlines() if line.startswith("{")]
    appended = {"op": "append", "path": "SKILL.md"}
    assert rows == [
        {"became": "not proven alone; it may be part of a larger edit", **appended, "content": WORSE},
        {"became": "promoted, then rolled back by a person", **appended, "content": cut_middle(LESSONS, TEXT_LIMIT)},
    ]
    assert "score" not in history


def test_what_is_rejected_once_a_proposal_has_begun_does_not_change_what_it_reads(
    place: Place, host: Workspace
) -> None:
    place.propose(place.open(), WORSE)
    recorded(host, place)
    standing = begun_proposal(host, str(place.skill))
    assert "## Earlier steps" not in evidence(standing)
    rejected(place)
    assert submit_work(host.store, host.models, host.place, [], standing.job_id, Wait(host.jobs)).work is None
    assert answered(host, standing, "- Round once.").status == "candidate"


def test_nothing_is_told_of_a_candidate_made_from_an_attempt_that_was_erased(place: Place, host: Workspace) -> None:
    ids = [int(recorded_id.partition(":")[2]) for recorded_id in recorded(host, place)]
    made = answered(host, begun_proposal(host, str(place.skill)), WORSE)
    workspace = place.open()
    use(workspace, as_if_real())
    assert (
        evaluate_candidate(workspace.store, workspace.models, workspace.place, str(made.candidate_id)).accepted is False
    )
    told = propose_from_evidence(host.store, host.models, host.place, str(place.skill), wait=Wait(host.jobs))
    assert WORSE in evidence(begun_again(host, told))
    opened = place.open()
    erase(opened.store, opened.place, ids[:3])
    assert WORSE not in evidence(begun_again(host, told))


def begun_again(host: Workspace, told: Proposed) -> Proposed:
    """Return a proposal with the work that is out."""
    return told.model_copy(
        update={"work": submit_work(host.store, host.models, host.place, [], told.job_id, Wait(host.jobs)).work}
    )


def test_a_simulation_rejects_nothing_for_a_host(place: Place, host: Workspace) -> None:
    workspace = place.open()
    candidate = place.propose(workspace, PLACEBO)
    evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate)
    recorded(host, place)
    assert "## Earlier steps" not in evidence(begun_proposal(host, str(place.skill)))


def test_a_reflected_proposal_says_that_it_repeats_what_a_person_rolled_back(place: Place, host: Workspace) -> None:
    undone = place.accepted(place.open())
    opened = place.open()
    promote_skill(opened.store, opened.place, undone, Consent.PERSON_SIMULATED)
    opened = place.open()
    rollback_skill(opened.store, opened.place, "ledger-clerk", None, Consent.PERSON)
    place.main.write_bytes(place.main.read_bytes() + b"\nMy own words.\n")
    recorded(host, place)
    result = answered(host, begun_proposal(host, str(place.skill)), LESSONS)
    assert undone in result.repeats
    assert result.next_step.action == "evaluate_candidate"
