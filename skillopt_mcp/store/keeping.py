"""Keeping: a store as one other file with the schema that it has, so that nothing done to the store takes it away."""

from __future__ import annotations

import filecmp
import glob
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, count
from pathlib import Path

from skillopt_mcp.errors import SkillOptError, StoreError
from skillopt_mcp.store import driver
from skillopt_mcp.store.driver import Connection

_PAGES = 4096
SIDE_FILES = ("-wal", "-shm", "-journal")


def kept_stores(path: Path) -> list[Path]:
    """Return the stores of older schemas that are kept beside a store."""
    return sorted(path.parent.glob(f"{glob.escape(path.name)}.schema-*"))


def replaced_stores(path: Path) -> list[Path]:
    """Return the stores that a restore took the place of, and that are kept beside a store."""
    found = path.parent.glob(f"{glob.escape(path.name)}.replaced-*")
    return sorted(each for each in found if not each.name.endswith(SIDE_FILES))


def keep_old(path: Path, schema: int, newest: int) -> Path:
    """Copy a store that is about to be migrated, and return the file; one that is there and the same serves.

    The caller holds the store, so that nobody changes it meanwhile. Raises StoreError when it cannot be copied.
    """
    # One name for all: whoever was killed here left a part of a copy, and holds the store no more.
    hidden = path.with_name(f".{path.name}.schema-{schema}")
    first = path.with_name(f"{path.name}.schema-{schema}")
    source = driver.connect(path)
    try:
        remove_store(hidden)
        make_file(hidden)
        copy_into(source, path, hidden)
        for kept in chain([first], (first.with_name(f"{first.name}-{n}") for n in count(2))):
            if not kept.exists():
                os.rename(hidden, kept)
                sync_folder(path.parent)
                return kept
            if filecmp.cmp(hidden, kept, shallow=False):
                return kept
    except (OSError, SkillOptError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error).replace(str(hidden), str(first))
        raise StoreError(
            f"the store '{path}' has schema {schema}, and a copy of it as it is comes before this release brings it to "
            f"{newest}; that cannot be made: {said}. Nothing was changed: the older release can still use it"
        ) from error
    finally:
        source.close()
        remove_store(hidden)
    raise AssertionError("there is always another name")


def copy_into(
    source: Connection, path: Path, target: Path, advance: Callable[[int, int], None] = lambda _done, _total: None
) -> None:
    """Copy the store at `path`, open as `source`, into an empty file that is complete without files beside it.

    `advance` is told how many pages are through, and of how many. Raises StoreError and its kinds, of the file that is
    at fault.
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


def make_file(path: Path) -> None:
    """Make an empty file that its user alone may read and write, whatever the umask. Raises OSError."""
    made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        os.fchmod(made, 0o600)
    finally:
        os.close(made)


def remove_store(path: Path) -> None:
    """Remove a copy with whatever lies beside it."""
    for end in ("", *SIDE_FILES):
        with suppress(NotADirectoryError):
            path.with_name(path.name + end).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
