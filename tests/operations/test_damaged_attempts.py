"""Damaged attempts: what is not what was written is neither shown nor learned from, and the work goes on without it."""

from __future__ import annotations

import pytest
from workshop import SIMULATION, Place, use

from skillopt_mcp.backends.simulated import open_simulated
from skillopt_mcp.errors import UnsafeStore
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.runs.reflecting import propose_from_evidence
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.stores.verifying import verify_store
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.progress import Progress
from skillopt_mcp.records.calls import Call, Question, Reply

SPOILT = "cast(x'31fe32' as text)"
CHANGED = "'a zebra answered'"
LEFT_OUT = "trajectory:3: not what was written, and not learned from; skillopt-mcp verify tells how far the damage goes"


@pytest.fixture(params=[CHANGED, SPOILT])
def damaged(request: pytest.FixtureRequest, place: Place, workspace: Workspace) -> Workspace:
    """Return a workspace with six attempts, of which the disk has changed the third; or no text is left of it."""
    for n in range(6):
        recording = Recording(task=f"{n}: book it (needs: currency)", answer=f"{n} EURO", hard=False, reason="wrong")
        record_trajectory(workspace, str(place.skill), recording)
    change(workspace, f"update trajectory set answer = {request.param} where id = 3")
    return workspace


class Listening:
    """The simulation, with all that its optimizer is shown."""

    deferred = False
    n_slots = 8

    def __init__(self) -> None:
        self._simulation = open_simulated(SIMULATION.partition(":")[2])
        self.name, self.fingerprint = self._simulation.name, self._simulation.fingerprint
        self.evidence = ""

    async def complete(self, call: Call) -> Reply:
        if isinstance(call.request, Question):
            self.evidence += call.request.evidence
        return await self._simulation.complete(call)


def listened(workspace: Workspace) -> Listening:
    heard = Listening()
    use(workspace, heard, "target", "optimizer")
    return heard


def change(workspace: Workspace, sql: str) -> None:
    with workspace.store._pool.write() as connection:
        connection.execute(sql)


def test_what_the_disk_has_changed_is_not_shown(damaged: Workspace) -> None:
    assert "1: book it" in inspect(damaged, "trajectory:2").text
    with pytest.raises(UnsafeStore) as raised:
        inspect(damaged, "trajectory:3")
    assert "skillopt-mcp verify" in str(raised.value)
    assert "zebra" not in str(raised.value)


def test_a_proposal_learns_from_the_others_and_says_so(place: Place, damaged: Workspace) -> None:
    heard = listened(damaged)
    made = propose_from_evidence(damaged, str(place.skill))
    assert made.notes[0] == LEFT_OUT
    assert "1 EURO" in heard.evidence
    assert "2: book it" not in heard.evidence


def test_a_run_that_may_see_it_goes_on_without_it_and_says_so(place: Place, damaged: Workspace) -> None:
    heard = listened(damaged)
    done = replay(damaged, start_run(damaged, "ledger-clerk", Config(epochs=1, batch=10, sessions=6, max_pairs=8)))
    assert (done.status, done.left_out) == ("finished", [LEFT_OUT])
    assert "1 EURO" in heard.evidence
    assert "2: book it" not in heard.evidence


def test_no_edit_and_no_score_makes_it_look_sound(place: Place, damaged: Workspace) -> None:
    place.propose(damaged)
    with pytest.raises(UnsafeStore, match=r"row 3 of table trajectory|is damaged"):
        record_trajectory(damaged, str(place.skill), Recording(task="trajectory:3", hard=True, reason="after all"))
    assert any("trajectory: row 3" in each or "damaged" in each for each in verify_store(place.store_path).problems)


def test_no_run_goes_on_with_an_answer_that_the_disk_has_changed(place: Place, workspace: Workspace) -> None:
    config = Config(epochs=1, batch=10, max_pairs=8)
    run = start_run(workspace, "ledger-clerk", config)

    def cut_short(progress: Progress) -> None:
        if progress.stage == "reflect":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(workspace, run, cut_short)
    change(workspace, "update reply set text = 'a zebra answered' where call_id = 5")
    with pytest.raises(UnsafeStore) as raised:
        replay(place.open(), workspace.store.runs.get_run(run.id))
    assert str(raised.value).startswith("row 5 of table reply is not what was written")
    assert "skillopt-mcp verify" in str(raised.value)
