"""Live files: the only code that writes a user's skill, so that a reader sees each file whole, old or new."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from skillopt_mcp.errors import Refused
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles

TEMPORARY = ".skillopt-"
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def replace_files(folder: Path, before: SkillFiles, after: SkillFiles) -> None:
    """Turn the files of a skill from `before` into `after`: other files first, SKILL.md last.

    Each file is written beside its place, synced and renamed over it. Raises Refused when a place is a link, is shared by
    a hard link, or cannot be written; files changed up to then hold their new bytes, and recovery finishes or undoes them.
    """
    changed = [file for file in after.files if before.get(file.path) != file]
    removed = [file.path for file in before.files if after.get(file.path) is None]
    for file in sorted(changed, key=lambda file: (file.path == MAIN_FILE, file.path)):
        _write(folder, file, is_new=before.get(file.path) is None)
    for path in removed:
        _remove(folder, path)


def sweep(folder: Path, files: SkillFiles) -> None:
    """Remove temporary files that a killed process left beside the skill's files."""
    for place in {folder, *(folder / Path(file.path).parent for file in files.files)}:
        with suppress(OSError):
            for stray in place.glob(f"{TEMPORARY}*"):
                stray.unlink(missing_ok=True)


def _write(folder: Path, file: SkillFile, *, is_new: bool) -> None:
    *parts, name = file.path.split("/")
    place = folder / file.path
    parent = _open_folder(folder, parts, make=is_new)
    temporary = f"{TEMPORARY}{secrets.token_hex(6)}"
    try:
        mode = _mode_of(parent, name, place) or (0o755 if file.executable else 0o644)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(temporary, flags, 0o600, dir_fd=parent)
        try:
            _write_all(descriptor, file.content)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        os.fsync(parent)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise Refused(f"'{place}' cannot be written ({error.strerror}): the file was left as it was") from error
    finally:
        os.close(parent)


def _remove(folder: Path, path: str) -> None:
    *parts, name = path.split("/")
    parent = _open_folder(folder, parts, make=False)
    try:
        os.unlink(name, dir_fd=parent)
        os.fsync(parent)
    except OSError as error:
        raise Refused(f"'{folder / path}' cannot be removed ({error.strerror})") from error
    finally:
        os.close(parent)


def _open_folder(folder: Path, parts: Sequence[str], *, make: bool) -> int:
    """Return a descriptor of folder/parts, every part opened without following a link."""
    where = folder
    try:
        descriptor = os.open(folder, _DIRECTORY)
        for part in parts:
            where = where / part
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=descriptor)
            inner = os.open(part, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except OSError as error:
        raise Refused(f"'{where}' cannot be opened as a folder without a link ({error.strerror})") from error
    return descriptor


def _mode_of(parent: int, name: str, place: Path) -> int | None:
    """Return the permissions of the file to replace; None when it is new. Raises Refused when it may not be replaced."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"'{place}' is a link or no regular file: promotion replaces regular files only")
    if status.st_nlink > 1:
        raise Refused(f"'{place}' has {status.st_nlink} hard links: replacing it would split them, so it is left alone")
    return status.st_mode & 0o7777


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
