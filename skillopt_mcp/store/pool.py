"""Pool: connections to one store file, how a new one is made, and the only ways to read and write it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from skillopt_mcp.core.errors import StoreError, UnsafeStore
from skillopt_mcp.store import driver
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.files import is_empty, make_private, refuse_network_file_system
from skillopt_mcp.store.marks import count_commit, read_mark, write_mark

Value = str | int | float | bytes | None
Row = tuple[Value, ...]
_COUNT_EVERY_S = 0.1


class Pool:
    """Connections that are lent for one operation each, so that none is ever shared by two threads at once."""

    def __init__(self, path: Path) -> None:
        """Open the store at `path`, made when needed. Raises StoreError and its kinds."""
        self.path = path
        # Taken from and given back to without a lock: a Ctrl-C just as one is taken would leave it held for good.
        self._idle: list[Connection] = []
        self._pid = os.getpid()
        self._closed = False
        self._counted_at = -_COUNT_EVERY_S
        refuse_network_file_system(path)
        make_private(path)
        # Looked at before it is opened: one that is replaced in between is found out by the first that is lent.
        self._file = _file_at(path)
        self._log_path, self._index_path = Path(f"{path}-wal"), Path(f"{path}-shm")
        self._refuse_second_index()
        connection = driver.connect(path)
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
    def _lent(self) -> Iterator[Connection]:
        """Lend a connection; failures of the storage become StoreError as in `driver.storage_errors`."""
        if self._closed or os.getpid() != self._pid:
            raise StoreError(f"the store '{self.path}' is closed in this process: open it again")
        self._check_there()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = driver.connect(self.path)
            connection.execute("pragma foreign_keys = on")
        try:
            yield connection
        except driver.failures() as error:
            raise driver.explained(error, self.path) from error
        finally:
            self._idle.append(connection)
            if self._closed:
                self._close_idle()

    @contextmanager
    def write(self, *, evidence: bool = False) -> Iterator[Connection]:
        """Lend a connection inside BEGIN IMMEDIATE: committed at the end, rolled back when anything is raised.

        A power cut may take back the last commits of mere `evidence`, never anything else; the end of a process none.
        They are counted in the store's mark, those of evidence a few times a second at most.
        """
        with self._lent() as connection:
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
                yield connection
                is_counted = not is_lazy or time.monotonic() - self._counted_at > _COUNT_EVERY_S
                if is_counted and connection.execute(_CHANGES).fetchone() != before:
                    mark = count_commit(connection, self.path, synced=not is_lazy)
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
        with self._lent() as connection:
            found: list[Row] = connection.execute(sql, values).fetchall()
            return found

    def row(self, sql: str, values: Sequence[Value] = ()) -> Row | None:
        """Return the first row of one select, or None."""
        with self._lent() as connection:
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
        with self._lent() as connection:
            [before] = connection.execute("pragma busy_timeout").fetchone()
            connection.execute(f"pragma busy_timeout = {wait_ms}")
            try:
                connection.execute("vacuum")
                [is_kept, *_] = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
            except driver.failures() as error:
                if not driver.is_busy(error):
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
                with closing(driver.sqlite().connect(self.path, timeout=0, isolation_level=None)) as probe:
                    # Without an index in a file, and only where no other process has the store open.
                    probe.execute("pragma locking_mode = exclusive")
                    probe.execute("select 1 from sqlite_schema").fetchone()
                return
            except driver.failures() as error:
                if not driver.is_busy(error):
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
            self._bring_in_log()
            raise StoreError(
                f"'{self._log_path}' was removed or replaced while this ran: nothing more is written. End "
                "all that use the store (a host's server: disconnect it there), then: skillopt-mcp store verify"
            )
        if self._index and _file_at(self._index_path) != self._index:
            raise StoreError(_INDEX_LOST.format(path=self._index_path))

    def _bring_in_log(self) -> None:
        """Write what a removed log holds into the file, where no other process has begun a new one."""
        with suppress(FileNotFoundError):
            if os.path.getsize(self._log_path):
                return
        with suppress(IndexError, *driver.failures()):
            connection = self._idle.pop()
            try:
                connection.execute("pragma wal_checkpoint(passive)")
            finally:
                self._idle.append(connection)

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
    """Return which file is at a path, None when there is none, or it cannot be read."""
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
    with driver.storage_errors(path):
        is_new = not has_schema(connection, path)
        _set_journal_mode(connection, path, is_new=is_new)
        if not is_new:
            return
        connection.execute("begin immediate")
        try:
            if not has_schema(connection, path):  # another process may have been faster
                if read_mark(path):  # it had rows, in a log that was removed
                    raise is_empty(path)
                for statement in _statements(schema_sql()):
                    connection.execute(statement)
                connection.execute(f"pragma application_id = {APPLICATION_ID}")
                connection.execute(f"pragma user_version = {schema_id()}")
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise


def has_schema(connection: Connection, path: Path) -> bool:
    """Return whether a file is a store, False when it is empty. Raises StoreError when it is anything else."""
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
    if driver.is_safe_for_wal(driver.sqlite_version()):
        if is_new and mode != "wal":
            _retry_while_busy(lambda: connection.execute("pragma journal_mode = wal"))
    elif mode == "wal":
        found = ".".join(map(str, driver.sqlite_version()))
        raise UnsafeStore(
            f"the store '{path}' is in WAL mode, and this Python's SQLite {found} can corrupt it: "
            "install pysqlite3>=0.6.1 next to skillopt-mcp, or name another file with --store"
        )


def _retry_while_busy(action: Callable[[], object]) -> None:
    deadline = time.monotonic() + driver.BUSY_TIMEOUT_S
    while True:
        try:
            action()
            return
        except driver.sqlite().OperationalError as error:
            if not driver.is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _statements(sql: str) -> list[str]:
    """Return the statements of a script one by one: executescript would commit the transaction we are in."""
    found, pending = [], ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if line.rstrip().endswith(";") and driver.sqlite().complete_statement(pending):
            found.append(pending)
            pending = ""
    return found
