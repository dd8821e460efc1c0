"""Work that is out: who asks again gets no more, each answer names it, and that of a server that ended is free."""

from __future__ import annotations

import pytest
from hostwork import Clock, begun, begun_proposal, driven, server
from workshop import SEED, Place

from benchmarks.host_agent import Agent, items_of
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.workspace.jobs import Capacity, Wait
from skillopt_mcp.workspace.workspace import Workspace


def other_server(place: Place, clock: Clock) -> Workspace:
    return server(place, clock, place.folder / "work")


def call_of(workspace: Workspace, work_id: str) -> int:
    lease = workspace.store.leases.find(work_id)
    assert lease
    return lease.call_id


def test_a_look_at_a_test_whose_work_is_out_hands_out_the_same_work(place: Place, host: Workspace) -> None:
    candidate_id = place.propose(host)
    first = begun(host, candidate_id)
    for _ in range(2):
        again = evaluate_candidate(host.store, host.models, host.place, candidate_id, Wait(host.jobs))
        assert (again.status, items_of(again.work)) == ("work", items_of(first.work))
        assert "out already" in again.next_step.why
    assert len(host.store.leases.list_of(first.job_id)) == 4


def test_asking_again_for_a_proposal_hands_out_the_same_work_and_begins_no_other(place: Place, host: Workspace) -> None:
    first = begun_proposal(host, str(place.skill), rollouts=8)
    again = propose_from_evidence(
        host.store, host.models, host.place, str(place.skill), rollouts=4, wait=Wait(host.jobs)
    )
    assert (again.job_id, items_of(again.work)) == (first.job_id, items_of(first.work))
    assert again.rollouts == 8
    for rollouts in (0, 8):
        standing = propose_from_evidence(
            host.store, host.models, host.place, str(place.skill), rollouts=rollouts, wait=Wait(host.jobs)
        )
        assert items_of(standing.work) == items_of(again.work)


def test_what_a_server_that_has_ended_handed_out_is_handed_out_again_at_once(
    place: Place, host: Workspace, clock: Clock
) -> None:
    job = begun(host, place.propose(host)).job_id
    host.close()
    other = other_server(place, clock)
    done = driven(other, Agent(SEED), submit_work(other.store, other.models, other.place, [], job, Wait(other.jobs)))
    assert done.evaluated
    assert done.evaluated.test
    assert (done.evaluated.accepted, done.evaluated.test.lost.asked_again) == (True, 4)


def test_an_answer_to_what_a_server_that_has_ended_handed_out_counts_while_no_other_answered(
    place: Place, host: Workspace, clock: Clock
) -> None:
    standing = begun(host, place.propose(host))
    host.close()
    other = other_server(place, clock)
    calls = {item.work_id: call_of(other, item.work_id) for item in items_of(standing.work)}
    again = []
    while work := items_of(
        submit_work(
            other.store, other.models, other.place, [], standing.job_id, Wait(other.jobs, capacity=Capacity(items=16))
        ).work
    ):
        again += work
    first, *_ = items_of(standing.work)
    [twin] = [item.work_id for item in again if call_of(other, item.work_id) == calls[first.work_id]]
    replies = [{"work_id": each, "reply": "1.00"} for each in (first.work_id, twin)]
    receipts = submit_work(
        other.store, other.models, other.place, replies, wait=Wait(other.jobs, capacity=Capacity(items=0))
    ).receipts
    assert [receipt.status for receipt in receipts] == ["accepted", "late"]


def test_what_a_server_that_still_runs_handed_out_is_waited_for(place: Place, host: Workspace, clock: Clock) -> None:
    job = begun(host, place.propose(host)).job_id
    out = {lease.call_id for lease in host.store.leases.list_out(job)}
    other, taken = other_server(place, clock), set[int]()
    while work := items_of(submit_work(other.store, other.models, other.place, [], job, Wait(other.jobs)).work):
        taken |= {call_of(other, item.work_id) for item in work}
    assert taken
    assert not out & taken


def test_a_session_whose_server_was_started_again_has_its_work_still(
    place: Place, host: Workspace, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillopt_mcp.workspace.place.Place.session", "of-the-host")
    candidate_id = place.propose(host)
    first = begun(host, candidate_id)
    host.close()
    restarted = other_server(place, clock)
    assert items_of(
        evaluate_candidate(restarted.store, restarted.models, restarted.place, candidate_id, Wait(restarted.jobs)).work
    ) == items_of(first.work)
    assert not {item.work_id for item in items_of(first.work)} & {
        item.work_id
        for item in items_of(
            submit_work(
                restarted.store,
                restarted.models,
                restarted.place,
                [],
                first.job_id,
                Wait(restarted.jobs, capacity=Capacity(items=4)),
            ).work
        )
    }
    assert len(restarted.store.leases.list_out(first.job_id)) == 8
