from __future__ import annotations

from hostwork import begun
from workshop import SEED, Place

from benchmarks.host_agent import Agent, items_of
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.reports.inspecting import gather_test
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace


def test_a_decided_test_shows_a_person_what_its_verdict_rests_on(place: Place, workspace: Workspace) -> None:
    candidate = place.propose(workspace)
    found = evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate).test
    assert found
    test = gather_test(workspace.store, workspace.store.tests.find(found.test_id))
    assert (test.report, test.candidate_id, test.evidence) == (found, candidate, "simulated")
    assert len(test.units) == found.units.seen
    assert [each.outcome for each in test.units].count("better") == found.units.better
    shown = inspect(workspace.store, workspace.place, found.test_id)
    assert (shown.kind, shown.test) == ("test", test)
    assert found.test_id in inspect(workspace.store, workspace.place, candidate).text
    assert "BETTER" in shown.text
    prompts = {task.name: task.prompt for task in workspace.store.tasks.list_tasks(1)}
    assert all(prompts[unit.task].startswith(unit.prompt) and unit.prompt for unit in test.units)
    assert shown.next_step
    assert shown.next_step.command == f"skillopt-mcp promote {candidate} --simulated"


def test_a_test_that_a_host_works_on_shows_how_far_it_is(place: Place, host: Workspace) -> None:
    agent, standing = Agent(SEED), begun(host, place.propose(host))
    id, n_seen = standing.job_id, list[int]()
    while standing.status == "work":
        report = gather_test(host.store, host.store.tests.find(id)).report
        assert report.verdict is None
        n_seen.append(report.runs.base + report.runs.candidate)
        for item in items_of(standing.work):
            agent.do(item.folder)
        standing = submit_work(
            host.store,
            host.models,
            host.place,
            [{"work_id": item.work_id} for item in items_of(standing.work)],
            wait=Wait(host.jobs),
        )
    assert n_seen == sorted(n_seen)
    assert n_seen[-1] > 0
    assert standing.evaluated
    assert gather_test(host.store, host.store.tests.find(id)).report == standing.evaluated.test
