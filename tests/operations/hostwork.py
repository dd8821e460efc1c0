"""Hostwork: a server without any backend, and a host that drives it to the end."""

from __future__ import annotations

from pathlib import Path

from workshop import Place

from benchmarks.host_agent import Agent, items_of
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.core.results import Proposed, Submitted
from skillopt_mcp.workspace.jobs import Capacity, Wait
from skillopt_mcp.workspace.workspace import Workspace

FEW = Capacity(items=4)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def server(place: Place, clock: Clock, work: Path) -> Workspace:
    """Return a workspace as a server has it that was started without any backend."""
    return place.stack.enter_context(
        Workspace(
            place.store_path, target="host", optimizer="host", judge="host", project=place.folder, clock=clock,
            environ={"SKILLOPT_WORK": str(work)}, hands_out=True,
        )
    )  # fmt: skip


def begun(host: Workspace, candidate_id: str) -> Submitted:
    """Return the first work on a candidate's test, under the id of the test; the estimate comes first."""
    standing = evaluate_candidate(host.store, host.models, host.place, candidate_id, Wait(host.jobs))
    assert (standing.status, standing.work) == ("work", None)
    first, made = (
        submit_work(host.store, host.models, host.place, [], standing.job_id, Wait(host.jobs, capacity=FEW)),
        host.store.candidates.get_candidate(candidate_id),
    )
    newest, *_ = host.store.tests.list_of(made.skill_id, made.base_version, made.version_id)
    return first.model_copy(update={"job_id": newest.id})


def begun_proposal(host: Workspace, skill: str, rollouts: int = 0) -> Proposed:
    """Return a proposal with its first work; the estimate comes first."""
    standing = propose_from_evidence(host.store, host.models, host.place, skill, rollouts, Wait(host.jobs))
    assert (standing.status, standing.work) == ("work", None)
    first = submit_work(host.store, host.models, host.place, [], standing.job_id, Wait(host.jobs, capacity=FEW))
    return standing.model_copy(update={"work": first.work, "next_step": first.next_step})


def driven(host: Workspace, agent: Agent, standing: Submitted) -> Submitted:
    """Return the answer to the last work: all of it is done as it comes."""
    while standing.status == "work":
        assert items_of(standing.work)
        for item in items_of(standing.work):
            agent.do(item.folder)
        standing = submit_work(
            host.store,
            host.models,
            host.place,
            [{"work_id": item.work_id} for item in items_of(standing.work)],
            wait=Wait(host.jobs, capacity=FEW),
        )
    return standing
