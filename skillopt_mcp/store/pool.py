"""Pool: connections to one store file, and the only ways to read and write it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from skillopt_mcp.errors import StoreError
from skillopt_mcp.store import driver
from skillopt_mcp.store.copying import make_file
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.locations import told_empty
from skillopt_mcp.store.schema import prepare

_FILLED_S = 2.0
_LEFT = (".salt", ".locks")
Value = str | int | float | bytes | None
Row = tuple[Value, ...]


class Pool:
    """Connections that are lent for one operation each, so that none is ever shared by two threads at once."""

    def __init__(self, path: Path) -> None:
        """Open the store at `path`, made when needed. Raises StoreError and its kinds."""
        self.path = path
        # Taken from and given back to without a lock: a Ctrl-C just as one is taken would leave it held for good.
        self._idle: list[Connection] = []
        self._pid = os.getpid()
        self._closed = False
        driver.refuse_network_file_system(path)
        _make_private(path)
        # Looked at before it is opened: one that is replaced in between is found out by the first that is lent.
        self._file = _file_at(path)
        connection = driver.connect(path)
        try:
            prepare(connection, path)
            modes = [connection.execute(f"pragma {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
            self._may_be_lazy = modes == ["wal", 2]
            connection.execute("pragma foreign_keys = on")
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        """Lend a connection; whatever fails of the storage comes out as `driver.storage_errors` tells it."""
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
        """
        with self._lent() as connection:
            is_lazy = evidence and self._may_be_lazy
            try:
                if is_lazy:
                    connection.execute("pragma synchronous = normal")
                # Within: a Ctrl-C during it is raised once it is through, and would leave the transaction open.
                connection.execute("begin immediate")
                # Again: it may have been replaced while we waited for whoever held it.
                self._check_there()
                yield connection
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
            finally:
                if is_lazy:
                    connection.execute("pragma synchronous = full")

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return all rows of one select, fetched before the connection goes back."""
        with self._lent() as connection:
            found: list[Row] = connection.execute(sql, values).fetchall()
            return found

    def text_columns(self) -> dict[str, list[str]]:
        """Return the columns of each table that hold text or bytes."""
        # Imported here: only erasing reads tables that it does not name.
        from sqlite_utils import Database  # noqa: PLC0415

        with self._lent() as connection:
            tables = Database(connection, recursive_triggers=False).tables  # type: ignore[arg-type]
            columns = {
                table.name: [each.name for each in table.columns if each.type in ("TEXT", "BLOB")] for table in tables
            }
        return {name: found for name, found in sorted(columns.items()) if found and "sqlite" not in name}

    def row(self, sql: str, values: Sequence[Value] = ()) -> Row | None:
        """Return the first row of one select, or None."""
        with self._lent() as connection:
            found: Row | None = connection.execute(sql, values).fetchone()
            return found

    def empty_log(self, wait_ms: int) -> bool:
        """Bring the write-ahead log into the file and cut it to nothing; return whether nobody kept us from it.

        Who reads, or writes, is waited for so long; what was in the log before is in neither afterwards.
        """
        with self._lent() as connection:
            [before] = connection.execute("pragma busy_timeout").fetchone()
            connection.execute(f"pragma busy_timeout = {wait_ms}")
            try:
                [is_kept, *_] = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
            finally:
                connection.execute(f"pragma busy_timeout = {before}")
        return not is_kept

    def _check_there(self) -> None:
        """Raise StoreError when the file at our path is not the one that we opened: what we wrote would be nowhere."""
        if self._file is None or _file_at(self.path) != self._file:
            raise StoreError(
                f"the store '{self.path}' was removed, moved or replaced while this ran: nothing more is written, for "
                "it would be lost. End this process (where a host runs the server: disconnect it there), see that the "
                "right store is in that place (a backup: skillopt-mcp store restore FILE), then start again"
            )

    def close(self) -> None:
        """Close every idle connection; the lent ones are closed when they come back. A forked child leaves them be."""
        if os.getpid() != self._pid:
            return
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return which file is at a path, None when none is, or nobody can tell."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make_private(path: Path) -> None:
    """Make the store's folder (0700) and file (0600) when they are not there; SQLite gives its side files the same.

    Whatever the umask: one that takes rights from the user would leave a store that nobody can open.
    """
    try:
        _make_folder(path.parent, 0o700)
        make_file(path)
        return
    except FileExistsError:
        if path.is_dir():
            raise StoreError(f"'{path}' is a folder: name a file with --store") from None
        if path.exists() and not path.is_file():
            raise StoreError(f"'{path}' is no regular file: name another with --store") from None
    except OSError as error:
        raise StoreError(
            f"the store '{path}' cannot be made ({error.strerror}): name another place with --store"
        ) from error
    _check_not_emptied(path)


def _check_not_emptied(path: Path) -> None:
    """Raise StoreError for an empty file where there was a store before, as what still lies beside it shows.

    Another process that begins a new store there fills the file in a moment.
    """
    deadline = time.monotonic() + _FILLED_S
    while os.path.isfile(path) and not os.path.getsize(path) and any(os.path.exists(f"{path}{end}") for end in _LEFT):
        if time.monotonic() > deadline:
            raise told_empty(path)
        time.sleep(0.01)


def _make_folder(folder: Path, mode: int) -> None:
    """Make a folder with exactly this mode when it is not there, and those above it so that the user can pass."""
    if os.path.isdir(folder):
        return
    _make_folder(folder.parent, 0o777)
    try:
        folder.mkdir(mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    folder.chmod((folder.stat().st_mode & mode) | 0o700)
