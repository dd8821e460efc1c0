"""Supervisor: a process of its own that runs one command line and leaves nothing of it behind.

It runs under `python -I -S`, and imports the standard library alone. Its one argument (json) says what to run; one line
of json on its standard output says how that ended. When its standard input ends, so has the process that asked, or its
patience: then the command line is asked to end, and after a moment made to. Every process that it starts is below this
one, the subreaper, until it is gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import NoReturn, TypedDict

from skillopt_mcp.tasks.judges.supervisor import sweep

GRACE_S = 2.0
NOT_STARTED = 127
_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36


class AgentJob(TypedDict):
    """What to run: `folder` is where, `files` its standard input, output and error."""

    argv: list[str]
    folder: str
    files: list[str]


def main(text: str) -> None:
    """Run a job and write how it ended: the exit code, negative for a signal."""
    job: AgentJob = json.loads(text)
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc:
        libc.prctl(_SET_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
    leader = os.fork()
    if leader == 0:
        _become(job, libc)
    over = threading.Event()
    threading.Thread(target=_end_with_input, args=(leader, over), daemon=True).start()
    status = os.waitpid(leader, 0)[1]
    over.set()
    sweep(leader)
    with suppress(OSError):
        os.write(1, json.dumps({"exit": os.waitstatus_to_exitcode(status)}).encode() + b"\n")


def _end_with_input(leader: int, over: threading.Event) -> None:
    os.read(0, 1)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if over.is_set():
            return
        with suppress(OSError):
            os.killpg(leader, number)
        over.wait(GRACE_S)


def _become(job: AgentJob, libc: ctypes.CDLL | None) -> NoReturn:
    try:
        os.setsid()
        if libc:
            libc.prctl(_SET_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        for fd, (path, mode) in enumerate(zip(job["files"], (os.O_RDONLY, write, write), strict=True)):
            os.dup2(os.open(path, mode, 0o600), fd)
        os.chdir(job["folder"])
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execv(job["argv"][0], job["argv"])
    except OSError as error:
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(NOT_STARTED)
