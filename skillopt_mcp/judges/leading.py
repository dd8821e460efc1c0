"""Leading: the process above a judged program: what confines and limits it, and how it becomes the program.

Like the supervisor, it imports the standard library alone.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import NoReturn, TypedDict

_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_SUBREAPER, _NO_NEW_PRIVILEGES = 1, 4, 36, 38
_NEW_NAMESPACES = 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000 | 0x08000000  # user, pid, net, mount, ipc
_PRIVATE, _RECURSIVE, _NO_SUID_DEV_EXEC = 1 << 18, 1 << 14, 2 | 4 | 8
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ, _READ_FILE = 1 << 0 | 1 << 2 | 1 << 3, 1 << 0 | 1 << 2  # execute and read, of folders and of files
_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
_STATUS_FD = 9
# Bubblewrap's own failures end like the program's: only this line tells that it came as far as the program.
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


def become_overseer() -> None:
    """Let this process inherit what is below it, and be read by no other."""
    _prctl(_SET_SUBREAPER, 1)
    _prctl(_SET_DUMPABLE, 0)


def lead(job: Job, out: int, status: int) -> None:
    """Lead the program's session and, where they can be had, its namespaces; tell how it ended."""
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
        or_exit(_become, job, out, status, bool(confined))
    os.close(out)
    while True:
        pid, ended = os.wait()
        if pid == program:
            os.write(status, json.dumps({"status": ended}).encode() + b"\n")
            os._exit(0)


def _become(job: Job, out: int, status: int, own_network: bool) -> None:
    """Become the program."""
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


_LIBC = ctypes.CDLL(None, use_errno=True)
