"""Leases of a host's work: what ran out has no say over what is in time, and what is handed out again is charged."""

from __future__ import annotations

import json

from hostwork import Clock, begun, begun_proposal
from workshop import Place

from benchmarks.host_agent import items_of
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.results import Proposed, Receipt
from skillopt_mcp.store.leases import Lease
from skillopt_mcp.workspace.jobs import Capacity, Wait
from skillopt_mcp.workspace.workspace import Workspace

HANDS_IN = Capacity(items=0)
NO_EDITS = json.dumps({"reasoning": "all is well", "edits": []})


def handed_in(host: Workspace, *work_ids: str, **fields: object) -> list[Receipt]:
    return submit_work(
        host.store,
        host.models,
        host.place,
        [{"work_id": each, **fields} for each in work_ids],
        wait=Wait(host.jobs, capacity=HANDS_IN),
    ).receipts


def n_missing(host: Workspace, job: str) -> int:
    return sum(row.n_missing for row in host.store.ledger.list_rows(job))


def overtaken(place: Place, host: Workspace, clock: Clock) -> tuple[str, Lease, Lease]:
    """Return a job, and two leases of one of its calls: one that has run out, and one that is out in time."""
    standing = begun(host, place.propose(host))
    clock.now += 901
    while items_of(
        submit_work(
            host.store, host.models, host.place, [], standing.job_id, Wait(host.jobs, capacity=Capacity(items=16))
        ).work
    ):
        pass
    leases = host.store.leases.list_of(standing.job_id)
    first = leases[0]
    [second] = [lease for lease in leases if lease.call_id == first.call_id and lease.id != first.id]
    return standing.job_id, first, second


def test_a_late_failure_takes_nothing_from_the_session_that_has_the_work_in_time(
    place: Place, host: Workspace, clock: Clock
) -> None:
    job, late, in_time = overtaken(place, host, clock)
    [receipt] = handed_in(host, late.id, failed="cut off")
    assert (receipt.status, n_missing(host, job)) == ("accepted", 0)
    assert handed_in(host, late.id, failed="cut off")[0].status == "duplicate"
    assert handed_in(host, in_time.id, reply="1.00") == [Receipt(work_id=in_time.id, status="accepted", reason="")]
    assert n_missing(host, job) == 0


def test_work_is_missing_once_the_session_that_has_it_gives_up_too(place: Place, host: Workspace, clock: Clock) -> None:
    job, late, in_time = overtaken(place, host, clock)
    handed_in(host, late.id, failed="cut off")
    assert handed_in(host, in_time.id, failed="no tool")[0].reason == "it is missing now"
    assert n_missing(host, job) == 1


def test_a_late_failure_of_what_no_session_has_in_time_makes_it_missing(
    place: Place, host: Workspace, clock: Clock
) -> None:
    job, late, in_time = overtaken(place, host, clock)
    clock.now += 901
    assert handed_in(host, in_time.id, failed="no tool")[0].reason == "it is missing now"
    [receipt] = handed_in(host, late.id, failed="cut off")
    assert receipt.status == "late"
    assert n_missing(host, job) == 1


def test_a_reply_that_came_first_stays_and_later_ones_see_who_was_first(
    place: Place, host: Workspace, clock: Clock
) -> None:
    _, late, in_time = overtaken(place, host, clock)
    handed_in(host, in_time.id, reply="1.00")
    [receipt] = handed_in(host, late.id, reply="2.00")
    assert receipt.status == "late"
    [receipt] = handed_in(host, in_time.id, reply="2.00")
    assert receipt.status == "duplicate"


def test_work_that_is_handed_out_again_is_charged_and_held_by_the_cap_on_calls(
    place: Place, host: Workspace, clock: Clock
) -> None:
    host.models.caps = Caps(calls=10)
    standing, n_handed_out = begun(host, place.propose(host)), 0
    job, first = standing.job_id, items_of(standing.work)[0].work_id
    for _ in range(10):
        n_handed_out += len(items_of(standing.work))
        clock.now += 901
        standing = submit_work(host.store, host.models, host.place, [], job, Wait(host.jobs))
    assert (standing.status, n_handed_out) == ("stopped", 10)
    assert standing.reason.startswith("the cap of 10 calls (--max-calls) is reached, with 10 calls, 0 tokens")
    assert host.store.budgets.get_spent(job).calls == len(host.store.leases.list_of(job)) == 10
    assert handed_in(host, first, reply="1.00")[0].status == "accepted"
    host.models.caps = Caps(calls=12)
    assert (
        sum(
            len(
                items_of(
                    submit_work(
                        host.store, host.models, host.place, [], job, Wait(host.jobs, capacity=Capacity(items=4))
                    ).work
                )
            )
            for _ in range(3)
        )
        == 2
    )


def test_at_the_cap_work_not_handed_out_yet_is_still_handed_out(place: Place, host: Workspace, clock: Clock) -> None:
    job, one = begun(host, place.propose(host)).job_id, Capacity(items=8, chars=1)
    submit_work(host.store, host.models, host.place, [], job, Wait(host.jobs, capacity=one))
    n_leased, n_asked = len(host.store.leases.list_of(job)), host.store.budgets.get_spent(job).calls
    host.models.caps = Caps(calls=n_asked)
    clock.now += 901
    for _ in range(n_asked):
        standing = submit_work(host.store, host.models, host.place, [], job, Wait(host.jobs, capacity=one))
    call_ids = [lease.call_id for lease in host.store.leases.list_of(job)]
    assert n_leased < len(set(call_ids)) == len(call_ids) == n_asked
    assert standing.status == "stopped"


def test_one_unusable_reply_that_is_submitted_again_is_one_try(host: Workspace, proposal: Proposed) -> None:
    [item] = items_of(proposal.work)
    for _ in range(4):
        assert {each.status for each in handed_in(host, *[item.work_id] * 3, reply="no json")} == {"refused"}
    assert handed_in(host, item.work_id, reply="none either")[0].status == "refused"
    [receipt] = handed_in(host, item.work_id, reply="nor here")
    assert receipt.reason.startswith("it is missing now, after 3 replies that could not be used")


def test_attempts_whose_analysts_answers_were_lost_are_new_again(
    place: Place, host: Workspace, proposal: Proposed
) -> None:
    skill = str(place.skill)
    tracked = host.place.skill(skill)
    assert host.store.trajectories.count_trajectories(tracked.id)[1] == 0
    for n in range(3):
        [item] = items_of(proposal.work)
        for k in range(3):
            last = submit_work(
                host.store,
                host.models,
                host.place,
                [{"work_id": item.work_id, "reply": f"no json {k}"}],
                wait=Wait(host.jobs),
            )
        assert last.proposed
        assert (last.proposed.status, last.proposed.next_step.action) == ("no_change", "propose_edits")
        assert host.store.trajectories.count_trajectories(tracked.id)[1] == 6
        proposal = begun_proposal(host, skill)
        assert len(items_of(proposal.work)) == 1, n
    done = submit_work(
        host.store,
        host.models,
        host.place,
        [{"work_id": items_of(proposal.work)[0].work_id, "reply": NO_EDITS}],
        wait=Wait(host.jobs),
    ).proposed
    assert done
    assert done.next_step.action == "record_trajectory"
    assert host.store.trajectories.count_trajectories(tracked.id)[1] == 0
