"""Session: the server at work for one host, from the first frame to the last answer."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future

from skillopt_mcp.server.ending import Ending
from skillopt_mcp.server.opening import open_server
from skillopt_mcp.server.setup import Setup
from skillopt_mcp.server.wire import Wire

_HOST_POLL_S = 0.5
_LEAVING_POLL_S = 0.1
_WARM_AFTER_S = 0.3


class Session:
    """The server of `setup` for the host that started it."""

    def __init__(self, setup: Setup) -> None:
        self._leaving: Future[None] = Future()
        self._server = open_server(setup, self._leaving)

    def run(self, pipes: tuple[int, int], ending: Ending, parent: int) -> None:
        """Serve the host at the other end of `pipes` until `ending` begins, or the process `parent` is gone."""
        asyncio.run(self._run(pipes, ending, parent))

    async def _run(self, pipes: tuple[int, int], ending: Ending, parent: int) -> None:
        loop = asyncio.get_running_loop()
        wire = Wire(*pipes)

        def finish() -> None:
            self._leaving.set_result(None)
            loop.call_soon_threadsafe(wire.finish)

        ending.attach(finish)
        wire.start(on_end=ending.close)
        watching = asyncio.create_task(_watch_host(parent, wire, ending))
        loop.call_later(_WARM_AFTER_S, threading.Thread(target=self._server.open_tools, daemon=True).start)
        await self._server.run_streams(wire.incoming, wire.outgoing)
        await asyncio.to_thread(wire.outgoing.flush)
        watching.cancel()
        # All is answered: what still runs in a thread gets the grace.
        ending.begin()


async def _watch_host(parent: int, wire: Wire, ending: Ending) -> None:
    """End the server when its host is gone: its parent has died, or nobody reads what it still has to answer.

    Something else may still hold its stdin open.
    """
    while os.getppid() == parent and not (ending.is_closing and wire.outgoing.is_unread()):
        await asyncio.sleep(_LEAVING_POLL_S if ending.is_closing else _HOST_POLL_S)
    ending.begin()
