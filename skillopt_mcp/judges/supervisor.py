"""Supervisor: a process of its own that runs one judged program, confined and limited, and leaves nothing behind.

It runs under `python -I -S`, and imports the standard library alone. Its one argument (json) says what to run; one line
of json on its standard output says how that ended. When its standard input ends, so has the process that asked, and
then the program is ended too. Every process that the program starts, in whatever session, is below this one, the
subreaper, until it is gone: no child left to wait for means that nothing is left at all. Its folder is removed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import TypedDict

from skillopt_mcp.judges.disk import Meter, remove
from skillopt_mcp.judges.leading import Job, become_overseer, lead, or_exit

POLL_S = 0.02
SWEEP_S = 5.0
KEPT_BYTES = 16_384


class Ending(TypedDict):
    """How it ended; `error` when the program was never started."""

    exit: int | None
    limit: str | None
    error: str | None
    confined: str
    output: str


def main(text: str) -> None:
    """Run a job and write how it ended."""
    job: Job = json.loads(text)
    if sys.platform == "linux":
        become_overseer()
    if job["user"]:
        _give(job["folder"], job["user"])
    out_read, out_write = os.pipe()
    status_read, status_write = os.pipe()
    leader = os.fork()
    if leader == 0:
        or_exit(lead, job, out_write, status_write)
    os.close(out_write)
    os.close(status_write)
    ending = _supervised(job, leader, out_read, status_read)
    with suppress(OSError):
        os.write(1, json.dumps(ending).encode() + b"\n")
    # Here, for nobody else may be left to do it. It comes last, for it may take long.
    with suppress(OSError):
        remove(job["folder"])


def _supervised(job: Job, leader: int, out: int, status: int) -> Ending:
    """Return how the program ended, once nothing of it is left."""
    deadline = time.monotonic() + job["time_s"]
    output, told, limit = bytearray(), bytearray(), None
    meter = Meter(job["folder"], job["disk_bytes"])
    watched = {out, status, 0}
    while status in watched and limit is None:
        for fd in select.select(list(watched), [], [], POLL_S)[0]:
            chunk = os.read(fd, 65536)
            if not chunk:
                watched.discard(fd)
            elif fd == out:
                _keep(output, chunk)
            elif fd == status:
                told += chunk
        below = _below(os.getpid(), job["n_processes"] + 4)
        if 0 not in watched:
            limit = "abandoned"
        elif time.monotonic() > deadline:
            limit = "time"
        elif len(below) > job["n_processes"] + 3:
            limit = "processes"
        elif meter.is_over(below):
            limit = "disk"
    sweep(leader)
    if limit is None and meter.was_over():
        limit = "disk"
    os.set_blocking(out, False)
    while out in watched and (chunk := _read_left(out)):
        _keep(output, chunk)
    return _ending(bytes(told), limit, bytes(output))


def _ending(told: bytes, limit: str | None, output: bytes) -> Ending:
    facts: dict[str, object] = {}
    for line in told.splitlines():
        facts.update(json.loads(line))
    ended, error, confined = facts.get("status"), facts.get("error"), facts.get("confined")
    if error is None and not facts.get("started") and limit is None:
        error = output.decode("utf-8", "replace") or "it did not come as far as the program"
    exit_code = None
    if isinstance(ended, int) and limit is None:
        exit_code = os.waitstatus_to_exitcode(ended)
    if exit_code is not None and exit_code < 0:
        exit_code, limit = None, "signal"
    if exit_code is None and limit is None:
        limit = "signal"
    return {
        "exit": exit_code,
        "limit": limit,
        "error": error if isinstance(error, str) else None,
        "confined": str(confined or "none"),
        "output": output.decode("utf-8", "replace"),
    }


def sweep(leader: int) -> None:
    """Kill all that is below this process until there is no child left to wait for."""
    until = time.monotonic() + SWEEP_S
    while time.monotonic() < until:
        _kill(-leader)
        level = [os.getpid()]
        while level:
            # Each is killed before its children are looked for, so that it cannot make more of them meanwhile.
            level = [child for parent in level for child in _children(parent)]
            for pid in level:
                _kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def _below(pid: int, enough: int) -> list[int]:
    """Return the processes below `pid`, looked for until there are `enough`."""
    found: list[int] = []
    level = [pid]
    while level and len(found) < enough:
        level = [child for parent in level for child in _children(parent)]
        found += level
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        return found
    return found


def _keep(output: bytearray, chunk: bytes) -> None:
    output += chunk
    del output[:-KEPT_BYTES]


def _read_left(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return b""


def _give(folder: str, user: list[int]) -> None:
    """Make the folder and all in it the user's."""
    os.chown(folder, *user)
    for inner, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(inner, name), *user)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
