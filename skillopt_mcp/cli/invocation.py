"""Invocation: what every command is told, whichever it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.store.locations import store_path


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options that all commands share."""

    store: str | None = None
    json: bool = False

    @property
    def store_path(self) -> Path:
        """Return the store's file: as given, else of the environment, else the user's own."""
        return store_path(self.store, os.environ)
