"""Driver: the one place that imports SQLite, judges whether it is safe, and says how a connection is made."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, getrlimit
from types import ModuleType
from typing import Any, Protocol

from skillopt_mcp.core.errors import BadInput, SkillOptError, StoreError, UnsafeStore

BUSY_TIMEOUT_S = 30
# What SQLite needs to begin at all: its shared memory and a page or two.
_LEAST_ROOM = 1 << 17
# What one transaction may add to a file.
_MOST_AT_ONCE = 1 << 26
_DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
# What is raised by a copy of a whole database carries no name.
_UNNAMED = {
    "database or disk is full": "SQLITE_FULL",
    "disk I/O error": "SQLITE_IOERR",
    "database disk image is malformed": "SQLITE_CORRUPT",
    "file is not a database": "SQLITE_NOTADB",
    "attempt to write a readonly database": "SQLITE_READONLY",
    "unable to open database file": "SQLITE_CANTOPEN",
    "database is locked": "SQLITE_BUSY",
}
_SETTINGS = (
    "pragma page_size = 1024",  # of a new store: each commit writes whole pages, and most rows are small
    "pragma synchronous = full",
    "pragma wal_autocheckpoint = 8000",  # pages: a hot one is copied once, and a commit soon need not grow the log
    "pragma journal_size_limit = 67108864",
    "pragma trusted_schema = off",
    "pragma cell_size_check = on",
    "pragma mmap_size = 0",
    "pragma secure_delete = on",
)


class Cursor(Protocol):
    """What we use of a cursor."""

    @property
    def rowcount(self) -> int: ...
    @property
    def lastrowid(self) -> int | None: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """What we use of a connection, whichever library it comes from."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, values: Sequence[object] = ..., /) -> Cursor: ...
    def executemany(self, sql: str, rows: Iterable[Sequence[object]], /) -> Cursor: ...
    def backup(self, target: Any, /, *, pages: int, progress: Callable[[int, int, int], object]) -> None: ...
    def close(self) -> None: ...


@cache
def sqlite() -> ModuleType:
    """Return the driver, which takes 70 ms to load: pysqlite3 where it is installed."""
    try:
        return import_module("pysqlite3")
    except ImportError:
        return import_module("sqlite3")


def is_safe_for_wal(version: tuple[int, ...]) -> bool:
    """Return whether a SQLite of this version is free of the WAL-reset bug (fixed in 3.51.3, 3.50.7 and 3.44.6).

    Two processes that write and checkpoint at one instant can lose a commit: https://sqlite.org/wal.html#walresetbug
    """
    if version >= (3, 51, 3):
        return True
    return (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)


def sqlite_version() -> tuple[int, ...]:
    """Return the version of the SQLite that is linked."""
    return tuple(int(part) for part in str(sqlite().sqlite_version).split("."))


def connect(path: Path) -> Connection:
    """Return a connection with the settings that every connection has. Raises StoreError when it cannot be opened."""
    with storage_errors(path):
        connection: Connection = sqlite().connect(
            str(path), timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=1000
        )
        try:
            for setting in _SETTINGS:
                connection.execute(setting)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn every failure of SQLite into a StoreError that says what to do, a value it cannot hold into BadInput."""
    try:
        yield
    except failures() as error:
        raise explained(error, path) from error


@cache
def failures() -> tuple[type[Exception], ...]:
    """Return what a failure of the storage, or a value that it cannot hold, is raised as."""
    return (sqlite().Error, UnicodeError, OverflowError)


def explained(error: Exception, path: Path) -> SkillOptError:
    """Return one of the `failures` as the error that says what to do."""
    if _is_undecodable(error):
        return _damaged(path)
    if isinstance(error, UnicodeError | OverflowError):
        return BadInput(f"a value cannot be stored ({error}): use text of valid Unicode, and smaller numbers")
    name = _name(error)
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")) and (why := _hindrance(path, name)):
        return StoreError(
            f"the store '{path}' cannot be used there, for {why}, and even to read it takes writing: mend that, or "
            f"copy it (cp -r {shlex.quote(str(path))}* FOLDER) and name the copy with --store"
        )
    if name.startswith("SQLITE_READONLY"):
        return StoreError(f"the store '{path}' is read-only: make it writable, or name another with --store")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreError(f"the store '{path}' cannot be opened: check the folder's permissions, or use --store")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")) and (why := _no_room(path, name)):
        return StoreError(f"the store '{path}' cannot be written, for {why}, and go on: what was stored is kept")
    if name.startswith("SQLITE_IOERR"):
        return StoreError(
            f"the store '{path}' failed ({error}): if its -wal file was removed, end each process that uses the store, "
            "which brings the rows back"
        )
    if is_busy(error):
        return StoreError(f"the store '{path}' was locked for {BUSY_TIMEOUT_S} s: another process holds it; try again")
    if name.startswith(_DAMAGE):
        return _damaged(path)
    return StoreError(f"the store '{path}' failed: {error}")


def is_damage(error: Exception) -> bool:
    """Return whether one of the `failures` is that what was read is damaged or no database."""
    return _is_undecodable(error) or _name(error).startswith(_DAMAGE)


def _is_undecodable(error: Exception) -> bool:
    """Return whether what was read is not text; the error itself would show it."""
    return isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode to UTF-8")


def is_busy(error: Exception) -> bool:
    """Return whether one of the `failures` is that another process has the store, or a lock in it."""
    return _name(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _name(error: Exception) -> str:
    """Return SQLite's name of an error, "" where it has none."""
    return getattr(error, "sqlite_errorname", "") or _UNNAMED.get(str(error), "")


def _hindrance(path: Path, name: str) -> str:
    """Return the cause of a failure of this name, "" where it is unknown."""
    return _of_folder(path.parent) or ("" if name.startswith("SQLITE_READONLY") else _of_files(path))


def _no_room(path: Path, name: str) -> str:
    """Return why there is no space for a store, with what to do about it, "" where that is unknown."""
    with suppress(OSError):
        room = os.statvfs(path.parent)
        if name.startswith("SQLITE_FULL") or room.f_bavail * room.f_frsize < _LEAST_ROOM:
            return f"the disk of '{path.parent}' is full: free some space"
    longest = getrlimit(RLIMIT_FSIZE)[0]
    if longest != RLIM_INFINITY and longest < _length(path) + _MOST_AT_ONCE:
        return f"no file may be longer than {longest:,} bytes here: raise the limit (ulimit -f)"
    return ""


def _length(path: Path) -> int:
    """Return how long the longest of a store's files is."""
    files = [f"{path}{end}" for end in ("", "-wal")]
    return max((os.path.getsize(file) for file in files if os.path.exists(file)), default=0)


def _of_folder(folder: Path) -> str:
    """Return why the user cannot write in a store's folder, "" where that is unknown."""
    try:
        is_read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return ""
    if is_read_only:
        return f"'{folder}' lies on a read-only file system"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"you have no permission to write in '{folder}'"


def _of_files(path: Path) -> str:
    """Return why the user cannot use a store's files, "" where that is unknown."""
    files = [f"{path}{end}" for end in ("", "-wal", "-shm")]
    if any(os.path.exists(file) and not os.access(file, os.R_OK | os.W_OK) for file in files):
        return f"you have no permission to read and write it (chmod 600 {shlex.quote(str(path))}*)"
    return ""


def _damaged(path: Path) -> UnsafeStore:
    return UnsafeStore(f"'{path}' is damaged or no store: nothing was changed; restore a backup or use --store")
