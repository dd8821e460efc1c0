"""Locations: where the store lies when nobody says otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

ENVIRONMENT = "SKILLOPT_STORE"


def store_path(given: str | None, environ: Mapping[str, str]) -> Path:
    """Return the store's file: `given`, else $SKILLOPT_STORE, else in the user's data folder; always absolute."""
    named = given or environ.get(ENVIRONMENT)
    path = Path(os.path.expanduser(named)) if named else platformdirs.user_data_path("skillopt-mcp") / "skillopt.db"
    return Path(os.path.abspath(path))
