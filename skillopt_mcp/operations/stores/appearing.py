"""Appearing: a file of the user's own that is there whole or not at all, and in the place of another only if asked."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from skillopt_mcp.errors import BadInput
from skillopt_mcp.renaming import move_new


def write_new(target: Path, content: bytes) -> None:
    """Write a new file, whole or not at all. Raises BadInput when it is there already or cannot be written."""
    hidden = hidden_beside(target)
    try:
        with hidden.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        appear(hidden, target)
    except OSError as error:
        raise BadInput(f"'{target}' cannot be written ({error.strerror}): check the path") from error
    finally:
        with suppress(OSError):
            hidden.unlink()


def write_over(target: Path, content: bytes) -> None:
    """Write a file, whole or not at all, in the place of one that is there. Raises BadInput when it cannot be."""
    place = Path(os.path.realpath(target))
    if not place.exists():
        write_new(place, content)
        return
    hidden = _hidden(place)
    write_new(hidden, content)
    try:
        os.replace(hidden, place)
    except OSError as error:
        raise BadInput(f"'{target}' cannot be written ({error.strerror}): check the path") from error
    finally:
        with suppress(OSError):
            hidden.unlink()


def hidden_beside(target: Path) -> Path:
    """Return where a file may be written until it appears as `target`. Raises BadInput when that is taken."""
    if os.path.lexists(target):
        raise _taken(target)
    return _hidden(target)


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


def _hidden(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}")


def _taken(target: Path) -> BadInput:
    return BadInput(f"'{target}' is there already, and is not overwritten: name another file")
