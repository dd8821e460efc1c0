"""Store trust: a log that is deleted, a clock that is ahead, reads behind waiting writes; figures of `trust.py`.

python benchmarks/store_trust.py [--short] [--json]
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from benchmarks.doors import StdioHost, add_tasks, numbers_skill, ours, parser, rows, run, show
from benchmarks.host_agent import Item, items_of

N_BEFORE, N_AFTER = 20, 120
N_WAITING, N_READS = 30, 20
AHEAD = (
    "import sys, time; real = time.time; time.time = lambda: real() + 2 * 86400;"
    "from skillopt_mcp.cli.main import main; sys.exit(main())"
)


def wal_deleted_unnoticed(short: bool = False) -> int:
    """Return in how many cases acknowledged rows are gone with a deleted log, and nothing and nobody says so.

    The server is alive or killed, the shared memory is deleted, too, or not, and others work on before `verify`.
    """
    cases = [(is_killed, ends) for is_killed in (False, True) for ends in (("-wal",), ("-wal", "-shm"))]
    return sum(_is_unnoticed(*case) for case in (cases[::3] if short else cases))


def _is_unnoticed(is_killed: bool, ends: tuple[str, ...]) -> bool:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, skill = folder / "store" / "s.db", numbers_skill(folder)
        with StdioHost(ours(store), folder) as host:
            ids = [_record(host, skill, n) for n in range(N_BEFORE)]
            rows(store, "pragma wal_checkpoint")
            ids += [_record(host, skill, n) for n in range(N_BEFORE, N_BEFORE + N_AFTER)]
            if is_killed:
                os.kill(host.pid, signal.SIGKILL)
            for end in ends:
                os.unlink(f"{store}{end}")
            attempt = {"skill": str(skill), "task": "later", "answer": "1", "hard": True}
            if not is_killed and "-wal" not in str(host.answer("record_trajectory", attempt)):
                return True
        with StdioHost(ours(store), folder) as host:
            for n in range(2 * N_AFTER):
                _record(host, skill, n, "other")
        is_sound = run(store, "store", "verify", codes=(0, 1)).get("problems") == []
        sql = "select 1 from trajectory where session_id = 's' and id = ?"
        return is_sound and not all(rows(store, sql, int(each)) for each in ids)


def _record(host: StdioHost, skill: Path, n: int, session: str = "s") -> str:
    attempt = {"task": "what?", "answer": f"{n} " * 40, "hard": True, "session_id": session, "index": n}
    recorded = host.call("record_trajectory", {"skill": str(skill), **attempt})
    return str(recorded["trajectory_id"]).partition(":")[2]


def foreign_work_deleted() -> int:
    """Return what servers two days ahead take of others: work folders that they delete, items that they lease again."""
    with tempfile.TemporaryDirectory() as name, patch.dict(os.environ, SKILLOPT_WORK=f"{name}/work"):
        folder = Path(name)
        skill = numbers_skill(folder)
        ahead = [sys.executable, "-c", AHEAD]
        own, foreign = folder / "a" / "s.db", folder / "b" / "s.db"
        with StdioHost(ours(own), folder) as host:
            job, items = _taken(host, own, skill)
            with StdioHost([*ahead, *ours(foreign)[1:]], folder) as other:
                _taken(other, foreign, skill)
            # Its session is another one's, and so is the server: both are alive.
            with StdioHost([*ahead, *ours(own)[1:]], folder) as other:
                other.call("submit_work", {"job_id": job, "max_items": 16})
            n_deleted = sum(not Path(item.folder, "WORK.md").exists() for item in items)
            doubled = "select count(*) from lease group by call_id having count(*) > 1"
            return n_deleted + sum(int(n) - 1 for [n] in rows(own, doubled))


def _taken(host: StdioHost, store: Path, skill: Path) -> tuple[str, list[Item]]:
    """Return the job of a proposal, and the work of it that a host has taken."""
    tasks = [{"prompt": f"call {n}", "judge": {"kind": "exact", "expected": str(n)}} for n in range(24)]
    add_tasks(store, skill, tasks)
    begun = host.call("propose_edits", {"skill": str(skill), "rollouts": 8})
    job = str(begun["job_id"])
    return job, items_of(host.call("submit_work", {"job_id": job})["work"])


def read_ms_behind_30_writes() -> float:
    """Return the worst time of a read (list_skills) while 30 writes of the same server wait for another process."""
    return behind_writes()[0]


def behind_writes(*, to_the_end: bool = False) -> tuple[float, float]:
    """Return the worst time of a read in ms; with `to_the_end`, after how many seconds the last write is refused."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, skill = folder / "s.db", numbers_skill(folder)
        with StdioHost(ours(store), folder) as host, closing(sqlite3.connect(store, isolation_level=None)) as other:
            _record(host, skill, 0)
            host.call("list_skills", {})
            other.execute("begin immediate")
            started = time.perf_counter()
            for n in range(N_WAITING):
                _send(host, n, "record_trajectory", {"skill": str(skill), "task": "what?", "answer": "1", "hard": True})
            time.sleep(0.5)
            took, waited = list[float](), 0.0
            for n in range(N_READS):
                asked = time.perf_counter()
                _send(host, N_WAITING + n, "list_skills", {})
                _answer(host)
                took.append((time.perf_counter() - asked) * 1000)
            for _ in range(N_WAITING if to_the_end else 0):
                _answer(host)
                waited = time.perf_counter() - started
            other.execute("rollback")
            for _ in range(0 if to_the_end else N_WAITING):
                _answer(host)
    return round(max(took), 1), round(waited, 1)


def _send(host: StdioHost, number: int, tool: str, arguments: dict[str, object]) -> None:
    params = {"name": tool, "arguments": arguments}
    assert host.process.stdin
    request = {"jsonrpc": "2.0", "id": f"{number}", "method": "tools/call", "params": params}
    host.process.stdin.write(json.dumps(request).encode() + b"\n")
    host.process.stdin.flush()


def _answer(host: StdioHost) -> None:
    assert host.process.stdout
    if not host.process.stdout.readline():
        raise EOFError("the server has ended")


def main() -> None:
    """Print the figures."""
    options = parser(__doc__, "two cases of a deleted log").parse_args()
    figures = {
        "wal_deleted_unnoticed": wal_deleted_unnoticed(options.short),
        "foreign_work_deleted": foreign_work_deleted(),
        "read_ms_behind_30_writes": read_ms_behind_30_writes(),
    }
    targets = {"wal_deleted_unnoticed": "0", "foreign_work_deleted": "0", "read_ms_behind_30_writes": "<= 200"}
    show(figures, options.json, **targets)


if __name__ == "__main__":
    main()
