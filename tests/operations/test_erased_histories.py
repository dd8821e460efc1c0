"""Erased histories: what was erased goes from store to store as that, and no file brings its text back."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from workshop import Place

from skillopt_mcp.operations.evidence.erasing import erase
from skillopt_mcp.operations.evidence.naming import Wanted, attempts_meant
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.stores.taking_in import import_history
from skillopt_mcp.operations.stores.transferring import export_history
from skillopt_mcp.operations.stores.verifying import verify_store
from skillopt_mcp.operations.workspace import Workspace

CANARY = "zebra-4711 quilt"


@pytest.fixture
def recorded(place: Place, workspace: Workspace) -> Workspace:
    """Return a workspace with an attempt that has a place in its session, and one without, both with the canary."""
    placed = Recording(task=f"placed {CANARY}", hard=False, session_id="s", index=0)
    for recording in (placed, Recording(task=f"loose {CANARY}", hard=True), Recording(task="plain", hard=False)):
        record_trajectory(workspace, str(place.skill), recording)
    with workspace.store._pool.write() as connection:  # as if all had come within a millisecond
        connection.execute("update trajectory set created_at = '2026-01-01T00:00:00.000Z', sum = null")
    return workspace


def sent(workspace: Workspace, place: Place, file: Path) -> Path:
    export_history(workspace, str(place.skill), file)
    return file


def erased(workspace: Workspace, *names: str) -> None:
    erase(workspace, attempts_meant(workspace, Wanted(names)))


def texts(workspace: Workspace) -> list[str]:
    return [str(row[0]) for row in workspace.store._pool.rows("select prompt from trajectory order by id")]


def test_an_older_file_brings_nothing_back_that_was_erased_since(
    place: Place, recorded: Workspace, tmp_path: Path
) -> None:
    file = sent(recorded, place, tmp_path / "old")
    erased(recorded, "trajectory:1", "trajectory:2")
    got = import_history(recorded, file)
    assert (got.status, got.trajectories, got.conflicts) == ("nothing_new", 0, [])
    assert got.left_out == ["2 attempts that a person has erased"]
    assert texts(recorded) == ["", "", "plain"]


def test_an_erasure_goes_along_and_holds_where_it_comes_to(place: Place, recorded: Workspace, tmp_path: Path) -> None:
    old = sent(recorded, place, tmp_path / "old")
    erased(recorded, "trajectory:1", "trajectory:2")
    new = sent(recorded, place, tmp_path / "new")
    assert CANARY.encode() not in gzip.decompress(new.read_bytes())
    other = place.open(store="other.db")
    other.skill(str(place.skill))
    got = import_history(other, new)
    assert (got.trajectories, got.erased) == (1, 2)
    assert import_history(other, new).status == "nothing_new"
    assert import_history(other, old).trajectories == 0
    again = record_trajectory(other, str(place.skill), Recording(task=CANARY, hard=False, session_id="s", index=0))
    assert again.duplicate
    assert sorted(texts(other)) == ["", "", "plain"]
    assert other.store.trajectories.count_trajectories(1) == (3, 1)
    assert verify_store(other.store_path).problems == []


def test_what_the_file_tells_to_be_erased_and_is_here_stays_until_a_person_erases_it(
    place: Place, recorded: Workspace, tmp_path: Path
) -> None:
    old = sent(recorded, place, tmp_path / "old")
    erased(recorded, "trajectory:1", "trajectory:2")
    new = sent(recorded, place, tmp_path / "new")
    other = place.open(store="other.db")
    other.skill(str(place.skill))
    assert import_history(other, old).trajectories == 3
    got = import_history(other, new)
    assert got.next_step.startswith(
        "What is erased in the file, a person erases here, too (skillopt-mcp erase trajectory:1 trajectory:2). "
    )
    assert (got.erased, len([each for each in texts(other) if each])) == (0, 3)
    erased(other, "trajectory:1", "trajectory:2")
    assert verify_store(other.store_path).problems == []


def test_a_file_without_erasures_is_read_by_older_releases(place: Place, recorded: Workspace, tmp_path: Path) -> None:
    before = sent(recorded, place, tmp_path / "old")
    assert b'"version":1,' in gzip.decompress(before.read_bytes()).splitlines()[0]
    erased(recorded, "trajectory:3")
    after = sent(recorded, place, tmp_path / "new")
    assert b'"version":3,' in gzip.decompress(after.read_bytes()).splitlines()[0]
