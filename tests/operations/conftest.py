from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostwork import Clock, begun_proposal, server
from workshop import SEED, Place

from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.backends.world import make_skill
from skillopt_mcp.core.results import Proposed
from skillopt_mcp.workspace.workspace import Workspace


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(Path(os.path.realpath(tmp_path)))
    place.skill.mkdir(parents=True)
    for file in make_skill(SEED).files:
        (place.skill / file.path).write_bytes(file.content)
    with place.open() as workspace:
        workspace.store.permissions.add_root(str(place.root))
    with place.stack:
        yield place


@pytest.fixture
def workspace(place: Place) -> Workspace:
    """Return a workspace with 90 tasks, 30 in each split."""
    workspace = place.open()
    place.add_tasks(workspace)
    return workspace


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def host(place: Place, clock: Clock) -> Workspace:
    """Return a workspace whose target, optimizer and judge are its host; the tasks came from elsewhere."""
    place.add_tasks(place.open())
    return server(place, clock, place.folder / "work")


@pytest.fixture
def proposal(place: Place, host: Workspace) -> Proposed:
    """Return a proposal with one question in the hands of a host."""
    for n in range(6):
        recording = Recording(task=f"{n}: book it (needs: currency)", answer="1", hard=False, reason="wrong")
        record_trajectory(host.store, host.place, str(place.skill), recording)
    standing = begun_proposal(host, str(place.skill))
    assert (standing.status, len(standing.work)) == ("work", 1)
    return standing
