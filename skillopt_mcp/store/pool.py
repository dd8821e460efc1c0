"""Pool: the one place that imports SQLite, judges whether it is safe, and reads and writes a store's file.

A `Pool` lends connections to one file; how a new file is made is below it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, getrlimit
from types import ModuleType
from typing import Any, Protocol

from skillopt_mcp.core.errors import BadInput, SkillOptError, StoreError, UnsafeStore
from skillopt_mcp.store.files import (
    Mark,
    boot_id,
    is_empty,
    make_private,
    read_mark,
    refuse_network_file_system,
    write_mark,
)

Value = str | int | float | bytes | None
Row = tuple[Any, ...]
_COUNT_EVERY_S = 0.1
_COUNT = "insert into mark(id, n) values (1, 1) on conflict(id) do update set n = n + 1"
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
    """Whether a SQLite of this version is free of the WAL-reset bug (fixed in 3.51.3, 3.50.7 and 3.44.6).

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
        raise explain_failure(error, path) from error


@cache
def failures() -> tuple[type[Exception], ...]:
    """What a failure of the storage, or a value that it cannot hold, is raised as."""
    return (sqlite().Error, UnicodeError, OverflowError)


def explain_failure(error: Exception, path: Path) -> SkillOptError:
    """Return one of the `failures` as the error that says what to do."""
    if is_damage(error):
        return UnsafeStore(f"'{path}' is damaged or no store: nothing was changed; restore a backup or use --store")
    if isinstance(error, UnicodeError | OverflowError):
        return BadInput(f"a value cannot be stored ({error}): use text of valid Unicode, and smaller numbers")
    name, why = _name(error), _find_cause(path, _name(error))
    if why and name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
        return StoreError(
            f"the store '{path}' cannot be used there, for {why}, and even to read it takes writing: mend that, or "
            f"copy it (cp -r {shlex.quote(str(path))}* FOLDER) and name the copy with --store"
        )
    if name.startswith("SQLITE_READONLY"):
        return StoreError(f"the store '{path}' is read-only: make it writable, or name another with --store")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreError(f"the store '{path}' cannot be opened: check the folder's permissions, or use --store")
    if why and name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return StoreError(f"the store '{path}' cannot be written, for {why}, and go on: what was stored is kept")
    if name.startswith("SQLITE_IOERR"):
        return StoreError(
            f"the store '{path}' failed ({error}): if its -wal file was removed, end each process that uses the store, "
            "which brings the rows back"
        )
    if is_busy(error):
        return StoreError(f"the store '{path}' was locked for {BUSY_TIMEOUT_S} s: another process holds it; try again")
    return StoreError(f"the store '{path}' failed: {error}")


def is_damage(error: Exception) -> bool:
    """Whether one of the `failures` is that what was read is damaged or no database."""
    # What is not text is not shown, as the error itself would.
    is_undecodable = isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode to UTF-8")
    return is_undecodable or _name(error).startswith(_DAMAGE)


def is_busy(error: Exception) -> bool:
    """Whether one of the `failures` is that another process has the store, or a lock in it."""
    return _name(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _name(error: Exception) -> str:
    """Return SQLite's name of an error, "" where it has none."""
    return getattr(error, "sqlite_errorname", "") or _UNNAMED.get(str(error), "")


def _find_cause(path: Path, name: str) -> str:
    """Why a store cannot be used (or has no space left, and what to do about it); "" where that is unknown."""
    folder = path.parent
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
        with suppress(OSError):
            if os.statvfs(folder).f_flag & os.ST_RDONLY:
                return f"'{folder}' lies on a read-only file system"
            if not os.access(folder, os.W_OK | os.X_OK):
                return f"you have no permission to write in '{folder}'"
        files = [f"{path}{end}" for end in ("", "-wal", "-shm") if not name.startswith("SQLITE_READONLY")]
        if any(os.path.exists(file) and not os.access(file, os.R_OK | os.W_OK) for file in files):
            return f"you have no permission to read and write it (chmod 600 {shlex.quote(str(path))}*)"
    elif name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        with suppress(OSError):
            space = os.statvfs(folder)
            if name.startswith("SQLITE_FULL") or space.f_bavail * space.f_frsize < _LEAST_ROOM:
                return f"the disk of '{folder}' is full: free some space"
        longest = getrlimit(RLIMIT_FSIZE)[0]
        lengths = [os.path.getsize(file) for file in (path, f"{path}-wal") if os.path.exists(file)]
        if longest != RLIM_INFINITY and longest < max(lengths, default=0) + _MOST_AT_ONCE:
            return f"no file may be longer than {longest:,} bytes here: raise the limit (ulimit -f)"
    return ""


class Pool:
    """Connections that are lent for one operation each, so that none is ever shared by two threads at once."""

    def __init__(self, path: Path, on_open: Callable[[], None] | None = None) -> None:
        """Open the store at `path`, made when needed; with `on_open` on its first use, when that is called.

        Raises StoreError and its kinds.
        """
        self.path = path
        self._lock, self._is_open, self._is_opening, self._on_open = threading.RLock(), False, False, on_open
        self._index: tuple[int, int] | None = None
        # Taken from and given back to without a lock: a Ctrl-C just as one is taken would leave it held for good.
        self._idle: list[Connection] = []
        self._within = threading.local()  # its `connection` is that of a joined write
        self._pid = os.getpid()
        self._closed = False
        self._counted_at = -_COUNT_EVERY_S
        if on_open is None:
            self.open()

    @property
    def is_made(self) -> bool:
        """Whether the file is there, so that opening it makes none; what cannot be looked at may be there."""
        try:
            return self._is_open or bool(os.lstat(self.path))
        except OSError as error:
            return not isinstance(error, FileNotFoundError)

    def open(self) -> None:
        """Open the store unless it is open. Raises StoreError and its kinds."""
        with self._lock:
            if self._is_open or self._is_opening:
                return
            self._is_opening = True
            try:
                self._connect()
                if self._on_open:
                    self._on_open()
                self._is_open = True
            finally:
                self._is_opening = False

    def _connect(self) -> None:
        path = self.path
        refuse_network_file_system(path)
        make_private(path)
        # Looked at before it is opened: one that is replaced in between is found out by the first that is lent.
        self._file = _file_at(path)
        self._log_path, self._index_path = Path(f"{path}-wal"), Path(f"{path}-shm")
        self._refuse_second_index()
        connection = connect(path)
        try:
            prepare(connection, path)
            modes = [connection.execute(f"pragma {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
            self._may_be_lazy = modes == ["wal", 2]
            # They stay as long as we have a connection: SQLite removes them with the last one.
            self._log = _file_at(self._log_path) if modes[0] == "wal" else None
            self._index = _file_at(self._index_path) if modes[0] == "wal" else None
            connection.execute("pragma foreign_keys = on")
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    @contextmanager
    def _lend(self) -> Iterator[Connection]:
        """Lend a connection, within a joined write its own; failures of the storage become StoreError."""
        writing: Connection | None = getattr(self._within, "connection", None)
        if writing:
            yield writing
            return
        if self._closed or os.getpid() != self._pid:
            raise StoreError(f"the store '{self.path}' is closed in this process: open it again")
        if not self._is_open:
            self.open()
        self._check_there()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self.path)
            connection.execute("pragma foreign_keys = on")
        try:
            yield connection
        except failures() as error:
            raise explain_failure(error, self.path) from error
        finally:
            self._idle.append(connection)
            if self._closed:
                self._close_idle()

    @contextmanager
    def write(self, *, evidence: bool = False, joined: bool = False) -> Iterator[Connection]:
        """Lend a connection inside BEGIN IMMEDIATE: committed at the end, rolled back when anything is raised.

        A power cut may take back the last commits of mere `evidence`, never anything else; the end of a process none.
        They are counted in the store's mark, those of evidence a few times a second at most. Where it is `joined`, what
        the thread reads and writes within is a part of it.
        """
        with self._lend() as connection:
            if connection is getattr(self._within, "connection", None):
                yield connection
                return
            is_lazy = evidence and self._may_be_lazy
            mark = None
            try:
                if is_lazy:
                    connection.execute("pragma synchronous = normal")
                # Within: a Ctrl-C during it is raised once it is through, and would leave the transaction open.
                connection.execute("begin immediate")
                # Again: it may have been replaced while we waited for the lock.
                self._check_there()
                before = connection.execute(_CHANGES).fetchone()
                self._within.connection = connection if joined else None
                try:
                    yield connection
                finally:
                    self._within.connection = None
                is_counted = not is_lazy or time.monotonic() - self._counted_at > _COUNT_EVERY_S
                if is_counted and connection.execute(_CHANGES).fetchone() != before:
                    known = read_mark(self.path)
                    [n] = connection.execute("select coalesce(max(n), 0) from mark").fetchone()
                    if not known or known.n_claimed <= n:  # else rows are gone, and both stand still
                        connection.execute(_COUNT)
                        last = connection.execute("select seq, hash from event order by seq desc limit 1").fetchone()
                        n_synced = n + 1 if not is_lazy else known.n_synced if known else 0
                        mark = Mark(n + 1, boot_id(), n_synced, *(last or ()))
                    self._counted_at = time.monotonic()
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
            finally:
                if is_lazy:
                    connection.execute("pragma synchronous = full")
        if mark:
            write_mark(self.path, mark)

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return all rows of one select, fetched before the connection goes back."""
        with self._lend() as connection:
            found: list[Row] = connection.execute(sql, values).fetchall()
            return found

    def row(self, sql: str, values: Sequence[Value] = ()) -> Row | None:
        """Return the first row of one select, or None."""
        with self._lend() as connection:
            found: Row | None = connection.execute(sql, values).fetchone()
            return found

    def number(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Return the first value of one select as an integer, 0 where there is none."""
        row = self.row(sql, values)
        return int(row[0] or 0) if row else 0

    def text(self, sql: str, values: Sequence[Value] = ()) -> str:
        """Return the first value of one select as a text, "" where there is none."""
        row = self.row(sql, values)
        return "" if row is None or row[0] is None else str(row[0])

    def compact(self, wait_ms: int) -> bool:
        """Rewrite the file without its free pages, and empty the log; False where another process prevented that.

        Readers and writers are waited for `wait_ms`.
        """
        with self._lend() as connection:
            [before] = connection.execute("pragma busy_timeout").fetchone()
            connection.execute(f"pragma busy_timeout = {wait_ms}")
            try:
                connection.execute("vacuum")
                [is_kept, *_] = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
            except failures() as error:
                if not is_busy(error):
                    raise
                return False
            finally:
                connection.execute(f"pragma busy_timeout = {before}")
        return not is_kept

    def _refuse_second_index(self) -> None:
        """Raise StoreError where another process uses the store by an index of its log (-shm) that was removed.

        We would make a second one, and each would overwrite what the other commits.
        """
        deadline = time.monotonic() + _OTHERS_S
        while not self._index_path.exists():
            if not os.path.isfile(self.path) or not os.path.getsize(self.path):
                return
            try:
                with closing(sqlite().connect(self.path, timeout=0, isolation_level=None)) as probe:
                    # Without an index in a file, and only where no other process has the store open.
                    probe.execute("pragma locking_mode = exclusive")
                    probe.execute("select 1 from sqlite_schema").fetchone()
                return
            except failures() as error:
                if not is_busy(error):
                    return  # opening it says what is wrong
            if time.monotonic() > deadline:
                raise StoreError(_INDEX_LOST.format(path=self._index_path))
            time.sleep(0.01)

    def _check_there(self) -> None:
        """Raise StoreError when a file at our path is not what we opened: what we, or others, wrote would be lost."""
        if self._file is None or _file_at(self.path) != self._file:
            raise StoreError(
                f"the store '{self.path}' was removed, moved or replaced while this ran: nothing more is written, for "
                "it would be lost. End this process (where a host runs the server: disconnect it there), see that the "
                "right store is in that place (a backup: skillopt-mcp store restore FILE), then start again"
            )
        if self._log and _file_at(self._log_path) != self._log:
            # What it holds goes into the file, where no other process has begun a new one.
            n_bytes = 0
            with suppress(FileNotFoundError):
                n_bytes = os.path.getsize(self._log_path)
            if not n_bytes:
                with suppress(IndexError, *failures()):
                    connection = self._idle.pop()
                    try:
                        connection.execute("pragma wal_checkpoint(passive)")
                    finally:
                        self._idle.append(connection)
            raise StoreError(
                f"'{self._log_path}' was removed or replaced while this ran: nothing more is written. End "
                "all that use the store (a host's server: disconnect it there), then: skillopt-mcp store verify"
            )
        if self._index and _file_at(self._index_path) != self._index:
            raise StoreError(_INDEX_LOST.format(path=self._index_path))

    def close(self) -> None:
        """Close every idle connection; the lent ones are closed when they come back. A forked child leaves them be."""
        if os.getpid() != self._pid:
            return
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        # The last to close copies the log into the file by its index, and removes both: by an old one, others' rows go.
        is_stale = self._index and _file_at(self._index_path) not in (None, self._index)
        with suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if is_stale:
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # the end of the process closes it
                else:
                    connection.close()


def _file_at(path: Path) -> tuple[int, int] | None:
    """Which file is at a path, None when there is none, or it cannot be read."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_OTHERS_S = 2.0
_INDEX_LOST = (
    "'{path}' was removed or replaced while the store was in use: nothing more is written. End all that use the store "
    "(a host's server: disconnect it there; a replay), which keeps what was stored, then start again"
)
_CHANGES = "select total_changes()"
APPLICATION_ID = 0x534B4F50
_PACKAGE = Path(__file__).resolve().parent.parent
_FOLDERS = (_PACKAGE / "sql", _PACKAGE.parent / "store")


@cache
def schema_folder() -> Path:
    """Return where the schema and its description are: shipped inside the package, or next to it in a checkout."""
    for folder in _FOLDERS:
        if (folder / "schema.sql").is_file():
            return folder
    raise StoreError(f"this installation lacks its schema (looked in '{_FOLDERS[0]}'): install skillopt-mcp again")


@cache
def schema_sql() -> str:
    """Return the schema with its views."""
    return "\n".join((schema_folder() / name).read_text("utf-8") for name in ("schema.sql", "views.sql"))


@cache
def schema_id() -> int:
    """Return the number that a store with this schema carries as its user_version."""
    return int(hashlib.sha256(schema_sql().encode()).hexdigest()[:7], 16)


def prepare(connection: Connection, path: Path) -> None:
    """Make the schema in an empty file, and check every other one, before anything is changed.

    Raises StoreError when the file is not a store, or one of another version, UnsafeStore when this SQLite may not use
    its journal mode.
    """
    with storage_errors(path):
        is_new = not has_schema(connection, path)
        _set_journal_mode(connection, path, is_new=is_new)
        if not is_new:
            return
        connection.execute("begin immediate")
        try:
            if not has_schema(connection, path):  # another process may have been faster
                if read_mark(path):  # it had rows, in a log that was removed
                    raise is_empty(path)
                pending = ""
                for line in schema_sql().splitlines(keepends=True):  # executescript would commit the transaction
                    pending += line
                    if line.rstrip().endswith(";") and sqlite().complete_statement(pending):
                        connection.execute(pending)
                        pending = ""
                connection.execute(f"pragma application_id = {APPLICATION_ID}")
                connection.execute(f"pragma user_version = {schema_id()}")
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise


def has_schema(connection: Connection, path: Path) -> bool:
    """Whether a file is a store, False when it is empty. Raises StoreError when it is anything else."""
    # One statement, one moment: between two, another process may make the store.
    owner, version, n_objects = connection.execute(
        "select (select application_id from pragma_application_id), (select user_version from pragma_user_version),"
        " (select count(*) from sqlite_schema)"
    ).fetchone()
    if owner != APPLICATION_ID:
        if owner or version or n_objects:
            raise StoreError(f"'{path}' is a database of another program: name another file with --store")
        return False
    if version != schema_id():
        raise StoreError(f"the store '{path}' was made by another version of skillopt-mcp; move it aside")
    return True


def _set_journal_mode(connection: Connection, path: Path, *, is_new: bool) -> None:
    """Choose WAL for a new store where it is safe. A store keeps its mode: another process may have it open."""
    mode = str(connection.execute("pragma journal_mode").fetchone()[0])
    if is_safe_for_wal(sqlite_version()):
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while is_new and mode != "wal":
            try:
                connection.execute("pragma journal_mode = wal")
                return
            except sqlite().OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)
    elif mode == "wal":
        found = ".".join(map(str, sqlite_version()))
        raise UnsafeStore(
            f"the store '{path}' is in WAL mode, and this Python's SQLite {found} can corrupt it: "
            "install pysqlite3>=0.6.1 next to skillopt-mcp, or name another file with --store"
        )
