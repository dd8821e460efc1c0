from __future__ import annotations

import pytest
from hostwork import begun
from workshop import PLACEBO, SEED, Place

from benchmarks.host_agent import Agent
from skillopt_mcp.errors import NotFound
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.show.details import PromotionTest
from skillopt_mcp.show.inspecting import inspect, promotion_test
from skillopt_mcp.submitting import submit_work
from skillopt_mcp.workspace import Workspace


def named(workspace: Workspace, candidate_id: str) -> str:
    """Return the id of a candidate's promotion test, as the candidate shows it."""
    [line] = [line for line in inspect(workspace, candidate_id).text.splitlines() if line.startswith("promotion test ")]
    return line.split()[2].rstrip(":")


def test_a_decided_test_shows_what_its_verdict_rests_on(place: Place, workspace: Workspace) -> None:
    candidate = place.propose(workspace)
    verdict = evaluate_candidate(workspace, candidate)
    id = named(workspace, candidate)
    assert promotion_test(workspace, id) == PromotionTest(
        id=id, skill="ledger-clerk", candidate_id=candidate, base=verdict.base, candidate=verdict.candidate,
        test_number=1,
        alpha=verdict.alpha, pairs_done=verdict.pairs_done, pairs_missing=0, verdict="accept",
        reason=verdict.reason.partition(". This is a SIMULATION")[0], claim=f"better {verdict.claim}",
        backend=verdict.backend, simulated=True,
    )  # fmt: skip
    shown = inspect(workspace, id)
    assert shown.kind == "test"
    for line in (
        f"promotion test {id} of skill 'ledger-clerk', candidate {candidate}",
        f"base {verdict.base.version} -> version {verdict.candidate.version}",
        f"test 1 in the skill's life, at an error rate (alpha) of {verdict.alpha:g}",
        f"pairs so far: {verdict.pairs_done}; base {verdict.base.mean:.4g}, candidate {verdict.candidate.mean:.4g}",
    ):
        assert line in shown.text.splitlines()
    assert f"\nverdict: accept: {promotion_test(workspace, id).reason}\n" in shown.text
    assert f"answered by: {verdict.backend} (a SIMULATION" in shown.text
    assert shown.next_step.command == f"skillopt-mcp promote {candidate} --simulated"


def test_the_second_test_of_a_skill_is_its_second_and_stricter(place: Place, workspace: Workspace) -> None:
    first, second = (place.propose(workspace, f"{PLACEBO}{mark}") for mark in ("", "!"))
    for candidate in (first, second):
        evaluate_candidate(workspace, candidate, rule=ConfirmRule())
    tests = [promotion_test(workspace, named(workspace, candidate)) for candidate in (first, second)]
    assert [(test.candidate_id, test.test_number, test.verdict, test.pairs_done) for test in tests] == [
        (first, 1, "undecided", 2), (second, 2, "undecided", 2),
    ]  # fmt: skip
    assert tests[1].alpha < tests[0].alpha
    step = inspect(workspace, tests[1].id).next_step
    assert (step.action, step.arguments) == ("evaluate_candidate", {"candidate_id": second})


def test_a_test_that_a_host_works_on_shows_how_far_it_is_and_no_mean(place: Place, host: Workspace) -> None:
    agent, standing = Agent(SEED), begun(host, place.propose(host))
    id, n_shown = standing.job_id, 0
    while standing.status == "work":
        test = promotion_test(host, id)
        assert (test.verdict, test.base.mean, test.candidate.mean) == (None, None, None)
        assert "; base no mean yet, candidate no mean yet\n" in inspect(host, id).text
        n_shown += test.pairs_done > 0
        for item in standing.work:
            agent.do(item.folder)
        standing = submit_work(host, [{"work_id": item.work_id} for item in standing.work])
    assert n_shown
    assert standing.evaluated
    test = promotion_test(host, id)
    assert (test.verdict, test.base, test.candidate) == (
        standing.evaluated.verdict, standing.evaluated.base, standing.evaluated.candidate,
    )  # fmt: skip


@pytest.mark.parametrize("id", ["t-000000000000", "t-00000000000g", "t-0"])
def test_a_test_that_is_not_there_is_not_found(workspace: Workspace, id: str) -> None:
    with pytest.raises(NotFound, match=f'"{id}"'):
        inspect(workspace, id)
