"""Invocation: what every command is told, whichever it is."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli.parsing import COMMANDS
from skillopt_mcp.errors import NotFound
from skillopt_mcp.store.locations import ENVIRONMENT, check_store, store_path

# The demo has a store of its own.
_COMMAND = re.compile(rf"\bskillopt-mcp (?=(?:{'|'.join(name for name in COMMANDS if name != 'demo')})\b)")


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options that all commands share."""

    store: str | None = None
    json: bool = False

    @property
    def store_path(self) -> Path:
        """Return the store's file: as given, else of the environment, else the user's own."""
        return store_path(self.store, os.environ)

    def on_store(self, text: str) -> str:
        """Return a text whose commands name the store, where it was named: they are copied."""
        if not self.store:
            return text
        named = f"skillopt-mcp --store {shlex.quote(self.store)} "
        return _COMMAND.sub(lambda _: named, text)

    def require_store(self) -> None:
        """Raise NotFound when somebody named the store and no file is there; the user's own may come into being yet.

        Raises StoreError for a file that is empty.
        """
        named_by = "--store" if self.store else f"${ENVIRONMENT}" if os.environ.get(ENVIRONMENT) else ""
        if named_by and _is_nowhere(self.store_path):
            raise NotFound(
                f"there is no store at '{self.store_path}', and this command makes none: check the path (it comes from "
                f"{named_by}), or fill a new store first, for instance with: skillopt-mcp tasks add SKILL FILE"
            )
        if os.path.isfile(self.store_path):
            check_store(self.store_path)


def _is_nowhere(path: Path) -> bool:
    """Return whether nothing is there; what cannot be looked at may be, and opening it tells what is wrong."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
