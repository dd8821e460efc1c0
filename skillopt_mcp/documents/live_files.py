"""Live files: a skill's files replaced one by one, so that what others write meanwhile is never lost."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import secrets
import shlex
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from skillopt_mcp.core.errors import Refused, Stale
from skillopt_mcp.core.limits import FILE_BYTES
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles

_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


class _Flags(NamedTuple):
    """What the system call is named, and its flags."""

    function: str
    exchange: int
    no_replace: int


_FLAGS = _Flags("renameatx_np", 2, 4) if sys.platform == "darwin" else _Flags("renameat2", 2, 1)


def exchange(parent: int, one: str, other: str) -> bool:
    """Swap two names in the folder open as `parent`; False where the system cannot. Raises OSError."""
    return _rename(parent, one, other, _FLAGS.exchange)


def move_new(parent: int, source: str, target: str) -> bool:
    """Rename within the folder open as `parent`, never over another file; False where the system cannot.

    Raises OSError, FileExistsError among them.
    """
    return _rename(parent, source, target, _FLAGS.no_replace)


def _rename(parent: int, source: str, target: str, flag: int) -> bool:
    library = _library()
    function = getattr(library, _FLAGS.function, None)
    if function is None:
        return False
    if function(parent, os.fsencode(source), parent, os.fsencode(target), ctypes.c_uint(flag)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), target)


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


TEMPORARY = ".skillopt-"
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# The folders above need only be passed through, not read.
_WAY = _FOLDER | getattr(os, "O_PATH", 0)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
# ACL and extended attributes, in the words of macOS's copyfile.h.
_COPY_ATTRIBUTES = 1 | 4
# What the system takes from a file, too, whose content changes.
_OF_CONTENT = frozenset({"security.capability", "security.evm", "security.ima"})
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def put_file(path: Path, content: bytes) -> None:
    """Write a file, complete or not at all; a link gives way itself. Raises OSError."""
    handle, new = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(new, 0o644)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def replace_files(folder: Path, before: SkillFiles, after: SkillFiles) -> None:
    """Turn the files of a skill from `before` into `after`: other files first, SKILL.md last, then what goes away.

    Each file is written next to its place, synced and swapped with it. Raises Stale when a file is not what `before`
    says, Refused when a place is a link, is shared by a hard link, is write-protected, or cannot be written; files
    before it stay changed.
    """
    check_replaceable(folder, before, after)
    changes, gone = _differences(before, after)
    for old, new in sorted(changes, key=lambda change: (change[1].path == MAIN_FILE, change[1].path)):
        _write(folder, old, new)
    for file in gone:
        _remove(folder, file)


def check_replaceable(folder: Path, before: SkillFiles, after: SkillFiles) -> None:
    """Raise Refused or Stale where `replace_files` would, as far as is known without writing anything."""
    changes, gone = _differences(before, after)
    for file in (new for old, new in changes if old is None):
        if os.path.lexists(folder / file.path):
            raise Refused(f"'{folder / file.path}' is there already, and none of the skill's files: move it away first")
    for file in [*(old for old, _ in changes if old), *gone]:
        with _opened(folder, file.path) as parent:
            _status(parent, folder / file.path)


def find_file(folder: Path, path: str) -> SkillFile | None:
    """Return the file at a path of a skill, no link followed; None where there is no regular file."""
    with suppress(Refused), _opened(folder, path) as parent:
        found = _read(parent, Path(path).name)
        return SkillFile(path, *found) if found else None
    return None


def sweep(folder: Path, versions: Sequence[SkillFiles]) -> None:
    """Remove temporary files that a killed process left next to the files of these versions, and of no other skill's.

    One that holds neither a file of theirs nor the beginning of one is an edit that a person saved meanwhile: it stays.
    """
    contents = [file.content for files in versions for file in files.files]
    marks = {_mark(folder, file.path) for files in versions for file in files.files}
    for inner in {tuple(file.path.split("/")[:-1]) for files in versions for file in files.files}:
        with suppress(OSError, Refused), _opened(folder, "/".join([*inner, MAIN_FILE])) as parent:
            for name in os.listdir(parent):
                found = _read(parent, name) if name.rpartition("-")[0] in marks else None
                if found and any(content.startswith(found[0]) for content in contents):
                    os.unlink(name, dir_fd=parent)


def _differences(
    before: SkillFiles, after: SkillFiles
) -> tuple[list[tuple[SkillFile | None, SkillFile]], list[SkillFile]]:
    """Return the files that become others or are new, each with what it was, and those that go away."""
    changes = [(before.get(file.path), file) for file in after.files if before.get(file.path) != file]
    return changes, [file for file in before.files if after.get(file.path) is None]


def _mark(folder: Path, path: str) -> str:
    """Return how temporary files of a skill's file begin: skills may share a folder, and each is locked by itself."""
    digest = hashlib.sha256(os.fsencode(f"{folder}\0{path}")).hexdigest()
    return f"{TEMPORARY}{digest[:12]}"


def _temporary(folder: Path, path: str) -> str:
    return f"{_mark(folder, path)}-{secrets.token_hex(6)}"


def _write(folder: Path, old: SkillFile | None, new: SkillFile) -> None:
    place = folder / new.path
    with _opened(folder, new.path, make=old is None) as parent:
        temporary = _temporary(folder, new.path)
        _make(parent, temporary, new, place, _status(parent, place) if old else None)
        try:
            if old:
                _swap(parent, temporary, place, (old, new))
            elif not move_new(parent, temporary, place.name):
                _rename_new(parent, temporary, place)
        except OSError:
            if _holds(parent, temporary, new):
                os.unlink(temporary, dir_fd=parent)
            raise
        os.fsync(parent)


def _swap(parent: int, temporary: str, place: Path, files: tuple[SkillFile, SkillFile]) -> None:
    """Put the temporary file in the place of the old one; anything else that turns out to be there goes back."""
    old, new = files
    if not _holds(parent, place.name, old):
        os.unlink(temporary, dir_fd=parent)
        raise _stale(place)
    if not exchange(parent, temporary, place.name):
        os.rename(temporary, place.name, src_dir_fd=parent, dst_dir_fd=parent)
        return
    if not _holds(parent, temporary, old):
        exchange(parent, temporary, place.name)
        if _holds(parent, temporary, new):  # else it is yet another edit, which stays next to its place
            os.unlink(temporary, dir_fd=parent)
        raise _stale(place)
    os.unlink(temporary, dir_fd=parent)


def _remove(folder: Path, file: SkillFile) -> None:
    place = folder / file.path
    with _opened(folder, file.path) as parent:
        _status(parent, place)
        temporary = _temporary(folder, file.path)
        os.rename(place.name, temporary, src_dir_fd=parent, dst_dir_fd=parent)
        if not _holds(parent, temporary, file):
            if not move_new(parent, temporary, place.name):
                _rename_new(parent, temporary, place)
            raise _stale(place)
        os.unlink(temporary, dir_fd=parent)
        os.fsync(parent)


def _rename_new(parent: int, temporary: str, place: Path) -> None:
    """Do in two steps what `move_new` does in one, where the system cannot."""
    with suppress(FileNotFoundError):
        os.stat(place.name, dir_fd=parent, follow_symlinks=False)
        raise FileExistsError(0, "it was made meanwhile")
    os.rename(temporary, place.name, src_dir_fd=parent, dst_dir_fd=parent)


def _make(parent: int, name: str, file: SkillFile, place: Path, replaced: os.stat_result | None) -> None:
    """Make a synced temporary file: the content of `file`; mode, owner and attributes of what it replaces."""
    mode = stat.S_IMODE(replaced.st_mode) if replaced else 0o644
    # Only those who may read it may run it.
    mode = mode | (mode & 0o444) >> 2 if file.executable else mode & ~0o111
    descriptor = os.open(name, _NEW, 0o600, dir_fd=parent)
    try:
        _write_all(descriptor, file.content)
        mine = os.fstat(descriptor)
        if replaced and (mine.st_uid, mine.st_gid) != (replaced.st_uid, replaced.st_gid):
            os.fchown(descriptor, replaced.st_uid, replaced.st_gid)
        if replaced:
            _copy_attributes(parent, place, descriptor)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    except BaseException:
        os.unlink(name, dir_fd=parent)
        raise
    finally:
        os.close(descriptor)


def _copy_attributes(parent: int, place: Path, target: int) -> None:
    """Give the open file the extended attributes and the ACL of the one in `place`, and no others.

    Raises Refused for one that it cannot be given.
    """
    source, name = os.open(place.name, _READ, dir_fd=parent), "of its ACL or extended attributes"
    try:
        if sys.platform == "darwin":
            if _library().fcopyfile(source, target, None, _COPY_ATTRIBUTES) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        elif sys.platform == "linux":
            wanted, present = _attributes(source), _attributes(target)
            for name in present.keys() - wanted.keys():
                os.removexattr(target, name)
            for name in (each for each in wanted if present.get(each) != wanted[each]):
                os.setxattr(target, name, wanted[name])
    except OSError as error:
        raise Refused(
            f"'{place}' has an attribute that its new version cannot keep ({name}: {error.strerror}): remove it first"
        ) from error
    finally:
        os.close(source)


def _attributes(descriptor: int) -> dict[str, bytes]:
    """Return the extended attributes of an open file that a new content may keep; none where there are no such."""
    try:
        return {name: os.getxattr(descriptor, name) for name in os.listxattr(descriptor) if name not in _OF_CONTENT}
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return {}
        raise


def _status(parent: int, place: Path) -> os.stat_result:
    """Return the status of the file to replace. Raises Refused when it may not be replaced, Stale when it is gone."""
    try:
        status = os.stat(place.name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        raise _stale(place) from None
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"'{place}' is a link or no regular file: put the file itself in its place")
    if not status.st_mode & stat.S_IWUSR:
        allow = f"chmod u+w {shlex.quote(str(place))}"
        raise Refused(f"'{place}' is write-protected, and stays as it is: allow its change first ({allow})")
    if status.st_nlink > 1:
        raise Refused(f"'{place}' has {status.st_nlink} hard links: make it a copy of its own, for they would part")
    return status


def _holds(parent: int, name: str, file: SkillFile) -> bool:
    """Return whether the name stands for a regular file with the content and run bit of `file`."""
    return _read(parent, name, len(file.content)) == (file.content, file.executable)


def _read(parent: int, name: str, n_bytes: int = FILE_BYTES) -> tuple[bytes, bool] | None:
    """Return content (one byte more than `n_bytes` at most) and run bit of a regular file, None when there is none."""
    try:
        with os.fdopen(os.open(name, _READ, dir_fd=parent), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            return (file.read(n_bytes + 1), bool(mode & stat.S_IXUSR)) if stat.S_ISREG(mode) else None
    except OSError:
        return None


@contextmanager
def _opened(folder: Path, path: str, *, make: bool = False) -> Iterator[int]:
    """Lend a descriptor of the folder that holds a skill's file, reached without following any link.

    With `make`, folders inside the skill are made. Raises Refused for whatever the system refuses meanwhile.
    """
    place = folder / path
    try:
        descriptor = os.open(folder.anchor, _WAY)
        above = folder.parts[1:-1]
        for n, part in enumerate((*folder.parts[1:], *path.split("/")[:-1])):
            descriptor = _inner(descriptor, part, _WAY if n < len(above) else _FOLDER, make=make and n > len(above))
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Refused(
            f"'{place}' cannot be written ({error.strerror}): check it and its folders, links are not followed"
        ) from error


def _inner(parent: int, name: str, flags: int, *, make: bool) -> int:
    """Return a descriptor of a folder inside `parent`, which is closed."""
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=parent)
                os.fsync(parent)
        return os.open(name, flags, dir_fd=parent)
    finally:
        os.close(parent)


def _stale(place: Path) -> Stale:
    return Stale(f"'{place}' was changed meanwhile: that version is kept")


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
