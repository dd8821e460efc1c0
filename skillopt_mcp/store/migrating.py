"""Migrating: bring a store to this release's schema, safely while other processes start or wait."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

from skillopt_mcp.errors import NewerStore, StoreError, UnsafeStore
from skillopt_mcp.store import driver
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.keeping import keep_old

APPLICATION_ID = 0x534B4F50
_PACKAGE = Path(__file__).resolve().parent.parent
_FOLDERS = (_PACKAGE / "migrations", _PACKAGE.parent / "store" / "migrations")


def migration_files() -> list[Path]:
    """Return the migrations in order: shipped inside the package, or beside it in a checkout."""
    for folder in _FOLDERS:
        files = sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
        if files:
            return files
    raise StoreError(f"this installation lacks its migrations (looked in '{_FOLDERS[0]}'): install skillopt-mcp again")


def migrate(connection: Connection, path: Path, *, keeps_old: bool = True) -> str:
    """Bring the store behind `connection` to the newest schema, or raise before anything is changed.

    Return what a person is to know of it: "" unless an older store was changed, and by nobody else before. With
    `keeps_old` that one stays beside it as it was. Raises NewerStore when a later release wrote it, UnsafeStore when
    this SQLite may not use its journal mode, StoreError when there is no room to keep the old one.
    """
    files, kept = migration_files(), path
    with driver.storage_errors(path):
        version = _checked_version(connection, path, len(files))
        _set_journal_mode(connection, path, is_new=version == 0)
        if version == len(files):
            return ""
        connection.execute("begin immediate")
        try:
            version = _checked_version(connection, path, len(files))
            if version < len(files):
                if version and keeps_old:
                    kept = keep_old(path, version, len(files))
                _apply(connection, files)
                connection.execute(f"pragma application_id = {APPLICATION_ID}")
                connection.execute(f"pragma user_version = {len(files)}")
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise
    if version in (0, len(files)):
        return ""
    return (
        f"the store '{path}' was brought from schema {version} to {len(files)}: releases that know no more than "
        f"{version} refuse it from now on; as it was before, it is kept as '{kept}' (the way back: install the older "
        f"release again, then: skillopt-mcp restore {shlex.quote(str(kept))})"
    )


def schema_version(connection: Connection, path: Path) -> int:
    """Return the schema that a store has, 0 for an empty file. Raises NewerStore, StoreError when it is no store."""
    return _checked_version(connection, path, len(migration_files()))


def _checked_version(connection: Connection, path: Path, newest: int) -> int:
    version = int(connection.execute("pragma user_version").fetchone()[0])
    owner = int(connection.execute("pragma application_id").fetchone()[0])
    if owner != APPLICATION_ID:
        if owner or version or connection.execute("select count(*) from sqlite_schema").fetchone()[0]:
            raise StoreError(f"'{path}' is a database of another program: name another file with --store")
        return 0
    if version > newest:
        raise NewerStore(
            f"the store '{path}' has schema {version}, this release knows {newest}: upgrade skillopt-mcp, or "
            "name another file with --store"
        )
    return version


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
            "install pysqlite3>=0.6.1 beside skillopt-mcp, or name another file with --store"
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


def _apply(connection: Connection, files: list[Path]) -> None:
    from sqlite_utils import Database, Migrations  # noqa: PLC0415

    migrations = Migrations("skillopt")
    for file in files:
        migrations(name=file.stem)(_script(file.read_text("utf-8")))
    migrations.apply(Database(cast(Any, connection)))


class _Executes(Protocol):
    def execute(self, sql: str, /) -> object: ...


def _script(sql: str) -> Callable[[_Executes], None]:
    def run(db: _Executes) -> None:
        for statement in _statements(sql):
            db.execute(statement)

    return run


def _statements(sql: str) -> list[str]:
    """Return the statements of a script one by one: executescript would commit the transaction we are in."""
    found, pending = [], ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if driver.sqlite().complete_statement(pending):
            found.append(pending)
            pending = ""
    return found
