"""Hidden: the dot files in a skill's folder, which are none of the skill, and are shared with it all the same."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from skillopt_mcp.limits import FILE_BYTES, SKILL_BYTES, SKILL_FILES
from skillopt_mcp.operations.skills.checkouts import is_ignored
from skillopt_mcp.records.skills import SkillFile, SkillFiles

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_OF_GIT = ".git"


def hidden_files(folder: Path) -> tuple[SkillFiles, list[str]]:
    """Return the dot files in a folder and all below its dot folders, and the paths of those that were not read.

    As much is read as a skill may be large; what lies behind that is not even listed, but for its first. Links, folders
    that git ignores and what it keeps for itself are passed over.
    """
    read, unread, n_bytes = list[SkillFile](), list[str](), 0
    for path in islice(_hidden(folder), SKILL_FILES + 1):
        inner = path.relative_to(folder).as_posix()
        content = _content(path) if len(read) < SKILL_FILES else None
        n_bytes += len(content or b"")
        if content is None or n_bytes > SKILL_BYTES:
            unread.append(inner)
            if n_bytes > SKILL_BYTES:
                break
        else:
            read.append(SkillFile(inner, content, False))
    return SkillFiles(tuple(read)), unread


def _hidden(folder: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(folder):
        inside = Path(at).relative_to(folder)
        is_hidden = any(part.startswith(".") for part in inside.parts)
        folders[:] = sorted(name for name in folders if not _is_unshared(Path(at, name), is_hidden=is_hidden))
        paths = (Path(at, name) for name in sorted(names) if (is_hidden or name.startswith(".")) and name != _OF_GIT)
        yield from (path for path in paths if _is_file(path))


def _is_unshared(folder: Path, *, is_hidden: bool) -> bool:
    if folder.name == _OF_GIT:
        return True
    # Below a dot folder that is shared, one question each would take long.
    return not is_hidden and folder.name.startswith(".") and is_ignored(folder)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _content(path: Path) -> bytes | None:
    """Return what a file holds, None where it is too large or cannot be read."""
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            content = file.read(FILE_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= FILE_BYTES else None
