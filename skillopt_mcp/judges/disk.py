"""Disk: how much of it a judged program takes, and how all of that is removed.

Like the supervisor, it imports the standard library alone.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

_EVERY_S = 0.25
# Measuring takes at most a fifth of the time, however much there is to measure.
_REST = 4
# What an empty file takes as well: a place in a folder and in the table of files.
_LEAST_BYTES = 4096
_BLOCK_BYTES = 512


class Meter:
    """Tells now and then, a few times a second at most, whether a folder takes more than `most` bytes of the disk."""

    def __init__(self, folder: str, most: int) -> None:
        self._folder, self._most, self._device = folder, most, os.stat(folder).st_dev
        self._next = time.monotonic() + _EVERY_S

    def is_over(self, pids: Iterable[int]) -> bool:
        """Return whether too much is taken, by what is deleted and still open too; False between two looks."""
        began = time.monotonic()
        if began < self._next:
            return False
        over = self._is_over(chain(_files(self._folder), _deleted(pids)))
        ended = time.monotonic()
        self._next = ended + max(_EVERY_S, _REST * (ended - began))
        return over

    def was_over(self) -> bool:
        """Return whether too much is taken, once nothing is at work in the folder: what is locked is opened to see."""
        return self._is_over(_files(self._folder, unlock=True))

    def _is_over(self, files: Iterator[os.stat_result]) -> bool:
        total = 0
        seen: set[int] = set()
        try:
            for found in files:
                if found.st_dev == self._device and found.st_ino not in seen:
                    total += max(found.st_blocks * _BLOCK_BYTES, _LEAST_BYTES)
                if total > self._most:
                    return True
                if found.st_nlink != 1:
                    seen.add(found.st_ino)
        except OSError as error:
            # Folders so deep in one another that no path leads there.
            return error.errno == errno.ENAMETOOLONG
        return False


def remove(folder: str) -> None:
    """Remove a folder in which nothing is at work any more, however deep it is and whatever its modes."""
    above: list[str] = []
    left = [_entered(folder)]
    while left:
        if left[-1]:
            above.append(left[-1].pop())
            left.append(_entered(above[-1]))
        else:
            left.pop()
            os.chdir("..")
            os.rmdir(above.pop() if above else folder)


def _entered(folder: str) -> list[str]:
    """Go into a folder and remove the files there; return the names of its folders."""
    _unlock(folder)
    os.chdir(folder)
    with os.scandir(".") as found:
        entries = list(found)
    folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name)
    return folders


def _unlock(folder: str) -> None:
    # No lock keeps root out.
    if os.geteuid():
        os.chmod(folder, 0o700)


def _files(folder: str, *, unlock: bool = False) -> Iterator[os.stat_result]:
    """Yield all that is below a folder, but for what cannot be looked into now. Raises OSError where it is too deep."""
    waiting = [folder]
    while waiting:
        at = waiting.pop()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            if unlock:
                _unlock(at)
            with os.scandir(at) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    with suppress(FileNotFoundError):
                        yield entry.stat(follow_symlinks=False)


def _deleted(pids: Iterable[int]) -> Iterator[os.stat_result]:
    """Yield the files that have no name any more and that processes keep open, as far as that can be seen."""
    for found in chain.from_iterable(map(_opened, pids)):
        if stat.S_ISREG(found.st_mode) and not found.st_nlink:
            yield found


def _opened(pid: int) -> Iterator[os.stat_result]:
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                yield os.stat(f"/proc/{pid}/fd/{name}")
