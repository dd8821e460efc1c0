"""Collecting: answers that lie finished in the folders of work are taken when the session asks for more."""

import threading
import time
from pathlib import Path

from hostwork import Clock, begun, server
from workshop import SEED, Place

from benchmarks.host_agent import Agent, items_of
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.core.results import Submitted
from skillopt_mcp.workspace.jobs import Capacity, Wait
from skillopt_mcp.workspace.workspace import Workspace


def asked_for_more(host: Workspace, job: str, items: int = 24) -> Submitted:
    wait = Wait(host.jobs, capacity=Capacity(items=items))
    return submit_work(host.store, host.models, host.place, [], job, wait)


def test_a_job_ends_by_its_folders_alone_in_waves_of_one_dir_and_a_count(place: Place, host: Workspace) -> None:
    agent, offer = (
        Agent(SEED),
        evaluate_candidate(host.store, host.models, host.place, place.propose(host), Wait(host.jobs)),
    )
    standing, n_calls, n_done, host_done = asked_for_more(host, offer.job_id), 1, 0, 0
    while standing.status == "work":
        assert standing.work
        assert sorted(path.name for path in Path(standing.work.dir).iterdir()) == sorted(
            str(n) for n in range(1, standing.work.count + 1)
        )
        for item in items_of(standing.work):
            agent.do(item.folder)
        n_calls, n_done = n_calls + 1, n_done + standing.work.count
        standing = asked_for_more(host, offer.job_id)
        assert (standing.receipts, standing.collected) == ([], n_done - host_done)
        host_done = n_done
    assert standing.evaluated
    assert standing.evaluated.accepted is True
    assert n_calls <= n_done / 6


def test_an_answer_that_is_still_being_written_is_left(place: Place, host: Workspace) -> None:
    standing = begun(host, place.propose(host))
    item, *_ = items_of(standing.work)
    answer = Path(item.folder, "answer.md")
    answer.write_text("half of")

    def write_on() -> None:
        time.sleep(0.2)
        answer.write_text("half of it, and the rest")

    writing = threading.Thread(target=write_on)
    writing.start()
    assert asked_for_more(host, standing.job_id, 0).collected == 0
    writing.join()
    assert asked_for_more(host, standing.job_id, 0).collected == 1
    assert not answer.exists()


def test_a_question_with_a_broken_answer_is_named_and_handed_to_another_agent(place: Place, host: Workspace) -> None:
    for n in range(3):
        failed = Recording(task=f"{n}: book it", answer="1", hard=False, reason="wrong")
        record_trajectory(host.store, host.place, str(place.skill), failed)
    offer = propose_from_evidence(host.store, host.models, host.place, str(place.skill), wait=Wait(host.jobs))
    first = asked_for_more(host, offer.job_id)
    [item] = items_of(first.work)
    Path(item.folder, "answer.md").write_text("no JSON")
    again = asked_for_more(host, offer.job_id)
    assert [(each.status, each.work_id) for each in again.receipts] == [("refused", item.work_id)]
    [other] = items_of(again.work)
    assert other.folder != item.folder


def test_what_lies_in_the_folders_of_a_server_that_has_ended_is_taken_and_not_done_again(
    place: Place, host: Workspace, clock: Clock
) -> None:
    candidate_id = place.propose(host)
    standing = begun(host, candidate_id)
    for item in items_of(standing.work):
        Agent(SEED).do(item.folder)
    host.close()
    other = server(place, clock, place.folder / "work")
    look = evaluate_candidate(other.store, other.models, other.place, candidate_id, Wait(other.jobs))
    assert (look.work, look.next_step.action) == (None, "submit_work")
    assert asked_for_more(other, standing.job_id).collected == 4
    calls = [lease.call_id for lease in other.store.leases.list_of(standing.job_id)]
    assert len(calls) == len(set(calls))


def test_an_agent_reads_one_file_writes_one_and_calls_no_tool(place: Place, host: Workspace) -> None:
    for item in items_of(begun(host, place.propose(host)).work):
        order = Path(item.folder, "WORK.md").read_text()
        assert "submit_work" not in order
        assert "tool_calls" not in order
        assert order.count("`answer.md`") == 2


def test_a_proposal_reads_its_successes_by_one_analyst(place: Place, host: Workspace) -> None:
    for n in range(30):
        did_well = Recording(task=f"{n}: book it", answer="1", hard=n > 2, reason="so")
        record_trajectory(host.store, host.place, str(place.skill), did_well)
    offer = propose_from_evidence(host.store, host.models, host.place, str(place.skill), wait=Wait(host.jobs))
    orders = list[str]()
    standing = asked_for_more(host, offer.job_id)
    orders += [Path(item.folder, "WORK.md").read_text() for item in items_of(standing.work)]
    assert sum("(succeeded" in order for order in orders) == 1
    assert sum("(failed" in order for order in orders) == 1
