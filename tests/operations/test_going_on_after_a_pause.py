"""Going on after a pause: a host gets the price of a test's next turn before anything of it is handed out."""

from __future__ import annotations

from hostwork import Clock, begun
from workshop import PLACEBO, SEED, Place

from benchmarks.host_agent import Agent
from skillopt_mcp.host_work import Capacity
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.records.results import Evaluated, Submitted
from skillopt_mcp.show.inspecting import inspect
from skillopt_mcp.submitting import submit_work
from skillopt_mcp.workspace import Workspace


def to_its_pause(host: Workspace, agent: Agent, standing: Submitted) -> Evaluated:
    while not standing.evaluated:
        for item in standing.work:
            agent.do(item.folder)
        standing = submit_work(
            host, [{"work_id": item.work_id} for item in standing.work], standing.job_id, Capacity(16)
        )
    assert standing.evaluated.verdict == "undecided"
    return standing.evaluated


def paused(place: Place, host: Workspace, agent: Agent) -> Evaluated:
    return to_its_pause(host, agent, begun(host, place.propose(host, PLACEBO)))


def test_going_on_after_a_pause_shows_the_price_and_hands_nothing_out(place: Place, host: Workspace) -> None:
    done = paused(place, host, Agent(SEED))
    assert done.next_step.action == "evaluate_candidate"
    reported = [evaluate_candidate(host, done.candidate_id) for _ in range(2)]
    assert reported[0] == reported[1]
    assert (reported[0].status, reported[0].work) == ("work", [])
    assert (reported[0].estimate.pairs_done, reported[0].estimate.pause_at) == (40, 80)
    assert reported[0].next_step.arguments == {"job_id": reported[0].job_id}
    assert not host.store.leases.unanswered_of(reported[0].job_id)

    first = submit_work(host, [], reported[0].job_id)
    assert (first.status, len(first.work)) == ("work", 4)
    again = evaluate_candidate(host, done.candidate_id)
    assert [item.work_id for item in again.work] == [item.work_id for item in first.work]


def test_a_person_who_takes_time_to_agree_leaves_no_mark_on_the_verdict(
    place: Place, host: Workspace, clock: Clock
) -> None:
    agent = Agent(SEED)
    done = paused(place, host, agent)
    reported = evaluate_candidate(host, done.candidate_id)
    clock.now += 3600
    assert evaluate_candidate(host, done.candidate_id) == reported
    verdict = to_its_pause(host, agent, submit_work(host, [], reported.job_id))
    assert verdict.pairs_done == 80
    assert "restarted" not in verdict.reason


def test_a_pause_that_an_agent_came_to_is_shown_to_whom_asks_for_more_work(place: Place, host: Workspace) -> None:
    agent = Agent(SEED)
    standing = begun(host, place.propose(host, PLACEBO))
    while standing.status == "work":
        for item in standing.work:
            agent.do(item.folder)
            submit_work(host, [{"work_id": item.work_id}], capacity=Capacity(items=0))
        standing = submit_work(host, [], standing.job_id, Capacity(16))
    assert standing.evaluated
    assert (standing.status, standing.evaluated.verdict, standing.evaluated.pairs_done) == ("done", "undecided", 40)
    assert submit_work(host, [], standing.job_id, Capacity(16)) == standing
    assert host.store.leases.unanswered_of(standing.job_id) == []

    reported = evaluate_candidate(host, standing.evaluated.candidate_id)
    assert reported.work == []
    assert len(submit_work(host, [], standing.job_id).work) == 4


def test_an_agent_is_not_given_the_price_in_place_of_who_drives_it(place: Place, host: Workspace) -> None:
    agent = Agent(SEED)
    standing = begun(host, place.propose(host, PLACEBO))
    last = standing.work[-1]
    to_its_pause(host, agent, standing)
    answer = submit_work(host, [{"work_id": last.work_id}], capacity=Capacity(items=0))
    assert [each.status for each in answer.receipts] == ["duplicate"]
    assert submit_work(host, [], standing.job_id).status == "done"


def test_a_test_that_has_not_paused_yet_is_no_lack_of_one(place: Place, host: Workspace) -> None:
    agent, standing = Agent(SEED), begun(host, place.propose(host, PLACEBO))
    while not host.store.decisions.list_pairs(standing.job_id):
        for item in standing.work:
            agent.do(item.folder)
        standing = submit_work(
            host, [{"work_id": item.work_id} for item in standing.work], standing.job_id, Capacity(8)
        )
    assert ": under test\n" in f"{inspect(host, str(place.skill)).text}\n"
