"""Copying: a store as one other file, while others use it; and a store held alone, to be replaced."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skillopt_mcp.errors import BadInput, Busy, NotFound, StoreError, UnsafeStore
from skillopt_mcp.store import driver
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.migrating import schema_version
from skillopt_mcp.store.pool import make_file

ALONE_MS = 1_000
SIDE_FILES = ("-wal", "-shm", "-journal")


def copy_store(source: Path, target: Path) -> None:
    """Copy a store into a new file that is the user's alone, and complete without files beside it.

    Raises NotFound when there is no store, BadInput when the file is there or cannot be made, NewerStore, StoreError.
    """
    if not source.is_file():
        raise NotFound(f"there is no store at '{source}'")
    connection = driver.connect(source)
    try:
        with driver.storage_errors(source):
            if not schema_version(connection, source):
                raise StoreError(f"'{source}' is empty and no store of skillopt-mcp")
        _make(target)
        copy = driver.connect(target)
        try:
            with driver.storage_errors(target):
                connection.backup(copy)
                copy.execute("pragma journal_mode = delete")
        except BaseException:
            remove_store(target)
            raise
        finally:
            copy.close()
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


def remove_store(path: Path) -> None:
    """Remove a copy with whatever lies beside it."""
    for end in ("", *SIDE_FILES):
        path.with_name(path.name + end).unlink(missing_ok=True)


@contextmanager
def held_alone(path: Path) -> Iterator[None]:
    """Hold a store that no other process has open, its journal brought in, so that its file may be replaced.

    Raises Busy when another process has it open, UnsafeStore when it is damaged and nobody can tell. (A store in
    rollback mode cannot tell of an idle process either; that one is told when it writes next.)
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
                if str(getattr(error, "sqlite_errorname", "")).startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
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
    """Put a copy in the place of the store, which stays under another name. There is a store at every moment."""
    if not path.exists():
        os.rename(new, path)
        return
    try:
        with held_alone(path):
            os.link(path, kept)
            os.replace(new, path)
    except UnsafeStore:
        for end in SIDE_FILES:  # what lies beside a damaged store would be taken for the new one's
            if path.with_name(path.name + end).exists():
                os.replace(path.with_name(path.name + end), kept.with_name(kept.name + end))
        os.link(path, kept)
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
