"""Schemas: a new store as a copy of one, where running every migration took a third of a test's time."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from threading import Lock

import pytest

from skillopt_mcp.store import driver, migrating
from skillopt_mcp.store.driver import Connection

_ONE_AT_A_TIME = Lock()


def migrate(connection: Connection, path: Path) -> str:
    """Do what the migrations do to a store; an empty file becomes a copy of one that they have made."""
    with _ONE_AT_A_TIME:
        if not path.stat().st_size:
            path.write_bytes(_made(tuple(migrating.migration_files())))
    return migrating.migrate(connection, path)


def spare_the_disk(patch: pytest.MonkeyPatch) -> None:
    """Let a process wait for no disk: what it has written outlives it, and only a power cut may take that."""
    settings = (setting.replace("synchronous = full", "synchronous = off") for setting in driver._SETTINGS)
    patch.setattr(driver, "_SETTINGS", tuple(settings))
    patch.setattr(os, "fsync", _fsync)


def _fsync(descriptor: int) -> None:
    """Refuse what cannot be synced, and no more."""
    os.fstat(descriptor)


@cache
def _made(files: tuple[Path, ...]) -> bytes:
    """Return the store that the migrations make."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.db"
        connection = driver.connect(path)
        migrating.migrate(connection, path)
        connection.close()
        return path.read_bytes()
