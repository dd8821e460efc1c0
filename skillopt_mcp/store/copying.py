"""Copying: a store as one other file, while others use it; and a store held alone, to be replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from skillopt_mcp.errors import BadInput, Busy, UnsafeStore
from skillopt_mcp.store import driver
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.files import SIDE_FILES, check_store, is_empty, make_file, remove_store
from skillopt_mcp.store.marks import forget_mark
from skillopt_mcp.store.pool import has_schema

_PAGES = 4096


def copy_into(
    source: Connection, path: Path, target: Path, advance: Callable[[int, int], None] = lambda _done, _total: None
) -> None:
    """Copy the store at `path`, open as `source`, into an empty file that is complete without side files.

    `advance` is called with how many pages are copied, and of how many. Raises StoreError, of the file at fault.
    """
    copy = driver.connect(target)
    try:
        # Held: else it would begin again with each write of another process.
        with driver.storage_errors(path):
            source.execute("begin")
            source.execute("select 1 from sqlite_schema limit 1").fetchone()
        with driver.storage_errors(target):
            try:
                source.backup(copy, pages=_PAGES, progress=lambda _, left, n: advance(n - left, n))
            except driver.failures() as error:
                if driver.is_damage(error):
                    raise driver.explained(error, path) from error
                raise
            copy.execute("pragma journal_mode = delete")
    finally:
        if source.in_transaction:
            source.execute("rollback")
        copy.close()


ALONE_MS = 1_000


def copy_store(source: Path, target: Path, advance: Callable[[int, int], None] = lambda _done, _total: None) -> None:
    """Copy a store into a new private file that is complete without side files.

    `advance` is called as by `copy_into`. Raises NotFound when there is no store, BadInput when
    the file is there or cannot be made, StoreError.
    """
    check_store(source)
    connection = driver.connect(source)
    try:
        with driver.storage_errors(source):
            if not has_schema(connection, source):
                raise is_empty(source)
        _make(target)
        try:
            copy_into(connection, source, target, advance)
        except BaseException:
            remove_store(target)
            raise
    finally:
        connection.close()


def read_tests(path: Path) -> list[tuple[str, str, float]]:
    """Return id, skill and error rate of a store's promotion tests. Raises StoreError."""
    sql = (
        "select t.id, name, json_extract(plan, '$.alpha') from promotion_test t join skill on skill.id = skill_id"
        " where number > 0 order by skill.id"
    )
    connection = driver.connect(path)
    try:
        with driver.storage_errors(path):
            return [(str(test), str(skill), float(alpha)) for test, skill, alpha in connection.execute(sql)]
    finally:
        connection.close()


def read_erased(path: Path) -> set[tuple[int, str]]:
    """Return the attempts of a store that were erased, as (id, when recorded). Raises StoreError."""
    return _read_attempts(path, "id in (select trajectory_id from erased)")


def read_attempts(path: Path) -> set[tuple[int, str]]:
    """Return the attempts of a store that were not erased, as (id, when recorded). Raises StoreError."""
    return _read_attempts(path, "id not in (select trajectory_id from erased)")


def _read_attempts(path: Path, which: str) -> set[tuple[int, str]]:
    connection = driver.connect(path)
    try:
        with driver.storage_errors(path):
            rows = connection.execute(f"select id, created_at from trajectory where {which}")
            return {(int(row_id), str(at)) for row_id, at in rows}
    finally:
        connection.close()


def prepare_store(path: Path) -> None:
    """Give a copy the journal mode that a new store has. Raises StoreError."""
    connection = driver.connect(path)
    try:
        with driver.storage_errors(path):
            _set_wal(connection)
    finally:
        connection.close()


@contextmanager
def held_alone(path: Path) -> Iterator[None]:
    """Hold a store that no other process has open, its journal brought in, so that its file may be replaced.

    Raises Busy when another process has it open, UnsafeStore when it is too damaged to see that. (Of a store
    in rollback mode, an idle process is not seen; it gets an error when it writes next.)
    """
    connection = driver.connect(path)
    replaced = False
    try:
        with driver.storage_errors(path):
            connection.execute(f"pragma busy_timeout = {ALONE_MS}")
            try:
                connection.execute("pragma journal_mode = delete")
                connection.execute("begin exclusive")
            except driver.sqlite().OperationalError as error:
                if driver.is_busy(error):
                    raise Busy(
                        f"another process has the store '{path}' open: end it (a host that runs the server, a replay), "
                        "then restore again; nothing was changed"
                    ) from error
                raise
        yield
        replaced = True
    finally:
        if connection.in_transaction:
            connection.execute("rollback")
        if not replaced:
            with driver.storage_errors(path):
                _set_wal(connection)
        connection.close()


def replace_store(path: Path, new: Path, kept: Path) -> None:
    """Put a copy in the place of the store, which stays under another name. There is a store at every moment.

    Where the store's file was removed, its side files are kept, too. A process that had it open writes no more.
    """
    if path.exists():
        try:
            with held_alone(path):
                os.link(path, kept)
                forget_mark(path)
                os.replace(new, path)
            return
        except UnsafeStore:
            os.link(path, kept)
    for end in SIDE_FILES:  # it would be taken for the new one's, and written over it
        if path.with_name(path.name + end).exists():
            os.replace(path.with_name(path.name + end), kept.with_name(kept.name + end))
    forget_mark(path)
    os.replace(new, path)


def _set_wal(connection: Connection) -> None:
    if driver.is_safe_for_wal(driver.sqlite_version()):
        connection.execute("pragma journal_mode = wal")


def _make(path: Path) -> None:
    try:
        make_file(path)
    except FileExistsError:
        raise BadInput(f"'{path}' is there already, and is not overwritten: name another file") from None
    except OSError as error:
        raise BadInput(f"'{path}' cannot be made ({error.strerror}): name another file") from error
