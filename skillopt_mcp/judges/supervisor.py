"""Supervisor: a process of its own that runs one judged program, confined and limited, and leaves nothing behind.

It runs under `python -I -S`, and imports the standard library alone. Its one argument (json) says what to run; one line
of json on its standard output says how that ended. When its standard input ends, so has the process that asked, and
then the program is ended too. Every process that the program starts, in whatever session, is below this one, the
subreaper, until it is gone: no child left to wait for means that nothing is left at all. Its folder is removed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import NoReturn, TypedDict

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
        become_subreaper()
    if job["user"]:
        _give(job["folder"], job["user"])
    out_read, out_write = os.pipe()
    status_read, status_write = os.pipe()
    leader = os.fork()
    if leader == 0:
        or_exit(run_sandboxed, job, out_write, status_write)
    os.close(out_write)
    os.close(status_write)
    ending = _supervised(job, leader, out_read, status_read)
    with suppress(OSError):
        os.write(1, json.dumps(ending).encode() + b"\n")
    # Done here, because the caller may be gone by now; last, because it may take long.
    with suppress(OSError):
        remove(job["folder"])


def _supervised(job: Job, leader: int, out: int, status: int) -> Ending:
    """Return how the program ended, once nothing of it is left."""
    deadline = time.monotonic() + job["time_s"]
    output, reports, limit = bytearray(), bytearray(), None
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
                reports += chunk
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
    return _ending(bytes(reports), limit, bytes(output))


def _ending(reports: bytes, limit: str | None, output: bytes) -> Ending:
    facts: dict[str, object] = {}
    for line in reports.splitlines():
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


# What confines and limits the program, and how its leading process becomes it.

_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_SUBREAPER, _NO_NEW_PRIVILEGES = 1, 4, 36, 38
_NEW_NAMESPACES = 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000 | 0x08000000  # user, pid, net, mount, ipc
_PRIVATE, _RECURSIVE, _NO_SUID_DEV_EXEC = 1 << 18, 1 << 14, 2 | 4 | 8
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ, _READ_FILE = 1 << 0 | 1 << 2 | 1 << 3, 1 << 0 | 1 << 2  # execute and read, of folders and of files
_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
_STATUS_FD = 9
# Bubblewrap's own failures end like the program's: only this line shows that the program was started.
_ANNOUNCE = f"""echo '{{"started": true}}' >&{_STATUS_FD}; exec "$@" {_STATUS_FD}>&-"""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class Job(TypedDict):
    """What to run: `folder` holds `work` and `tmp`; `wrapper` is bwrap's part of the command line, [] without it.

    `user` is [user id, group id] to become first, [] to stay who one is: the kernel counts no processes of root.
    """

    argv: list[str]
    folder: str
    wrapper: list[str]
    landlock: bool
    reads: list[str]
    user: list[int]
    time_s: float
    memory_bytes: int
    file_bytes: int
    disk_bytes: int
    n_files: int
    n_processes: int


def become_subreaper() -> None:
    """Let this process inherit what is below it, and be read by no other."""
    _prctl(_SET_SUBREAPER, 1)
    _prctl(_SET_DUMPABLE, 0)


def run_sandboxed(job: Job, out: int, status: int) -> None:
    """Run the program in a session and, where available, namespaces of its own; report how it ended."""
    os.setsid()
    if job["user"]:
        user, group = job["user"]
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    confined = ""
    if sys.platform == "linux":
        _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if job["landlock"] and _can_unshare():
            confined = "+namespaces"
            _unshare()
            _prctl(_SET_DUMPABLE, 0)
            first = os.fork()
            if first:
                os.close(out)
                os.close(status)
                os.waitpid(first, 0)
                os._exit(0)
            # The first process of its own pid namespace: when it goes, the kernel kills all others in there.
            _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
            _own_proc()
            _loopback_up()
    level = "bwrap" if job["wrapper"] else f"landlock{confined}" if job["landlock"] else "none"
    os.write(status, json.dumps({"confined": level, "started": not job["wrapper"]}).encode() + b"\n")
    program = os.fork()
    if program == 0:
        or_exit(_exec_program, job, out, status, bool(confined))
    os.close(out)
    while True:
        pid, ended = os.wait()
        if pid == program:
            os.write(status, json.dumps({"status": ended}).encode() + b"\n")
            os._exit(0)


def _exec_program(job: Job, out: int, status: int, own_network: bool) -> None:
    """Replace this process by the program."""
    work, tmp = os.path.join(job["folder"], "work"), os.path.join(job["folder"], "tmp")
    answer = os.open(os.path.join(work, "answer.txt"), os.O_RDONLY)
    for fd, copy in ((answer, 0), (out, 1), (out, 2)):
        os.dup2(fd, copy)
    os.chdir(work)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    path = f"{os.path.dirname(job['argv'][0])}:/usr/local/bin:/usr/bin:/bin"
    environment = {"PATH": path, "LANG": os.environ.get("LANG", "C.UTF-8"), "HOME": tmp, "TMPDIR": tmp}
    _limit(job, alone=own_network)
    if sys.platform == "linux":
        _prctl(_NO_NEW_PRIVILEGES, 1)
        if job["landlock"]:
            _landlock(job, own_network)
    argv = job["argv"]
    if job["wrapper"]:
        os.dup2(status, _STATUS_FD)
        argv = [*job["wrapper"], "/bin/sh", "-c", _ANNOUNCE, "sh", *argv]
    os.execve(argv[0], argv, environment)


def _limit(job: Job, *, alone: bool) -> None:
    limits = [
        (resource.RLIMIT_AS, job["memory_bytes"]),
        (resource.RLIMIT_FSIZE, job["file_bytes"]),
        (resource.RLIMIT_NOFILE, job["n_files"]),
        (resource.RLIMIT_CPU, int(job["time_s"]) + 1),
        (resource.RLIMIT_CORE, 0),
    ]
    if sys.platform == "linux":
        # In a namespace of its own only what runs in there is counted, else all that the user runs.
        limits.append((resource.RLIMIT_NPROC, job["n_processes"] + (2 if alone else _n_of_user())))
    for what, most in limits:
        hard = resource.getrlimit(what)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(what, (allowed, allowed))
        except (OSError, ValueError):
            if sys.platform == "linux":
                raise


def _landlock(job: Job, own_network: bool) -> None:
    """Give up all access to files but reading `reads` and using the folder; and to TCP, signals and sockets outside."""
    abi = _syscall(_CREATE_RULESET, None, 0, 1)
    handled = (1 << 13) - 1 | (abi >= 2) << 13 | (abi >= 3) << 14 | (abi >= 5) << 15
    network = 0b11 if abi >= 4 and not own_network else 0
    scoped = 0b11 if abi >= 6 else 0
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _syscall(_CREATE_RULESET, struct.pack("QQQ", handled, network, scoped)[:size], size, 0)
    allowed = [(path, _READ) for path in job["reads"]] + [(path, _READ_FILE | 1 << 1) for path in _DEVICES]
    if own_network:
        allowed.append(("/proc", _READ))
    for path, rights in [*allowed, (job["folder"], handled)]:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rights &= handled if os.path.isdir(path) else handled & _FILE_RIGHTS
        _syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, fd), 0)
        os.close(fd)
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _can_unshare() -> bool:
    """Return whether namespaces can be had, tried in a process that is thrown away."""
    child = os.fork()
    if child == 0:
        try:
            _unshare()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _unshare() -> None:
    """Move into new namespaces, with the user's own id in them. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    # The files of a process that cannot be dumped belong to root.
    _prctl(_SET_DUMPABLE, 1)
    if _LIBC.unshare(_NEW_NAMESPACES):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _own_proc() -> None:
    """Mount a /proc that shows this namespace alone; where that is refused, the old one stays, and stays unreadable."""
    _LIBC.mount(b"none", b"/", None, _PRIVATE | _RECURSIVE, None)
    if _LIBC.mount(b"proc", b"/proc", b"proc", _NO_SUID_DEV_EXEC, None):
        _LIBC.mount(b"none", b"/proc", b"tmpfs", _NO_SUID_DEV_EXEC, None)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))


def _n_of_user() -> int:
    user, n = os.getuid(), 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                n += os.stat(f"/proc/{name}").st_uid == user and len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return n


def or_exit(step: object, job: Job, out: int, status: int, *rest: object) -> NoReturn:
    """Run a step that ends this process; when it fails, say so on the status pipe."""
    try:
        assert callable(step)
        step(job, out, status, *rest)
    except (OSError, ValueError, AttributeError) as error:
        os.write(status, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
    finally:
        os._exit(127)


def _prctl(option: int, value: int) -> None:
    _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _syscall(number: int, *arguments: object) -> int:
    result: int = _LIBC.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}: {os.strerror(ctypes.get_errno())}")
    return result


# How much of the disk the program takes, and how all of that is removed.

_EVERY_S = 0.25
# Measuring takes at most a fifth of the time, however much there is to measure.
_REST = 4
# What an empty file takes as well: a place in a folder and in the table of files.
_LEAST_BYTES = 4096
_BLOCK_BYTES = 512


class Meter:
    """Measures, a few times a second at most, whether a folder takes more than `limit` bytes of the disk."""

    def __init__(self, folder: str, limit: int) -> None:
        self._folder, self._limit, self._device = folder, limit, os.stat(folder).st_dev
        self._next = time.monotonic() + _EVERY_S

    def is_over(self, pids: Iterable[int]) -> bool:
        """Return whether too much is taken, by what is deleted and still open too; False between two looks."""
        began = time.monotonic()
        if began < self._next:
            return False
        over = self._is_over(chain(_files(self._folder), _deleted(pids)))
        ended = time.monotonic()
        self._next = ended + max(_EVERY_S, _REST * (ended - began))
        return over

    def was_over(self) -> bool:
        """Return whether too much is taken, after the last process has ended: what is locked is opened to see."""
        return self._is_over(_files(self._folder, unlock=True))

    def _is_over(self, files: Iterator[os.stat_result]) -> bool:
        total = 0
        seen: set[int] = set()
        try:
            for found in files:
                if found.st_dev == self._device and found.st_ino not in seen:
                    total += max(found.st_blocks * _BLOCK_BYTES, _LEAST_BYTES)
                if total > self._limit:
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
    left = [_entered(folder)]
    while left:
        if left[-1]:
            above.append(left[-1].pop())
            left.append(_entered(above[-1]))
        else:
            left.pop()
            os.chdir("..")
            os.rmdir(above.pop() if above else folder)


def _entered(folder: str) -> list[str]:
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


def _files(folder: str, *, unlock: bool = False) -> Iterator[os.stat_result]:
    """Yield all that is below a folder, but for what cannot be looked into now. Raises OSError where it is too deep."""
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


def _deleted(pids: Iterable[int]) -> Iterator[os.stat_result]:
    """Yield the files that have no name any more and that processes keep open, as far as that can be seen."""
    for found in chain.from_iterable(map(_opened, pids)):
        if stat.S_ISREG(found.st_mode) and not found.st_nlink:
            yield found


def _opened(pid: int) -> Iterator[os.stat_result]:
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                yield os.stat(f"/proc/{pid}/fd/{name}")
