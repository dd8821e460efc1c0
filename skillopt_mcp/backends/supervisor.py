"""Supervisor: a process of its own that runs one command line, of a judge or an agent, and leaves nothing of it behind.

It runs under `python -I -S`, and imports the standard library alone. Its one argument (json) says what to run; one line
of json on its standard output says how that ended. When its standard input ends, so has the process that asked, or its
patience, and then the command line is ended too. Every process that it starts, in whatever session, is below this one,
the subreaper, until it is gone.
The folder of one with bounds is removed; both together are waited for until 1.2 s after its time at most.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypedDict

POLL_S = 0.01
GRACE_S = 2.0
SWEEP_S, LONG_SWEEP_S = 0.8, 5.0
REMOVE_S = 0.4
KEPT_BYTES = 16_384
_SET_DEATH_SIGNAL, _SET_SUBREAPER, _NO_NEW_PRIVILEGES = 1, 36, 38
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class Bounds(TypedDict):
    """What a program may take: `folder` holds `work` and `tmp`; `wrapper` is bwrap's part of the line, [] without it.

    `user` is [user id, group id] to become first, [] to stay who one is: the kernel counts no processes of root.
    """

    folder: str
    wrapper: list[str]
    user: list[int]
    time_s: float
    memory_bytes: int
    file_bytes: int
    disk_bytes: int
    n_files: int
    n_processes: int


class Supervised(TypedDict):
    """What to run in the folder `work`; `environ` None is the supervisor's own.

    `files` are its standard input, output and error; with the first alone, the report has the end of what it prints.
    One without `bounds` runs as long as the caller lets it, and is asked to end before it is made to.
    """

    argv: list[str]
    work: str
    environ: dict[str, str] | None
    files: list[str]
    bounds: Bounds | None


class Exit(TypedDict):
    """How it ended: the exit code, negative for a signal that was no limit's; `error` when it was never started."""

    exit: int | None
    limit: str | None
    error: str | None
    output: str


def main(text: str) -> None:
    """Run a job and write how it ended."""
    job: Supervised = json.loads(text)
    _prctl(_SET_SUBREAPER, 1)
    bounds = job["bounds"]
    deadline = time.monotonic() + (bounds["time_s"] if bounds else float("inf"))
    if bounds and bounds["user"]:
        # The folder and all in it become the user's.
        os.chown(bounds["folder"], *bounds["user"])
        for inner, folders, files in os.walk(bounds["folder"]):
            for name in (*folders, *files):
                os.chown(os.path.join(inner, name), *bounds["user"])
    ending = _run(job, deadline)
    with suppress(OSError):
        os.write(1, json.dumps(ending).encode() + b"\n")
    if not bounds:
        return
    # Done here, because the caller may be gone by now; by a child, because it may take longer than the caller waits.
    cleaner = os.fork()
    if cleaner == 0:
        os.closerange(0, 2)
        with suppress(OSError):
            remove(bounds["folder"])
        os._exit(0)
    until = max(deadline, time.monotonic()) + REMOVE_S
    while os.waitpid(cleaner, os.WNOHANG)[0] == 0 and time.monotonic() < until:
        time.sleep(0.001)


def _run(job: Supervised, deadline: float) -> Exit:
    """Run the program until it ends, reaches a limit or is given up, and end all that is left of it."""
    bounds = job["bounds"]
    out, out_write = os.pipe()
    status, status_write = os.pipe()
    try:
        program = _start(job, out_write, status_write)
    except (OSError, subprocess.SubprocessError) as error:
        return {"exit": None, "limit": None, "error": f"{type(error).__name__}: {error}", "output": ""}
    os.close(out_write)
    os.close(status_write)
    output, limit = bytearray(), None
    meter = Meter(bounds["folder"], bounds["disk_bytes"], deadline) if bounds else None
    # Bubblewrap is two processes more.
    n_processes = bounds["n_processes"] + 2 * bool(bounds["wrapper"]) if bounds else 0
    watched = {out, 0}
    while program.poll() is None and limit is None:
        for fd in select.select(list(watched), [], [], POLL_S)[0]:
            chunk = os.read(fd, 65536)
            if not chunk:
                watched.discard(fd)
            elif fd == out:
                _keep(output, chunk)
        below = _below(os.getpid(), n_processes + 1) if meter else []
        if 0 not in watched:
            limit = "abandoned"
        elif time.monotonic() > deadline:
            limit = "time"
        elif len(below) > n_processes:
            limit = "processes"
        elif meter and meter.is_over(below):
            limit = "disk"
    if limit and not bounds:
        with suppress(OSError, subprocess.TimeoutExpired):
            os.killpg(program.pid, signal.SIGTERM)
            program.wait(GRACE_S)
    sweep(program.pid, SWEEP_S if bounds else LONG_SWEEP_S)
    if limit is None and bounds and meter:
        # After the last process has ended, what is locked is opened to see.
        until = max(deadline, time.monotonic() + REMOVE_S)
        limit = "disk" if meter.is_exceeded(_files(bounds["folder"], unlock=True), until) else None
    for fd in (out, status):
        os.set_blocking(fd, False)
    while out in watched and (chunk := _read_left(out)):
        _keep(output, chunk)
    return _ending(bounds, program.returncode, _read_left(status), limit, output.decode("utf-8", "replace"))


def _start(job: Supervised, out: int, status: int) -> subprocess.Popen[bytes]:
    """Start the program in a session of its own. Raises OSError when it cannot be started."""
    bounds = job["bounds"]
    wrapper = bounds["wrapper"] if bounds else []
    if wrapper:
        wrapper = [wrapper[0], "--json-status-fd", str(status), *wrapper[1:]]
    user, group = (bounds and bounds["user"]) or (None, None)
    write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    streams = [
        os.open(path, mode, 0o600) for path, mode in zip(job["files"], (os.O_RDONLY, write, write), strict=False)
    ]
    stdin, stdout, stderr = (*streams, out, out)[:3]
    return subprocess.Popen(
        [*wrapper, *job["argv"]], stdin=stdin, stdout=stdout, stderr=stderr, cwd=job["work"], env=job["environ"],
        start_new_session=True, user=user, group=group, extra_groups=None if user is None else [],
        pass_fds=[status] if wrapper else [], preexec_fn=lambda: _limit(bounds),
    )  # fmt: skip


def _limit(bounds: Bounds | None) -> None:
    """Limit this process, which is about to become the program."""
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if bounds is None:
        return
    if not bounds["wrapper"]:
        _prctl(_NO_NEW_PRIVILEGES, 1)
    limits = [
        (resource.RLIMIT_AS, bounds["memory_bytes"]),
        (resource.RLIMIT_FSIZE, bounds["file_bytes"]),
        (resource.RLIMIT_NOFILE, bounds["n_files"]),
        (resource.RLIMIT_CPU, int(bounds["time_s"]) + 1),
        (resource.RLIMIT_CORE, 0),
    ]
    if sys.platform == "linux":
        # The kernel counts all that the user runs.
        user, n = os.getuid(), bounds["n_processes"]
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                n += os.stat(f"/proc/{name}").st_uid == user and len(os.listdir(f"/proc/{name}/task"))
        limits.append((resource.RLIMIT_NPROC, n))
    for what, most in limits:
        hard = resource.getrlimit(what)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(what, (allowed, allowed))
        except (OSError, ValueError):
            if sys.platform == "linux":
                raise


def _ending(bounds: Bounds | None, code: int | None, status: bytes, limit: str | None, output: str) -> Exit:
    """How the program ended, by the code of the process that was started and what bubblewrap says of its own."""
    if bounds is None:
        return {"exit": code, "limit": limit, "error": None, "output": output}
    error = None
    if limit is None and code is not None and code >= 0 and bounds["wrapper"]:
        # Bubblewrap's own failures end like the program's: only this shows that the program was started.
        if b'"exit-code"' not in status:
            error = output or "bubblewrap did not start it"
        elif 128 < code <= 128 + signal.NSIG:
            limit = "signal"
    if limit is None and error is None and (code is None or code < 0):
        limit = "signal"
    return {"exit": None if limit or error else code, "limit": limit, "error": error, "output": output}


def sweep(leader: int, seconds: float) -> None:
    """Kill all that is below this process until there is no child left to wait for, for some seconds at most."""
    until = time.monotonic() + seconds
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


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _prctl(option: int, value: int) -> None:
    if _LIBC:
        _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0)


# How much of the disk the program takes, and how all of that is removed.

_EVERY_S = 0.25
# Measuring takes at most a fifth of the time, however much there is to measure.
_REST = 4
# What an empty file takes as well: a place in a folder and in the table of files.
_LEAST_BYTES = 4096
_BLOCK_BYTES = 512


class Meter:
    """Measures, a few times a second at most, whether a folder takes more than `limit` bytes of the disk."""

    def __init__(self, folder: str, limit: int, deadline: float) -> None:
        self._folder, self._limit, self._device = folder, limit, os.stat(folder).st_dev
        self._deadline = deadline
        self._next = time.monotonic() + _EVERY_S

    def is_over(self, pids: Iterable[int]) -> bool:
        """True where too much is taken, by what is deleted and still open too; False between two looks."""
        began = time.monotonic()
        if began < self._next:
            return False
        over = self.is_exceeded(_files(self._folder, pids), self._deadline)
        ended = time.monotonic()
        self._next = ended + max(_EVERY_S, _REST * (ended - began))
        return over and ended < self._deadline

    def is_exceeded(self, files: Iterator[os.stat_result], until: float) -> bool:
        """True where these take too much, or are too many to be measured until then."""
        total = 0
        seen: set[int] = set()
        try:
            for found in files:
                if found.st_dev == self._device and found.st_ino not in seen:
                    total += max(found.st_blocks * _BLOCK_BYTES, _LEAST_BYTES)
                if total > self._limit or time.monotonic() > until:
                    return True
                if found.st_nlink != 1:
                    seen.add(found.st_ino)
        except OSError as error:
            # Folders so deep in one another that no path leads there.
            return error.errno == errno.ENAMETOOLONG
        return False


def remove(folder: str) -> None:
    """Remove a folder that no process uses any more, however deep it is and whatever its modes."""
    above: list[str] = []
    left = [_enter_folder(folder)]
    while left:
        if left[-1]:
            above.append(left[-1].pop())
            left.append(_enter_folder(above[-1]))
        else:
            left.pop()
            os.chdir("..")
            os.rmdir(above.pop() if above else folder)


def _enter_folder(folder: str) -> list[str]:
    """Go into a folder and remove the files there; return the names of its folders."""
    _unlock(folder)
    os.chdir(folder)
    with os.scandir(".") as found:
        entries = list(found)
    folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name)
    return folders


def _unlock(folder: str) -> None:
    # No lock keeps root out.
    if os.geteuid():
        os.chmod(folder, 0o700)


def _files(folder: str, pids: Iterable[int] = (), *, unlock: bool = False) -> Iterator[os.stat_result]:
    """Yield all that is below a folder, then the files without a name that `pids` keep open, as far as can be seen.

    What cannot be looked into now is left out. Raises OSError where a folder is too deep.
    """
    waiting = [folder]
    while waiting:
        at = waiting.pop()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            if unlock:
                _unlock(at)
            with os.scandir(at) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    with suppress(FileNotFoundError):
                        yield entry.stat(follow_symlinks=False)
    for pid in pids:
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    found = os.stat(f"/proc/{pid}/fd/{name}")
                    if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                        yield found
