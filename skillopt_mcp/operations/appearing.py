"""Appearing: a new file of the user's own that is there whole, or not at all, and never in the place of another."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from skillopt_mcp.errors import BadInput
from skillopt_mcp.renaming import move_new


def hidden_beside(target: Path) -> Path:
    """Return where a file may be written until it appears as `target`. Raises BadInput when that is taken."""
    if os.path.lexists(target):
        raise _taken(target)
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}")


def appear(written: Path, target: Path) -> None:
    """Give a written file its name, and make that last. Raises BadInput when somebody has taken the name."""
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        if not move_new(folder, written.name, target.name):
            os.link(written, target)
        os.fsync(folder)
    except FileExistsError:
        raise _taken(target) from None
    finally:
        os.close(folder)


def _taken(target: Path) -> BadInput:
    return BadInput(f"'{target}' is there already, and is not overwritten: name another file")
