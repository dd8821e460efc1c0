"""Work that is out: who asks again gets no more, each answer names it, and that of a server that ended is free."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostwork import Clock, begun, begun_proposal, driven, server
from workshop import PLACEBO, SEED, Place

from benchmarks.host_agent import Agent
from skillopt_mcp.operations.host_work.handing_out import Room
from skillopt_mcp.operations.leasing import told_leases
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.results import Proposed
from skillopt_mcp.operations.runs.reflecting import propose_from_evidence
from skillopt_mcp.operations.runs.submitting import HANDED_IN, submit_work
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace

ALREADY = "This session has this work out already; asking again gives no more: do this where nobody is at it. "

APPENDED = {"op": "append", "content": "- Add VAT."}


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
        again = evaluate_candidate(host, candidate_id)
        assert (again.status, again.work) == ("work", first.work)
        assert again.next_step.startswith(f"{ALREADY}For each of these 4 items start a fresh agent")
    assert len(host.store.leases.list_of(first.job_id)) == 4


def test_asking_again_for_a_proposal_hands_out_the_same_work_and_begins_no_other(place: Place, host: Workspace) -> None:
    first = begun_proposal(host, str(place.skill), rollouts=8)
    again = propose_from_evidence(host, str(place.skill), rollouts=4)
    assert (again.job_id, again.work) == (first.job_id, first.work)
    assert again.next_step.startswith(f"This proposal was under way, with 8 rollouts: 4 were not begun. {ALREADY}")
    for rollouts in (0, 8):
        told = propose_from_evidence(host, str(place.skill), rollouts=rollouts)
        assert told.next_step.startswith(ALREADY)


def test_what_is_overdue_is_handed_out_anew_to_whoever_asks_again(
    place: Place, host: Workspace, clock: Clock, proposal: Proposed
) -> None:
    clock.now += 901
    again = propose_from_evidence(host, str(place.skill))
    assert len(again.work) == 1
    assert again.work != proposal.work
    assert not again.next_step.startswith(ALREADY)


def test_every_answer_with_work_names_what_its_session_has_out_besides(place: Place, host: Workspace) -> None:
    first = begun(host, place.propose(host))
    assert "has out besides" not in first.next_step
    more = submit_work(host, [], first.job_id, Room(items=2))
    ids = ", ".join(item.work_id for item in first.work)
    assert more.next_step.endswith(f" This session has out besides: {ids}.")
    for item in first.work:
        submit_work(host, [{"work_id": item.work_id, "reply": "1.00"}], room=Room(items=0))
    last = submit_work(host, [], first.job_id, Room(items=9))
    assert last.next_step.endswith(f"besides: {', '.join(item.work_id for item in more.work)}.")
    job, told = begun(host, place.propose(host, PLACEBO)).job_id, ""
    while (one := submit_work(host, [], job, Room(items=16, chars=1))).work:
        told = one.next_step
    assert told.endswith(" and 3 more.")


def test_what_a_server_that_has_ended_handed_out_is_handed_out_again_at_once(
    place: Place, host: Workspace, clock: Clock
) -> None:
    job = begun(host, place.propose(host)).job_id
    while submit_work(host, [], job, Room(items=4)).work:
        pass
    host.close()
    other = other_server(place, clock)
    done = driven(other, Agent(SEED), submit_work(other, [], job))
    assert done.evaluated
    assert done.evaluated.verdict == "accept"


def test_an_answer_to_what_a_server_that_has_ended_handed_out_counts_while_nobody_else_answered(
    place: Place, host: Workspace, clock: Clock
) -> None:
    standing = begun(host, place.propose(host))
    host.close()
    other = other_server(place, clock)
    calls = {item.work_id: call_of(other, item.work_id) for item in standing.work}
    again = []
    while work := submit_work(other, [], standing.job_id, Room(items=16)).work:
        again += work
    first, *_ = standing.work
    [twin] = [item.work_id for item in again if call_of(other, item.work_id) == calls[first.work_id]]
    replies = [{"work_id": each, "reply": "1.00"} for each in (first.work_id, twin)]
    receipts = submit_work(other, replies, room=Room(items=0)).receipts
    assert [receipt.status for receipt in receipts] == ["accepted", "late"]


def test_what_a_server_that_still_runs_handed_out_is_waited_for(place: Place, host: Workspace, clock: Clock) -> None:
    job = begun(host, place.propose(host)).job_id
    out = {lease.call_id for lease in host.store.leases.unanswered_of(job)}
    other, taken = other_server(place, clock), set[int]()
    while work := submit_work(other, [], job).work:
        taken |= {call_of(other, item.work_id) for item in work}
    assert taken
    assert not out & taken


def test_a_session_whose_server_was_started_again_has_its_work_still(
    place: Place, host: Workspace, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workspace, "session", "of-the-host")
    candidate_id = place.propose(host)
    first = begun(host, candidate_id)
    host.close()
    restarted = other_server(place, clock)
    assert evaluate_candidate(restarted, candidate_id).work == first.work
    assert not {item.work_id for item in first.work} & {
        item.work_id for item in submit_work(restarted, [], first.job_id).work
    }
    assert len(restarted.store.leases.unanswered_of(first.job_id)) == 8


def test_one_lease_ends_at_one_time_wherever_it_is_told(host: Workspace, clock: Clock, proposal: Proposed) -> None:
    clock.now += 920.5
    assert submit_work(host, [], proposal.job_id).work
    ends = "2027-01-15 08:31 UTC"
    assert f" before {ends} " in submit_work(host, [], proposal.job_id).next_step
    assert f" until {ends}," in told_leases(host, proposal.job_id)
    assert f", until {ends}\n" in inspect(host, proposal.job_id).text


def test_work_folders_stay_where_the_same_work_is_handed_out_again(place: Place, host: Workspace) -> None:
    candidate_id = place.propose(host)
    begun(host, candidate_id)
    assert all(Path(item.folder, "WORK.md").exists() for item in evaluate_candidate(host, candidate_id).work)


def test_the_agent_that_hands_in_the_last_piece_is_not_told_what_it_came_to(
    host: Workspace, proposal: Proposed
) -> None:
    [item] = proposal.work
    reply = {"reasoning": "r", "edits": [{**APPENDED, "target": None, "path": "SKILL.md", "evidence": [1]}]}
    handed_in = submit_work(host, [{"work_id": item.work_id, "reply": reply}], room=Room(items=0))
    assert (handed_in.status, handed_in.proposed, handed_in.next_step) == ("done", None, HANDED_IN)
    told = submit_work(host, [], proposal.job_id, Room(items=0))
    assert told.proposed
    assert told.proposed.candidate_id
    assert told.next_step == told.proposed.next_step != HANDED_IN


@pytest.mark.parametrize("reply", [5, 1.5, True, ["12"]])
def test_a_reply_is_a_text_or_an_object_as_an_answer_is(place: Place, host: Workspace, reply: object) -> None:
    first, *_ = begun(host, place.propose(host)).work
    [receipt] = submit_work(host, [{"work_id": first.work_id, "reply": reply}], room=Room(items=0)).receipts
    assert receipt.status == "refused"
    assert receipt.reason == "the reply is neither a text nor a JSON object: give it as a text"
