from __future__ import annotations

import pytest
from hostwork import begun
from workshop import PLACEBO, SEED, Place

from benchmarks.host_agent import Agent
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.core.errors import NotFound
from skillopt_mcp.reports.inspecting import inspect, promotion_test
from skillopt_mcp.workspace.workspace import Workspace


def test_a_decided_test_shows_a_person_what_its_verdict_rests_on(place: Place, workspace: Workspace) -> None:
    candidate = place.propose(workspace)
    found = evaluate_candidate(workspace, candidate).test
    assert found
    test = promotion_test(workspace, found.test_id)
    assert (test.report, test.candidate_id, test.evidence) == (found, candidate, "simulated")
    assert len(test.units) == found.units.seen
    assert [each.outcome for each in test.units].count("better") == found.units.better
    shown = inspect(workspace, found.test_id)
    assert (shown.kind, shown.test) == ("test", test)
    assert found.test_id in inspect(workspace, candidate).text
    assert "BETTER" in shown.text
    prompts = {task.name: task.prompt for task in workspace.store.tasks.list_tasks(1)}
    assert all(prompts[unit.task].startswith(unit.prompt) and unit.prompt for unit in test.units)
    assert shown.next_step
    assert shown.next_step.command == f"skillopt-mcp promote {candidate} --simulated"


def test_an_agent_sees_of_a_test_whether_it_accepted_and_no_figure(place: Place, workspace: Workspace) -> None:
    candidates = [place.propose(workspace), place.propose(workspace, PLACEBO)]
    reports = [evaluate_candidate(workspace, each).test for each in candidates]
    workspace.caller = "agent"
    held = [task for task in workspace.store.tasks.list_tasks(1) if task.split == "test"]
    for candidate, report, word in zip(candidates, reports, ("accepted", "not accepted"), strict=True):
        assert report
        shown = inspect(workspace, candidate)
        assert shown.candidate
        assert shown.candidate.verdict == word
        assert inspect(workspace, report.test_id).test is None
        text = f"{shown.model_dump_json()} {inspect(workspace, report.test_id).model_dump_json()}"
        assert not [task.name for task in held if task.name in text]
        assert not [each for each in ("BETTER", "NO GAIN", "not_better", "error rate") if each in text]


def test_a_test_that_a_host_works_on_shows_how_far_it_is(place: Place, host: Workspace) -> None:
    agent, standing = Agent(SEED), begun(host, place.propose(host))
    id, n_seen = standing.job_id, list[int]()
    while standing.status == "work":
        report = promotion_test(host, id).report
        assert report.verdict is None
        n_seen.append(report.runs.base + report.runs.candidate)
        for item in standing.work:
            agent.do(item.folder)
        standing = submit_work(host, [{"work_id": item.work_id} for item in standing.work])
    assert n_seen == sorted(n_seen)
    assert n_seen[-1] > 0
    assert standing.evaluated
    assert promotion_test(host, id).report == standing.evaluated.test


@pytest.mark.parametrize("id", ["t-000000000000", "t-00000000000g", "t-0"])
def test_a_test_that_is_not_there_is_not_found(workspace: Workspace, id: str) -> None:
    with pytest.raises(NotFound, match=f'"{id}"'):
        inspect(workspace, id)
