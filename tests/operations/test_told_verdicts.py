"""Told verdicts: a benchmark that meets a wrong verdict says what it was, why, and what was begun anew."""

from __future__ import annotations

from workshop import PLACEBO, Place

from benchmarks.host_kills import Wrong, wrong_verdict
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace


def test_a_wrong_verdict_is_told_with_its_reason_and_what_was_begun_anew(place: Place, workspace: Workspace) -> None:
    candidate = place.propose(workspace, PLACEBO)
    found = evaluate_candidate(workspace, candidate, rule=ConfirmRule(max_pairs=4))
    wrong = wrong_verdict(workspace.store_path, candidate, 3, "undecided")
    [row] = workspace.store.decisions.list_tests(1)
    decision = workspace.store.decisions.latest_in(row.id)
    assert decision
    assert wrong == Wrong(3, "undecided", decision.reason, 0, 0)
    assert found.verdict == "undecided"
    assert str(wrong) == (
        f"wrong: seed 3: undecided: {decision.reason}; 0 attempts of the candidate and 0 of the live version were "
        "begun anew"
    )
