"""Streams: standard input, output and errors as every command finds them, closed ones and narrow alphabets too."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from contextvars import ContextVar
from typing import TextIO

_RESULTS: ContextVar[TextIO | None] = ContextVar("results", default=None)


class Unwritable(Exception):
    """What is printed cannot be written, for instance because the disk is full."""


def open_streams() -> None:
    """Replace streams that are closed, and show what an encoding lacks as escapes.

    Nothing can be read from a closed input; writing to a closed output fails, as its reader would want to know.
    """
    # In the order of their numbers: what is opened takes the lowest that is free.
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def results() -> TextIO:
    """Return the stream of results: standard output, or what it was before results were set apart."""
    return _RESULTS.get() or sys.stdout


@contextmanager
def separate_results(*, whole: bool = False) -> Iterator[None]:
    """Enter to run a command: what an environment, an adapter or a library prints meanwhile goes to stderr.

    With `whole` so does what their subprocesses and their C code write, which know standard output by its number.
    """
    own, standard = sys.stdout, None
    with suppress(OSError, ValueError):  # what a test or a program put in its place has no number, or another one
        standard = own if whole and isinstance(own, io.TextIOWrapper) and own.fileno() == 1 else None
    with _move_output(standard) if standard else nullcontext(own) as stream:
        kept = _RESULTS.set(stream)
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            _RESULTS.reset(kept)


@contextmanager
def _move_output(stream: io.TextIOWrapper) -> Iterator[TextIO]:
    """Enter to have what standard output was under another number, while its own is that of stderr."""
    with output():
        stream.flush()
    out = os.dup(1)
    moved = io.TextIOWrapper(
        os.fdopen(out, "wb", 0 if stream.write_through else -1), stream.encoding, stream.errors,
        line_buffering=stream.line_buffering, write_through=stream.write_through,
    )  # fmt: skip
    os.dup2(2, 1)
    try:
        yield moved
    finally:
        import ctypes  # noqa: PLC0415

        # What Python and C still keep back for standard output, while that is stderr.
        with suppress(OSError, AttributeError):
            stream.flush()
            ctypes.CDLL(None).fflush(None)
        os.dup2(out, 1)
        try:
            with output():
                moved.flush()
        except BaseException:
            os.dup2(os.open(os.devnull, os.O_WRONLY), out)
            raise
        finally:
            moved.close()


@contextmanager
def output() -> Iterator[None]:
    """Enter to write; raises Unwritable when that fails, and BrokenPipeError when the reader has gone."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(f"the output cannot be written ({error.strerror}): what was printed is not all") from error


def drop_output() -> None:
    """Send what is still to be written nowhere: Python would complain about it once more while it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
