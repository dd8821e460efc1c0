"""Host files: one file before and after, shown as a diff, written whole or not at all, with a backup beside it."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.errors import BadInput, Refused
from skillopt_mcp.livefiles import replace_files
from skillopt_mcp.records.skills import SkillFile, SkillFiles

_BACKUP = "skillopt-backup"
_STAMP = re.compile(rf"\d{{8}}-\d{{6}}-\d{{6}}\.{_BACKUP}$")


@dataclass(frozen=True, slots=True)
class Change:
    """One file before and after, None where there is none; `path` is resolved. What is `shipped` needs no backup."""

    path: Path
    before: bytes | None
    after: bytes | None
    runs: bool = False
    shipped: bool = False

    @property
    def diff(self) -> str:
        """Return the change as a unified diff."""
        return unified_diff(self._files(self.before), self._files(self.after), str(self.path.parent))

    def write(self) -> Path | None:
        """Write the change, all of it or nothing; return the backup of what was there.

        Raises Stale when somebody else changed the file since it was read, Refused when it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            backup = None if self.before is None or self.shipped else _backed_up(self.path, self.before)
        except OSError as error:
            raise Refused(
                f"'{self.path.parent}' cannot be written ({error.strerror}): check its permissions"
            ) from error
        replace_files(self.path.parent, self._files(self.before), self._files(self.after))
        return backup

    def _files(self, content: bytes | None) -> SkillFiles:
        return SkillFiles(() if content is None else (SkillFile(self.path.name, content, self.runs),))


def planned(named: Path, edit: Callable[[str], str | None]) -> Change | None:
    """Return the change of a text file by an edit, None when there is none; an edit to None removes the file.

    Raises BadInput when the file is not UTF-8, or the edit refuses it.
    """
    path = Path(os.path.realpath(named))
    try:
        before = path.read_bytes() if path.exists() else None
        text = edit("" if before is None else before.decode())
    except UnicodeDecodeError as error:
        raise BadInput(f"'{path}' is not UTF-8 at byte {error.start}: save it as UTF-8 text first") from None
    except OSError as error:
        raise BadInput(f"'{path}' cannot be read ({error.strerror}): check its permissions") from error
    except BadInput as error:
        raise BadInput(f"'{path}': {error}; nothing was changed") from error
    after = None if text is None else text.encode()
    if after == before or (before is None and not after):
        return None
    return Change(path, before, after, runs=before is not None and os.access(path, os.X_OK))


def undone(named: Path, text: str, redo: Callable[[str], str], undo: Callable[[str], str]) -> str | None:
    """Return a file's text as it was before a change that `redo` makes; None when there was no such file.

    Where nothing else has changed since, that is the backup, byte for byte; otherwise `undo` takes the change out.
    """
    for backup in backups_of(Path(os.path.realpath(named))):
        try:
            old = backup.read_bytes().decode()
            if redo(old) == text:
                return old
        except (BadInput, OSError, UnicodeDecodeError):
            continue
    return None if redo("") == text else undo(text)


def backups_of(path: Path) -> list[Path]:
    """Return the backups of a file, the newest first; `path` is resolved."""
    found = path.parent.glob(f"{glob.escape(_stem(path))}.*.{_BACKUP}")
    stamped = len(_stem(path)) + 1
    return sorted((each for each in found if _STAMP.match(each.name, stamped)), reverse=True)


def backups_holding(path: Path, content: bytes) -> list[Path]:
    """Return those backups of a file that hold this content."""
    return [backup for backup in backups_of(path) if content_of(backup) == content]


def clear(files: Iterable[Path], folders: Iterable[Path]) -> None:
    """Remove files, and those of the folders that are empty; what cannot be removed, or is a link, stays."""
    for file in files:
        with suppress(OSError):
            file.unlink()
    for folder in folders:
        with suppress(OSError):
            if not folder.is_symlink():
                folder.rmdir()


def content_of(path: Path) -> bytes | None:
    """Return what is in a file, None when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _backed_up(path: Path, content: bytes) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    backup = path.with_name(f"{_stem(path)}.{stamp}.{_BACKUP}")
    with open(os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return backup


def _stem(path: Path) -> str:
    # Hidden, so that no host takes it for a file of its own.
    return f".{path.name.removeprefix('.')}"
