"""Flips: a small store with one bit of one byte changed at a time: does `verify`, or SQLite, notice?

    python benchmarks/flips.py [--short] [--processes N] [--json]

Every byte of the file is visited, or (--short) a sample of them for ten seconds. A change counts when a dump of the
store, with its schema, differs from that of the sound one.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from skillopt_mcp.backends import world
from skillopt_mcp.backends.catalogue import TOPICS
from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.permitting import add_root, permit
from skillopt_mcp.operations.changes.promoting import promote_skill
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.stores.verifying import verify_store
from skillopt_mcp.operations.tasks.adding import add_tasks
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.commands import RegisteredCommand
from skillopt_mcp.store import driver

SEED = 3
SHORT_S = 10.0
SPEC = f"simulated:honest,seed={SEED}"


class Flips(NamedTuple):
    """How many bytes were visited, how many flips changed a dump, and the offsets that nothing noticed."""

    bytes: int
    flips_changing_dump: int
    unnoticed: list[int]

    def plus(self, other: Flips) -> Flips:
        """Return the sum of both."""
        return Flips(
            self.bytes + other.bytes,
            self.flips_changing_dump + other.flips_changing_dump,
            self.unnoticed + other.unnoticed,
        )


def make_store(folder: Path) -> Path:
    """Return a store in which every room of a skill's life has rows: attempts, a run, a test and a promotion."""
    skill = folder / "skills" / "ledger-clerk"
    skill.mkdir(parents=True)
    for file in world.make_skill(SEED).files:
        (skill / file.path).write_bytes(file.content)
    path = folder / "store" / "skillopt.db"
    with Workspace(path, target=SPEC, optimizer=SPEC, project=folder) as workspace:
        add_root(workspace, str(folder / "skills"))
        permit(workspace, str(skill), simulated=True)
        tasks = [{"prompt": each.prompt, "judge": each.judge.model_dump()} for each in world.make_tasks(9, SEED)]
        add_tasks(workspace, str(skill), [*tasks, {**tasks[0], "files": [{"path": "a.txt", "content": "é"}]}])
        for n in range(4):
            record_trajectory(workspace, str(skill), Recording("what?", hard=bool(n % 2), answer=f"{n}", reason="é"))
        run = start_run(workspace, str(skill), Config(epochs=2, batch=3, max_pairs=8))
        replay(workspace, run)
        lessons = [{"op": "append", "content": "\n".join(f"- {topic.lesson}" for topic in TOPICS)}]
        candidate = propose_edits(workspace, str(skill), lessons, "what the tasks need").candidate_id or ""
        assert evaluate_candidate(workspace, candidate).verdict == "accept"
        assert promote_skill(workspace, candidate, Consent.STANDING).status == "promoted"
        store, [tracked] = workspace.store, workspace.store.skills.list_skills()
        store.commands.register(RegisteredCommand("unit-tests", ("/bin/true",), "0" * 64))
        store.tasks.rotate(dict.fromkeys(list(store.tasks.list_looks(tracked.id))[:1], 12))
        store.retirements.retire(tracked.id, list(store.tasks.list_looks(tracked.id))[:1], "the key was wrong")
        store.runs.begin_finish(run.id, store.decisions.list_tests(tracked.id)[0].id, 8)
    return path


def dump(path: Path) -> list[object] | None:
    """Return the schema and all rows of a store, None when SQLite cannot read it to the end."""
    connection = driver.sqlite().connect(str(path), isolation_level=None)
    connection.text_factory = bytes
    try:
        schema = connection.execute("select type, name, tbl_name, sql from sqlite_schema order by rowid").fetchall()
        tables = [name.decode("utf-8", "replace") for kind, name, *_ in schema if kind == b"table"]
        quoted = ['"' + name.replace('"', '""') + '"' for name in tables]
        return [schema, *(connection.execute(f"select * from {table}").fetchall() for table in quoted)]
    except (driver.sqlite().Error, UnicodeError, AttributeError):
        return None
    finally:
        connection.close()


def is_noticed(path: Path) -> bool:
    """Return whether `verify` finds anything wrong with a store, or it cannot be opened."""
    try:
        return bool(verify_store(path, live=False).problems)
    except SkillOptError:
        return True


def flip(sound: bytes, offsets: Iterable[int], seconds: float | None = None) -> Flips:
    """Return what became of one flipped bit, drawn by the offset, in each of these bytes; as far as time allows."""
    n_bytes, n_changing = 0, 0
    unnoticed: list[int] = []
    until = None if seconds is None else time.monotonic() + seconds
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        path = Path(folder) / "skillopt.db"
        path.write_bytes(sound)
        whole = dump(path)
        for offset in offsets:
            if until is not None and time.monotonic() > until:
                break
            bit = 1 << random.Random(offset).randrange(8)
            for beside in (path, *Path(folder).glob("skillopt.db-*")):
                beside.unlink()
            path.write_bytes(sound[:offset] + bytes([sound[offset] ^ bit]) + sound[offset + 1 :])
            n_bytes += 1
            now = dump(path)
            if now != whole:
                n_changing += 1
                if now is not None and not is_noticed(path):
                    unnoticed.append(offset)
    return Flips(n_bytes, n_changing, unnoticed)


def measure(*, short: bool, n_processes: int = 2) -> Flips:
    """Return what became of a flip in every byte of a small store, or of a sample of them."""
    with tempfile.TemporaryDirectory() as folder:
        sound = make_store(Path(folder)).read_bytes()
    offsets = list(range(len(sound)))
    random.Random(SEED).shuffle(offsets)
    found = Flips(0, 0, [])
    with ProcessPoolExecutor(n_processes) as pool:
        parts: list[Sequence[int]] = [offsets[n::n_processes] for n in range(n_processes)]
        for part in pool.map(partial(flip, sound, seconds=SHORT_S - 1 if short else None), parts):
            found = found.plus(part)
    return found


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> None:
    """Print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="a sample, in ten seconds")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = measure(short=options.short, n_processes=options.processes)
    if options.json:
        print(json.dumps(found._asdict() | {"unnoticed": len(found.unnoticed)}))
        return
    print(
        f"{found.bytes:,} bytes flipped, {found.flips_changing_dump:,} of them changed a dump, "
        f"{len(found.unnoticed)} of those unnoticed (target 0) {found.unnoticed[:20]}"
    )


if __name__ == "__main__":
    main()
