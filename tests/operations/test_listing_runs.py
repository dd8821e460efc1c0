from __future__ import annotations

from hostwork import Clock, driven
from workshop import SEED, Place

from benchmarks.host_agent import Agent, items_of
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.core.results import Proposed
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.reports.run_report import list_runs
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace

OUT = "1 item of work is out until 2027-01-15 08:15 UTC"


def test_what_a_host_drives_goes_on_by_its_work_and_not_by_replay(host: Workspace, proposal: Proposed) -> None:
    listed = list_runs(host.store, host.place)
    [row] = listed.runs
    assert (row.id, row.kind, row.status, row.work) == (proposal.job_id, "proposal", "running", OUT)
    assert (listed.next_step.action, listed.next_step.arguments) == ("submit_work", {"job_id": row.id})
    shown = inspect(host.store, host.place, row.id)
    assert OUT in shown.text.splitlines()
    assert shown.next_step == listed.next_step


def test_work_that_was_abandoned_is_shown_as_overdue_until_it_comes_back(
    host: Workspace, clock: Clock, proposal: Proposed
) -> None:
    clock.now += 3600
    assert list_runs(host.store, host.place).runs[0].work == "work was out until 2027-01-15 08:15 UTC"
    again = submit_work(host.store, host.models, host.place, [], proposal.job_id, Wait(host.jobs))
    assert list_runs(host.store, host.place).runs[0].work == OUT.replace("08:15", "09:15")
    Agent(SEED).do(items_of(again.work)[0].folder)
    submit_work(
        host.store, host.models, host.place, [{"work_id": items_of(again.work)[0].work_id}], wait=Wait(host.jobs)
    )
    assert list_runs(host.store, host.place).runs[0].work == ""


def test_a_proposal_that_has_ended_is_listed_with_the_runs(host: Workspace, proposal: Proposed) -> None:
    agent = Agent(1)
    agent.do(items_of(proposal.work)[0].folder)
    done = driven(
        host,
        agent,
        submit_work(
            host.store, host.models, host.place, [{"work_id": items_of(proposal.work)[0].work_id}], wait=Wait(host.jobs)
        ),
    ).proposed
    assert done
    assert done.candidate_id
    listed = list_runs(host.store, host.place)
    [row] = listed.runs
    assert (row.status, row.verdict, row.n_calls, row.n_test_calls) == ("finished", None, 1, 0)
    assert listed.next_step.as_command() == f"skillopt-mcp show {row.id}"
    shown = inspect(host.store, host.place, row.id)
    assert f"outcome: {done.status}; candidate {done.candidate_id}" in shown.text.splitlines()
    assert shown.next_step is None


def test_nothing_goes_on_with_a_proposal_for_a_version_that_is_live_no_more(
    place: Place, host: Workspace, proposal: Proposed
) -> None:
    place.main.write_text("# Mine\n")
    host.place.skill("ledger-clerk")
    assert list_runs(host.store, host.place).next_step.as_command() == f"skillopt-mcp show {proposal.job_id}"
