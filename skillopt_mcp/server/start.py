"""Start: a server over stdin and stdout, ready in a moment; what it needs is imported when it is first needed."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from concurrent.futures import Future
from typing import TYPE_CHECKING

from skillopt_mcp.server.lifecycle import Setup, Shutdown

if TYPE_CHECKING:
    from skillopt_mcp.server.app import Services


def serve(setup: Setup) -> int:
    """Return 0 when the host has gone; until then, serve MCP over the process's stdin and stdout."""
    parent = os.getppid()
    ending = Shutdown()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ending.begin)
    pipes = claim_pipes()
    # Imports make many objects and no garbage: collecting during them costs a tenth of the start.
    gc.disable()
    from skillopt_mcp.server.app import SkillOptServer  # noqa: PLC0415
    from skillopt_mcp.server.wire import serve_pipes  # noqa: PLC0415

    leaving: Future[None] = Future()

    def open_services() -> Services:
        # Imports the operations and the store.
        from skillopt_mcp.server import services  # noqa: PLC0415

        return services.open_services(setup, leaving)

    server = SkillOptServer(open_services, require_approval=setup.require_approval)
    # After the SDK has set up a logging of its own.
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", force=True)
    gc.freeze()
    gc.enable()
    asyncio.run(serve_pipes(server, pipes, ending, leaving, parent))
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
