"""Locations: where the store lies when nobody says otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from skillopt_mcp.errors import NotFound, StoreError

ENVIRONMENT = "SKILLOPT_STORE"


def store_path(given: str | None, environ: Mapping[str, str]) -> Path:
    """Return the store's file: `given`, else $SKILLOPT_STORE, else in the user's data folder.

    Links are resolved: locks and salt lie next to the file, and have to be the same by whatever path it is named.
    """
    named = given or environ.get(ENVIRONMENT)
    path = Path(os.path.expanduser(named)) if named else platformdirs.user_data_path("skillopt-mcp") / "skillopt.db"
    return Path(os.path.realpath(path))


def check_store(path: Path) -> None:
    """Raise NotFound when there is no store, StoreError when its file is empty: whatever opened that would fill it."""
    if not path.is_file():
        raise NotFound(f"there is no store at '{path}': name one with --store")
    if not path.stat().st_size:
        raise told_empty(path)


def told_empty(path: Path) -> StoreError:
    """Return the error that says of a store's file that it is empty, and what to do."""
    return StoreError(
        f"'{path}' is empty, and no store of skillopt-mcp (any more): put a backup in its place (skillopt-mcp "
        "store restore FILE), or remove the file, so that a new store begins there"
    )
