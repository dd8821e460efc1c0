"""Pool: connections to one store file, and the only ways to read and write it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from skillopt_mcp.errors import StoreError
from skillopt_mcp.store import driver
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.migrating import migrate

Value = str | int | float | bytes | None
Row = tuple[Value, ...]


class Pool:
    """Connections that are lent for one operation each, so that none is ever shared by two threads at once."""

    def __init__(self, path: Path) -> None:
        """Open the store at `path`, made and migrated when needed. Raises StoreError and its kinds."""
        self.path = path
        # Taken from and given back to without a lock: a Ctrl-C just as one is taken would leave it held for good.
        self._idle: list[Connection] = []
        self._pid = os.getpid()
        self._closed = False
        driver.refuse_network_file_system(path)
        _make_private(path)
        connection = driver.connect(path)
        try:
            self.migrated = migrate(connection, path)
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
    def write(self) -> Iterator[Connection]:
        """Lend a connection inside BEGIN IMMEDIATE: committed at the end, rolled back when anything is raised."""
        with self._lent() as connection:
            try:
                # Within: a Ctrl-C during it is raised once it is through, and would leave the transaction open.
                connection.execute("begin immediate")
                yield connection
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise

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


def _make_private(path: Path) -> None:
    """Make the store's folder (0700) and file (0600) when they are not there; SQLite gives its side files the same.

    Whatever the umask: one that takes rights from the user would leave a store that nobody can open.
    """
    try:
        _make_folder(path.parent, 0o700)
        make_file(path)
    except FileExistsError:
        if path.is_dir():
            raise StoreError(f"'{path}' is a folder: name a file with --store") from None
        if path.exists() and not path.is_file():
            raise StoreError(f"'{path}' is no regular file: name another with --store") from None
    except OSError as error:
        raise StoreError(
            f"the store '{path}' cannot be made ({error.strerror}): name another place with --store"
        ) from error


def make_file(path: Path) -> None:
    """Make an empty file that its user alone may read and write, whatever the umask. Raises OSError."""
    made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        os.fchmod(made, 0o600)
    finally:
        os.close(made)


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
