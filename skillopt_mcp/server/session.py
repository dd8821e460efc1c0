"""Session: the server at work for one host, from the first frame to the last answer."""

from __future__ import annotations

import asyncio
import os
import threading

from skillopt_mcp.server.ending import Ending
from skillopt_mcp.server.opening import open_server
from skillopt_mcp.server.setup import Setup
from skillopt_mcp.server.wire import Wire

_PARENT_POLL_S = 0.5
_WARM_AFTER_S = 0.3


class Session:
    """The server of `setup` for the host that started it."""

    def __init__(self, setup: Setup) -> None:
        self._server = open_server(setup)

    def run(self, pipes: tuple[int, int], ending: Ending, parent: int) -> None:
        """Serve the host at the other end of `pipes` until `ending` begins, or the process `parent` is gone."""
        asyncio.run(self._run(pipes, ending, parent))

    async def _run(self, pipes: tuple[int, int], ending: Ending, parent: int) -> None:
        loop = asyncio.get_running_loop()
        wire = Wire(*pipes)
        ending.attach(lambda: loop.call_soon_threadsafe(wire.finish))
        wire.start(on_end=ending.begin)
        watching = asyncio.create_task(_watch_parent(parent, ending))
        loop.call_later(_WARM_AFTER_S, threading.Thread(target=self._server.open_tools, daemon=True).start)
        await self._server.run_streams(wire.incoming, wire.outgoing)
        watching.cancel()
        wire.outgoing.flush()


async def _watch_parent(parent: int, ending: Ending) -> None:
    """End the server when its parent has died, though something else may still hold its stdin open."""
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_POLL_S)
    ending.begin()
