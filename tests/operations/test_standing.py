"""Standing: whatever is inspected says where it stands, and what to do with it now."""

from __future__ import annotations

import re

from workshop import PLACEBO, Place

from skillopt_mcp.promotions.consent import Consent
from skillopt_mcp.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.promotions.review import review_candidate
from skillopt_mcp.show.inspecting import inspect
from skillopt_mcp.training.confirmation import drawn_pairs
from skillopt_mcp.workspace import Workspace


def reported(workspace: Workspace) -> list[str]:
    """Return what a skill says of its candidates, the oldest first."""
    lines = inspect(workspace, "ledger-clerk").text.splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("candidate ")]


def test_a_skill_shows_which_of_its_candidates_still_can_be_promoted(place: Place, workspace: Workspace) -> None:
    first = place.accepted(workspace)
    place.propose(workspace, PLACEBO)
    assert reported(workspace) == ["accept", "not evaluated"]
    promote_skill(workspace, first, Consent.PERSON_SIMULATED)
    stale = "stale: the file has changed since"
    assert reported(workspace) == ["accept, live", f"not evaluated, {stale}"]
    rollback_skill(workspace, "ledger-clerk", None, Consent.PERSON)
    assert reported(workspace) == ["accept, rolled back", "not evaluated"]
    place.main.write_text("# Mine\n")
    assert reported(workspace) == ["accept, rolled back", f"not evaluated, {stale}"]


def test_a_candidate_that_another_followed_is_live_no_more(place: Place, workspace: Workspace) -> None:
    promote_skill(workspace, place.accepted(workspace), Consent.PERSON_SIMULATED)
    place.main.write_text("# Mine\n")
    assert reported(workspace) == ["accept, live before"]


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
