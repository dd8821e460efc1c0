"""Schema: how a new store is made, and which file is refused because it is not a store of this version."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from skillopt_mcp.errors import StoreError, UnsafeStore
from skillopt_mcp.store import driver
from skillopt_mcp.store.driver import Connection

APPLICATION_ID = 0x534B4F50
_PACKAGE = Path(__file__).resolve().parent.parent
_FOLDERS = (_PACKAGE / "sql", _PACKAGE.parent / "store")


@cache
def schema_sql() -> str:
    """Return the schema with its views: shipped inside the package, or next to it in a checkout."""
    for folder in _FOLDERS:
        if (folder / "schema.sql").is_file():
            return "\n".join((folder / name).read_text("utf-8") for name in ("schema.sql", "views.sql"))
    raise StoreError(f"this installation lacks its schema (looked in '{_FOLDERS[0]}'): install skillopt-mcp again")


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
    version = int(connection.execute("pragma user_version").fetchone()[0])
    owner = int(connection.execute("pragma application_id").fetchone()[0])
    if owner != APPLICATION_ID:
        if owner or version or connection.execute("select count(*) from sqlite_schema").fetchone()[0]:
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
