"""Claims: a promotion test on tasks like these, asked for at its opening, by evaluate or by a run."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from workshop import LESSONS, SIMULATION, Place, right_when_taught, use

from skillopt_mcp import evaluate
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.errors import Refused
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.promotion_tests import evaluate_candidate, most_pairs, run_prospect
from skillopt_mcp.records.calls import Rollout
from skillopt_mcp.records.evidence import Claim
from skillopt_mcp.runs import replay, start_run
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace import Workspace

LIKE_THESE = ConfirmRule(claim="like_these")


def test_a_claim_on_tasks_like_these_draws_each_test_task_once_and_says_so(place: Place, workspace: Workspace) -> None:
    target = Scripted(right_when_taught)
    use(workspace, target)
    candidate = place.propose(workspace)
    assert most_pairs(workspace, candidate, LIKE_THESE) == 30
    result = evaluate_candidate(workspace, candidate, rule=LIKE_THESE)
    said = "on tasks like these, if the 30 test tasks are a fair sample of them (each is drawn once)"
    assert (result.verdict, result.claim) == ("accept", said)
    assert result.reason.startswith("better on tasks like these: evidence")
    drawn = Counter(call.request.task.id for call in target.calls if isinstance(call.request, Rollout))
    assert set(drawn.values()) == {2}
    assert evaluate_candidate(workspace, candidate).claim == said


def test_a_claim_is_chosen_before_the_evidence_and_stays(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(right_when_taught))
    candidate = place.propose(workspace)
    evaluate_candidate(workspace, candidate)
    with pytest.raises(Refused, match=r"begun for another claim \(better, on these 30 held-out tasks\)"):
        evaluate_candidate(workspace, candidate, rule=LIKE_THESE)


def test_a_program_that_names_no_claim_goes_on_with_the_one_that_a_test_was_begun_for(
    place: Place, workspace: Workspace
) -> None:
    candidate = place.propose(workspace)

    def asked(claim: Claim | None = None) -> str:
        return evaluate(candidate, target=SIMULATION, claim=claim, store=place.store_path).claim

    begun = asked("like_these")
    assert begun.startswith("on tasks like these")
    assert (asked(), asked("like_these")) == (begun, begun)
    with pytest.raises(Refused, match="begun for another claim"):
        asked("these")


def test_worn_test_tasks_leave_too_few_for_another_such_claim(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(lambda call: "no"))
    evaluate_candidate(workspace, place.propose(workspace, "- One."), rule=replace(LIKE_THESE, max_pairs=28))
    other = place.propose(workspace, "- Two.")
    with pytest.raises(Refused, match=r"there are 2, and a candidate that wins every pair takes .* add \d+ or more"):
        evaluate_candidate(workspace, other, rule=LIKE_THESE)
    with pytest.raises(Refused, match="draws each test task once"):
        start_run(workspace, "ledger-clerk", Config(claim="like_these"))
    assert evaluate_candidate(workspace, other, rule=ConfirmRule(max_pairs=8)).verdict == "undecided"


def test_a_run_whose_fresh_tasks_another_test_has_drawn_meanwhile_ends_without_a_test(
    place: Place, workspace: Workspace
) -> None:
    run = start_run(workspace, "ledger-clerk", Config(epochs=2, batch=10, claim="like_these"))
    evaluate_candidate(workspace, place.propose(workspace, "- One."), rule=ConfirmRule(beta=1e-9, max_pairs=150))
    result = replay(workspace, run)
    assert (result.status, result.verdict) == ("finished", None)
    assert "draws each test task once" in result.reason


def test_a_run_makes_no_other_claim_than_its_candidates_test_was_begun_for(place: Place, workspace: Workspace) -> None:
    edit = {"op": "append", "content": LESSONS}
    learned = json.dumps({"reasoning": "It fails without them.", "edits": [edit]})
    use(workspace, Scripted(right_when_taught))
    use(workspace, Scripted(lambda _: learned, name="teacher"), "optimizer")
    config = Config(epochs=1, batch=30, minibatch=30, max_pairs=2)
    begun = replay(workspace, start_run(workspace, "ledger-clerk", config))
    assert (begun.verdict, begun.n_pairs) == ("undecided", 2)

    other = config.model_copy(update={"claim": "like_these", "max_pairs": 200})
    result = replay(workspace, start_run(workspace, "ledger-clerk", other))

    assert (result.candidate_id, result.verdict, result.n_pairs) == (begun.candidate_id, None, 0)
    assert "was begun for another claim (better, on these 30 held-out tasks)" in result.reason
    assert result.next_step.action == "inspect"

    made = str(begun.candidate_id)
    assert evaluate_candidate(workspace, made, rule=ConfirmRule(max_pairs=100)).verdict == "accept"
    again = replay(workspace, start_run(workspace, "ledger-clerk", other))
    assert again.verdict is None
    assert again.next_step.as_command() == f"skillopt-mcp promote {made}"


def test_what_a_runs_test_can_show_is_about_the_tasks_that_it_may_draw(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(lambda call: "no"))
    config = Config(claim="like_these")
    assert run_prospect(workspace, "ledger-clerk", config) == ""
    evaluate_candidate(workspace, place.propose(workspace, "- One."), rule=replace(LIKE_THESE, max_pairs=26))
    assert run_prospect(workspace, "ledger-clerk", config).endswith("and max_pairs is 4")
    assert run_prospect(workspace, "ledger-clerk", Config()) == ""
