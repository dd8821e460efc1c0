"""Standing: whatever is inspected says where it stands, and what to do with it now."""

from __future__ import annotations

import re

from hostwork import begun
from workshop import LESSONS, PLACEBO, Place

from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.promoting import promote_skill, rollback_skill
from skillopt_mcp.operations.changes.reviewing import review_candidate
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.looks.listing import list_skills
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.reservations import drawn_pairs


def told(workspace: Workspace) -> list[str]:
    """Return what a skill says of its candidates, the oldest first."""
    lines = inspect(workspace, "ledger-clerk").text.splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("candidate ")]


def step(workspace: Workspace, id: str) -> str:
    return inspect(workspace, id, consent=Consent.PERSON_SIMULATED).next_step


def test_a_skill_tells_which_of_its_candidates_still_can_be_promoted(place: Place, workspace: Workspace) -> None:
    first = place.accepted(workspace)
    place.propose(workspace, PLACEBO)
    assert told(workspace) == ["accept", "not evaluated"]
    promote_skill(workspace, first, Consent.PERSON_SIMULATED)
    stale = "stale: the file has changed since"
    assert told(workspace) == ["accept, promoted and live", f"not evaluated, {stale}"]
    rollback_skill(workspace, "ledger-clerk", None, Consent.PERSON)
    assert told(workspace) == ["accept, rolled back", "not evaluated"]
    place.main.write_text("# Mine\n")
    assert told(workspace) == ["accept, rolled back", f"not evaluated, {stale}"]


def test_a_candidate_that_another_followed_is_live_no_more(place: Place, workspace: Workspace) -> None:
    promote_skill(workspace, place.accepted(workspace), Consent.PERSON_SIMULATED)
    place.main.write_text("# Mine\n")
    assert told(workspace) == ["accept, promoted, and live no more"]


def test_a_skill_says_next_what_the_list_says(place: Place, workspace: Workspace) -> None:
    assert step(workspace, "ledger-clerk") == "propose_edits with rollouts 8, or record_trajectory"
    candidate = place.propose(workspace)
    [row] = list_skills(workspace).skills
    assert step(workspace, "ledger-clerk") == row.next_step == f"evaluate_candidate {candidate}"


def test_a_version_says_next_what_its_candidate_does(place: Place, workspace: Workspace) -> None:
    first = workspace.skill("ledger-clerk").live_version
    live = "It is what is live: what comes next with the skill is told by inspect ledger-clerk."
    assert step(workspace, f"ledger-clerk@{first}") == live
    candidate = place.propose(workspace, LESSONS)
    version = workspace.store.candidates.get_candidate(candidate).version_id
    assert step(workspace, f"ledger-clerk@{version[:12]}") == f"Call evaluate_candidate with candidate_id {candidate}."
    while evaluate_candidate(workspace, candidate).verdict == "undecided":
        pass
    assert step(workspace, f"ledger-clerk@{version}") == f"Call promote_skill with candidate_id {candidate}."
    promote_skill(workspace, candidate, Consent.PERSON_SIMULATED)
    assert step(workspace, f"ledger-clerk@{version}") == live
    back = f"rollback_skill with skill ledger-clerk and version {first[:12]}"
    assert step(workspace, f"ledger-clerk@{first}") == f"It was live, and is no more. To have it back: {back}."


def test_an_attempt_says_what_it_needs(place: Place, workspace: Workspace) -> None:
    skill = workspace.skill("ledger-clerk")
    held_out = next(task for task in workspace.store.tasks.list_tasks(skill.id) if task.split == "test")
    for task, hard in (("One?", True), ("Two?", None), (held_out.prompt, True)):
        record_trajectory(workspace, "ledger-clerk", Recording(task=task, hard=hard))
    steps = [step(workspace, f"trajectory:{n}") for n in (1, 2, 3)]
    assert steps == [
        "Nothing: proposals learn from it (propose_edits). If its score is wrong: record_trajectory with task "
        "trajectory:1, the right one and a reason for the correction.",
        "Say how it ended: record_trajectory with task trajectory:2 and hard.",
        "Nothing: nothing is learned from an attempt at a held-out task.",
    ]


def test_work_says_how_it_is_handed_in(place: Place, host: Workspace) -> None:
    [item, *_] = begun(host, place.propose(host)).work
    assert step(host, item.work_id) == (
        f"Do what it says; whoever took it hands it in: submit_work with work_id {item.work_id} among its replies."
    )


def test_the_evidence_counts_the_tasks_that_were_drawn_and_not_all_that_could_be(
    place: Place, workspace: Workspace
) -> None:
    made = workspace.store.candidates.get_candidate(place.accepted(workspace))
    [row] = workspace.store.decisions.list_confirmations(1, made.base_version, made.version_id)
    found = re.search(
        r"over (\d+) pairs of attempts at (\d+) held-out tasks", review_candidate(workspace, made.id).evidence
    )
    assert found
    n_pairs, n_tasks = map(int, found.groups())
    drawn = {task_id for task_id, _ in drawn_pairs(row, workspace.store.decisions.list_pairs(row.id)[:n_pairs])}
    assert len(drawn) == n_tasks < len(row.tasks)
