"""Lifecycle: how the server starts in a moment, and how it ends when its host goes."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

GRACE_S = 2.0


class Ending:
    """The one way out: open requests get the grace to be answered, then the process ends, whatever still runs.

    Every answer that was given stands for committed work, so leaving in the middle of a call loses nothing.
    """

    def __init__(self) -> None:
        self._begun = False
        self._finish: Callable[[], object] | None = None

    def attach(self, finish: Callable[[], object]) -> None:
        """Name what stops the serving; it is called once, from any thread."""
        self._finish = finish

    def begin(self, *_signal: object) -> None:
        """End the server; more calls change nothing."""
        if self._begun:
            return
        self._begun = True
        if self._finish is None:
            os._exit(0)
        timer = threading.Timer(GRACE_S, os._exit, (0,))
        timer.daemon = True
        timer.start()
        self._finish()


def serve(store_path: Path, *, target: str | None = None, optimizer: str | None = None) -> int:
    """Return 0 when the host has gone; until then, serve MCP over the process's stdin and stdout."""
    parent = os.getppid()
    ending = Ending()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ending.begin)
    pipes = claim_pipes()
    # Imports make many objects and no garbage: collecting during them costs a tenth of the start.
    gc.disable()
    from skillopt_mcp.server.session import Session  # noqa: PLC0415

    session = Session(store_path, target, optimizer)
    gc.freeze()
    gc.enable()
    session.run(pipes, ending, parent)
    return 0


def claim_pipes() -> tuple[int, int]:
    """Return private copies of stdin and stdout; a stray read then finds nothing, and a stray print goes to stderr."""
    in_fd, out_fd = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(nothing, 1)
    os.close(nothing)
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415

        msvcrt.setmode(in_fd, os.O_BINARY)
        msvcrt.setmode(out_fd, os.O_BINARY)
    return in_fd, out_fd
