"""Confinement: what keeps a judged program from the rest of the machine, and what it may read there."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

if sys.platform != "win32":
    import pwd

Level = Literal["bwrap", "landlock", "none"]

SYSTEM_FOLDERS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/opt",
    "/nix",
    "/snap",
    "/sys/devices/system/cpu",
)
_PREFIX_PARTS = ("bin", "lib", "lib64", "libexec", "include", "share", "pyvenv.cfg")
_CREATE_RULESET = 444
_SET_DUMPABLE = 4
_PROBE_S = 10
_LINKS = 40
_USE = {True: "run", False: "read"}


@cache
def best_level() -> Level:
    """Return the strongest confinement that works here: bubblewrap, else Landlock, else none."""
    if sys.platform != "linux":
        return "none"
    if bwrap_works():
        return "bwrap"
    return "landlock" if landlock_abi() > 0 else "none"


@cache
def bwrap_works() -> bool:
    """Return whether bubblewrap is installed and allowed to do its work."""
    path = shutil.which("bwrap")
    if path is None:
        return False
    command = [*bwrap_line(path, "/tmp", SYSTEM_FOLDERS, chdir="/"), shutil.which("true") or "/bin/true"]
    try:
        return subprocess.run(command, capture_output=True, timeout=_PROBE_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@cache
def landlock_abi() -> int:
    """Return the version of Landlock that the kernel speaks, 0 when none."""
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def bwrap_line(path: str, folder: str, reads: Sequence[str], chdir: str) -> list[str]:
    """Return the beginning of a command line that runs the rest with `folder` writable and `reads` readable alone."""
    readable = [part for read in reads for part in ("--ro-bind-try", read, read)]
    return [
        path, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", *readable, "--proc", "/proc",
        "--dev", "/dev", "--bind", folder, folder, "--chdir", chdir, "--",
    ]  # fmt: skip


def readable_paths(argv: Sequence[str], further: Sequence[str]) -> list[str]:
    """Return what a command may read: the system, the installation of its program, the files its line names, `further`.

    A program in PREFIX/bin reads PREFIX's lib, share and so on; other files of a home folder are not among them.
    """
    found: dict[str, None] = dict.fromkeys([*SYSTEM_FOLDERS, *further])
    for part in argv:
        path = Path(part)
        if not path.is_absolute() or not path.is_file():
            continue
        # An interpreter beside the program, or a link, leads to another installation.
        beside = path.parent / "python3" if path.parent.name == "bin" else path
        for each in (path, Path(os.path.realpath(path)), beside, Path(os.path.realpath(beside))):
            found[str(each)] = None
            if each.parent.name == "bin":
                found |= dict.fromkeys(str(each.parent.parent / name) for name in _PREFIX_PARTS)
    inside = [path for path in found if any(str(parent) in found for parent in Path(path).parents)]
    return [path for path in found if path not in inside and os.path.exists(path)]


def unprivileged_user() -> list[int]:
    """Return [user id, group id] of the user that programs run as when this process is root's, else []."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return []
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return [65534, 65534]
    return [nobody.pw_uid, nobody.pw_gid]


def name_of(user: Sequence[int]) -> str:
    """Return the name of a user ([user id, group id]), its number where it has none, "" where there is no user."""
    if not user:
        return ""
    try:
        return pwd.getpwuid(user[0]).pw_name
    except KeyError:
        return str(user[0])


def barred(argv: Sequence[str], user: Sequence[int]) -> str:
    """Return which file that a command line names a user ([user id, group id]) cannot reach, and why, or "".

    A link is followed: what it leads through counts as well. Access lists, where there are any, are not looked at.
    """
    for part in filter(os.path.isabs, argv if user else ()):
        for path in _led_through(part):
            leads = f" leads to '{path}'" if str(path) != part else ""
            closed = next((each for each in reversed(path.parents) if not _may(each, user, 0o1)), None)
            if closed is not None:
                return f"'{part}'{leads}: the user '{name_of(user)}' may not enter the folder '{closed}'"
            if not path.is_symlink() and path.is_file() and not _may(path, user, 0o1 if part == argv[0] else 0o4):
                return f"'{part}'{leads}: the user '{name_of(user)}' may not {_USE[part == argv[0]]} it"
    return ""


def _led_through(part: str) -> Iterator[Path]:
    """Yield a path and what each link in its last place leads to, with the links in their folders resolved."""
    for _ in range(_LINKS):
        path = Path(os.path.realpath(os.path.dirname(part)), os.path.basename(part))
        yield path
        if not path.is_symlink():
            return
        part = os.path.join(path.parent, os.readlink(path))


def _may(path: Path, user: Sequence[int], right: int) -> bool:
    """Return whether the mode of a file or folder gives a user a right (1 to enter or run, 4 to read)."""
    try:
        found = os.stat(path)
    except OSError:
        return True
    shift = 6 if found.st_uid == user[0] else 3 if found.st_gid == user[1] else 0
    return bool(found.st_mode >> shift & right)


@contextmanager
def unreadable() -> Iterator[None]:
    """Keep other processes of the user from reading this one (its environment and memory) for a while."""
    if sys.platform != "linux":
        yield
        return
    with _lock:
        _holders.append(None)
        _libc().prctl(_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)
    try:
        yield
    finally:
        with _lock:
            _holders.pop()
            if not _holders:
                _libc().prctl(_SET_DUMPABLE, ctypes.c_ulong(1), 0, 0, 0)


_lock = threading.Lock()
_holders: list[None] = []


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
