"""Fault children: what the processes of the faults benchmark do to one store and one skill, until they are killed."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_skill, make_tasks
from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.permitting import add_root
from skillopt_mcp.operations.changes.promoting import promote_skill, rollback_skill
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.calls import Call, Rollout
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.trajectories import NewTrajectory

SEED = 3
SIMULATION = f"simulated:honest,seed={SEED}"
RULE = "- Rule "
_FORK = multiprocessing.get_context("forkserver")
_FORK.set_forkserver_preload(["benchmarks.fault_children", "sqlite_utils", "skillopt_mcp.calls.asking"])


class Child:
    """A process that runs `function(tell, *arguments)`; `tell` says one thing to whoever started it."""

    def __init__(self, function: Callable[..., None], *arguments: object) -> None:
        self._ours, theirs = _FORK.Pipe()
        self.process = _FORK.Process(target=_run, args=[function, theirs, arguments], daemon=True)
        self.process.start()
        theirs.close()

    def rest(self) -> list[Any]:
        """Return all that it says until it ends."""
        said: list[Any] = []
        with suppress(EOFError, OSError):
            while True:
                said.append(self._ours.recv())
        self.process.join()
        return said

    def kill(self) -> list[Any]:
        """Kill it, and return what it had said by then."""
        self.process.kill()
        return self.rest()


def _run(function: Callable[..., None], pipe: Connection, arguments: Sequence[object]) -> None:
    function(pipe.send, *arguments)


class Shop:
    """A skill with tasks in a registered root, and a store beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.skill = folder / "skills" / "ledger-clerk"
        self.store_path = folder / "store" / "skillopt.db"
        self.skill.mkdir(parents=True)
        for file in make_skill(SEED).files:
            (self.skill / file.path).write_bytes(file.content)
        with open_shop(self.store_path, folder) as workspace:
            add_root(workspace, str(folder / "skills"))
            tracked = workspace.skill(str(self.skill))
            workspace.store.tasks.add_tasks(tracked.id, make_tasks(60, SEED), EQUAL_SHARES)


def open_shop(store_path: Path, folder: Path, taught: Callable[[str], bool] = bool) -> Workspace:
    """Return a workspace whose target is right when it was `taught`; it counts as a real model."""

    def attempt(call: Call) -> str:
        assert isinstance(call.request, Rollout)
        return str(call.request.task.judge.model_dump()["expected"]) if taught(call.request.files.text) else "no"

    target = Scripted(attempt, name="some-model")
    return Workspace(store_path, target=target, optimizer=SIMULATION, project=folder, environ={})


def write(tell: Callable[[object], None], store_path: Path, session: str, n: int) -> None:
    """Record `n` attempts, and tell the ids, how long each took in ms, and what went wrong."""
    ids, times, errors = [], [], []
    with Store(store_path) as store:
        skill = store.skills.list_skills()[0]
        for position in range(n):
            new = NewTrajectory("what?", f"{session} {position} " * 40, True, 1.0, "", "[]", session, position)
            started = time.perf_counter()
            try:
                ids.append(store.trajectories.add_trajectory(skill.id, skill.live_version, new)[0])
            except SkillOptError as error:
                errors.append(str(error))
            times.append((time.perf_counter() - started) * 1000)
    tell((ids, times, errors))


def train(tell: Callable[[object], None], store_path: Path, folder: Path) -> None:
    """Replay again and again, until it is killed."""
    with Workspace(store_path, target=SIMULATION, optimizer=SIMULATION, project=folder, environ={}) as workspace:
        for n in range(10_000):
            config = Config(epochs=1, batch=10, max_pairs=8, seed=n)
            tell(replay(workspace, start_run(workspace, "ledger-clerk", config)).run_id)


def live(tell: Callable[[object], None], store_path: Path, folder: Path, name: str) -> None:
    """Record, propose, evaluate, promote and roll back until it is killed, telling of everything that is stored."""
    rule = ""
    with open_shop(store_path, folder, lambda text: rule in text) as workspace:
        for n in range(10_000):
            rule = f"{RULE}{name}.{n}."
            recording = Recording("what?", hard=False, answer="1", session_id=name, index=n)
            tell(
                (
                    "recorded",
                    int(record_trajectory(workspace, "ledger-clerk", recording).trajectory_id.partition(":")[2]),
                )
            )
            candidate = propose_edits(workspace, "ledger-clerk", [{"op": "append", "content": rule}]).candidate_id
            tell(("proposed", candidate))
            if evaluate_candidate(workspace, candidate or "").verdict == "accept":
                tell(("evaluated", candidate))
                tell((promote_skill(workspace, candidate or "", Consent.PERSON).status, candidate))
            if n % 2:
                tell((rollback_skill(workspace, "ledger-clerk", None, Consent.PERSON).status, candidate))


def promote(tell: Callable[[object], None], store_path: Path, folder: Path, name: str, n: int) -> None:
    """Propose, test and promote a rule of its own `n` times, telling what became of each, and why."""
    rule = ""
    with open_shop(store_path, folder, lambda text: rule in text) as workspace:
        for at in range(n):
            rule = f"{RULE}{name}.{at}."
            try:
                made = propose_edits(workspace, "ledger-clerk", [{"op": "append", "content": rule}]).candidate_id or ""
                if evaluate_candidate(workspace, made).verdict != "accept":
                    tell(("undecided", rule, "the test was not decided"))
                    continue
                done = promote_skill(workspace, made, Consent.PERSON)
                tell((done.status, rule, f"{done.reason} {done.next_step}".strip()))
            except SkillOptError as error:
                tell(("refused", rule, str(error)))


def edit(tell: Callable[[object], None], main: Path, n: int) -> None:
    """Save the file as an editor does, `n` times, each time with one more rule; tell which of them are gone."""
    mine: list[str] = []
    for at in range(n):
        text = main.read_text()
        tell([rule for rule in mine if rule not in text])
        mine.append(f"{RULE}of a person, number {at}.")
        beside = main.with_name(".person")
        beside.write_text("\n".join([text.rstrip("\n"), mine[-1], ""]))
        os.replace(beside, main)
        time.sleep(0.02)
    tell([rule for rule in mine if rule not in main.read_text()])
