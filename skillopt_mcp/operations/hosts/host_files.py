"""Host files: one file before and after, shown as a diff, written whole or not at all, with a backup beside it."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
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
    """One file before and after, None where there is none; `path` is resolved.

    What is `shipped` comes with this program, whole: it needs no backup, and a person need not read it as a diff. Nor
    does what was there before need one where it was `ours_alone`: install had written it.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    runs: bool = False
    shipped: bool = False
    ours_alone: bool = False

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
            spare = self.shipped or self.ours_alone
            backup = None if self.before is None or spare else _backed_up(self.path, self.before)
        except OSError as error:
            raise Refused(
                f"'{self.path.parent}' cannot be written ({error.strerror}): check its permissions"
            ) from error
        replace_files(self.path.parent, self._files(self.before), self._files(self.after))
        return backup

    def _files(self, content: bytes | None) -> SkillFiles:
        return SkillFiles(() if content is None else (SkillFile(self.path.name, content, self.runs),))


@dataclass(slots=True)
class Plan:
    """The changes to make, and what a person should know of what is left as it is.

    After them go the `obsolete` files, which are backups that have served and marks of folders that install made, and
    those of `folders` that are empty then.
    """

    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    obsolete: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    def add(self, change: Change | None) -> None:
        """Add a change, if there is one."""
        if change:
            self.changes.append(change)


def planned(
    named: Path, edit: Callable[[str], str | None], is_ours_alone: Callable[[str], bool] = lambda _: False
) -> Change | None:
    """Return the change of a text file by an edit, None when there is none; an edit to None removes the file.

    Raises BadInput when the file is not UTF-8, or the edit refuses it.
    """
    path = Path(os.path.realpath(named))
    before = text_of(path)
    try:
        after = edit(before or "")
        alone = before is not None and is_ours_alone(before)
    except BadInput as error:
        raise BadInput(f"'{path}': {error}; nothing was changed") from error
    if after == before or (before is None and not after):
        return None
    was, will = (None if text is None else text.encode() for text in (before, after))
    return Change(path, was, will, runs=before is not None and os.access(path, os.X_OK), ours_alone=alone)


def text_of(path: Path) -> str | None:
    """Return a host's file as text, None where there is none. Raises BadInput when it cannot be read as UTF-8."""
    try:
        return path.read_bytes().decode() if path.exists() else None
    except UnicodeDecodeError as error:
        raise BadInput(f"'{path}' is not UTF-8 at byte {error.start}: save it as UTF-8 text first") from None
    except OSError as error:
        raise BadInput(f"'{path}' cannot be read ({error.strerror}): check its permissions") from error


def undone(
    named: Path, text: str, redo: Callable[[str], str], undo: Callable[[str], str], is_ours: Callable[[str], bool]
) -> str | None:
    """Return a file's text as it was before a change that `redo` makes; None when there was no such file.

    Where nothing else has changed since, that is the backup, byte for byte; otherwise `undo` takes the change out. A
    backup that `is_ours` was made when the change was made anew: it holds an earlier one. Raises BadInput where the
    change cannot be taken out.
    """
    for backup in backups_of(Path(os.path.realpath(named))):
        try:
            old = backup.read_bytes().decode()
            if not is_ours(old) and redo(old) == text:
                return old
        except (BadInput, OSError, UnicodeDecodeError):
            continue
    left = None if redo("") == text else undo(text)
    if left is not None and is_ours(left):
        raise BadInput("what install put there is written in a way that this program cannot take out: do it by hand")
    return left


def backups_of(path: Path) -> list[Path]:
    """Return the backups of a file, the newest first; `path` is resolved."""
    found = path.parent.glob(f"{glob.escape(_stem(path))}.*.{_BACKUP}")
    stamped = len(_stem(path)) + 1
    return sorted((each for each in found if _STAMP.match(each.name, stamped)), reverse=True)


def spent_backups(path: Path, content: bytes | None, is_ours_alone: Callable[[str], bool]) -> list[Path]:
    """Return those backups of a file that nobody needs once it has this content: they hold the same, or only ours."""
    return [backup for backup in backups_of(path) if _is_spent(content_of(backup), content, is_ours_alone)]


def _is_spent(held: bytes | None, content: bytes | None, is_ours_alone: Callable[[str], bool]) -> bool:
    if held is None or held == content:
        return held is not None
    try:
        return is_ours_alone(held.decode())
    except (BadInput, UnicodeDecodeError):
        return False


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
