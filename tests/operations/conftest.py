from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostwork import Clock, begun_proposal, server
from workshop import SEED, Place

from benchmarks.host_agent import items_of
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.backends.world import make_skill
from skillopt_mcp.core.results import Proposed
from skillopt_mcp.workspace.workspace import Workspace


@pytest.fixture(scope="session")
def place_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of this worker's place, and of what it began as: a skill is known by its path."""
    return Path(os.path.realpath(tmp_path_factory.mktemp("places")))


@pytest.fixture
def place(place_folder: Path) -> Iterator[Place]:
    place = Place(place_folder / "place")
    place.begin_as("bare", make_bare)
    with place.stack:
        yield place
    shutil.rmtree(place.folder)


def make_bare(place: Place) -> None:
    place.skill.mkdir(parents=True)
    for file in make_skill(SEED).files:
        (place.skill / file.path).write_bytes(file.content)
    with place.open() as workspace:
        workspace.store.permissions.add_root(str(place.root))


def add_tasks(place: Place) -> None:
    with place.open() as workspace:
        place.add_tasks(workspace)


@pytest.fixture
def workspace(place: Place) -> Workspace:
    """Return a workspace with 90 tasks, 30 in each split."""
    place.begin_as("tasks", add_tasks)
    return place.open()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def host(place: Place, clock: Clock) -> Workspace:
    """Return a workspace whose target, optimizer and judge are its host; the tasks came from elsewhere."""
    place.begin_as("tasks", add_tasks)
    return server(place, clock, place.folder / "work")


@pytest.fixture
def proposal(place: Place, host: Workspace) -> Proposed:
    """Return a proposal with one question in the hands of a host."""
    for n in range(6):
        recording = Recording(task=f"{n}: book it (needs: currency)", answer="1", hard=False, reason="wrong")
        record_trajectory(host.store, host.place, str(place.skill), recording)
    standing = begun_proposal(host, str(place.skill))
    assert (standing.status, len(items_of(standing.work))) == ("work", 1)
    return standing
