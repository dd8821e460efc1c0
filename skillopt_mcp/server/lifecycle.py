"""Lifecycle: how the server starts in a moment, and serves until its host goes."""

from __future__ import annotations

import gc
import os
import signal
import sys

from skillopt_mcp.server.ending import Ending
from skillopt_mcp.server.setup import Setup


def serve(setup: Setup) -> int:
    """Return 0 when the host has gone; until then, serve MCP over the process's stdin and stdout."""
    parent = os.getppid()
    ending = Ending()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ending.begin)
    pipes = claim_pipes()
    # Imports make many objects and no garbage: collecting during them costs a tenth of the start.
    gc.disable()
    from skillopt_mcp.server.session import Session  # noqa: PLC0415

    session = Session(setup)
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
