"""Streams: standard input, output and errors as every command finds them, closed ones and narrow alphabets too."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import TextIO

_RESULTS: ContextVar[TextIO | None] = ContextVar("results", default=None)


class Unwritable(Exception):
    """What is printed cannot be written, for instance because the disk is full."""


def open_streams() -> None:
    """Put something in the place of streams that are closed, and show what an alphabet lacks as escapes.

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
def results_apart() -> Iterator[None]:
    """Enter to run a command: what an environment, an adapter or a library prints meanwhile goes to stderr."""
    kept = _RESULTS.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _RESULTS.reset(kept)


@contextmanager
def output() -> Iterator[None]:
    """Enter to write; raises Unwritable when that fails, and BrokenPipeError when whoever read it has gone."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(f"the output cannot be written ({error.strerror}): what was printed is not all") from error


def drop_output() -> None:
    """Send what is still to be written nowhere: Python would complain about it once more while it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
