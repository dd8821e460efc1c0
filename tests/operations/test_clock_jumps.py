"""Clock jumps: a server whose clock is ahead takes neither the folders nor the leases of others."""

import time
from pathlib import Path

import pytest
from workshop import Place

from benchmarks.host_agent import items_of
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.core.results import Submitted
from skillopt_mcp.workspace.jobs import Capacity, Wait
from skillopt_mcp.workspace.workspace import Workspace


def begun(place: Place, store: str) -> tuple[Workspace, Submitted]:
    """Return a server on a store, with the first work of a proposal taken from it; all share one folder for work."""
    place.add_tasks(place.open(store=store))
    host = server(place, store)
    standing = propose_from_evidence(host.store, host.models, host.place, str(place.skill), 8, Wait(host.jobs))
    return host, submit_work(
        host.store, host.models, host.place, [], standing.job_id, Wait(host.jobs, capacity=Capacity(items=4))
    )


def server(place: Place, store: str) -> Workspace:
    environ, path = {"SKILLOPT_WORK": str(place.folder / "work")}, place.store_path.with_name(store)
    return place.stack.enter_context(
        Workspace(path, target="host", optimizer="host", project=place.folder, environ=environ, hands_out=True)
    )


@pytest.mark.parametrize("days", [2, -2])
def test_a_server_whose_clock_jumped_deletes_no_work_and_takes_none_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    host, first = begun(place, "skillopt.db")
    assert items_of(first.work)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + days * 86_400)
    begun(place, "another.db")
    other = server(place, "skillopt.db")
    while items_of(submit_work(other.store, other.models, other.place, [], first.job_id, Wait(other.jobs)).work):
        pass
    assert all(Path(item.folder, "WORK.md").exists() for item in items_of(first.work))
    leases = host.store.leases.list_of(first.job_id)
    assert len({lease.call_id for lease in leases}) == len(leases) == 8


def test_work_that_nobody_has_is_removed_after_a_day(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    host, first = begun(place, "skillopt.db")
    left = host.place.work_folders.root / "w-left" / "1"
    left.mkdir(parents=True)
    monkeypatch.setattr("skillopt_mcp.backends.work_folders._STALE_S", -1.0)
    assert items_of(submit_work(host.store, host.models, host.place, [], first.job_id, Wait(host.jobs)).work)
    assert (left.exists(), Path(items_of(first.work)[0].folder).exists()) == (False, True)
