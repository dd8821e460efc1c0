"""Renaming: names swapped or given in one step, so that what somebody else put there meanwhile is never lost."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from typing import NamedTuple

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
