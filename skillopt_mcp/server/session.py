"""Session: the server at work for one host, from the first frame to the last answer."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from pathlib import Path

from mcp.server.mcpserver.tools import Tool

from skillopt_mcp.server.app import build_server
from skillopt_mcp.server.ending import Ending
from skillopt_mcp.server.wire import Wire

_PARENT_POLL_S = 0.5
_WARM_AFTER_S = 0.3


class Session:
    """A server over the store at `store_path`, with the backends that were named."""

    def __init__(self, store_path: Path, target: str | None, optimizer: str | None, judge: str | None = None) -> None:
        self._store_path, self._target, self._optimizer, self._judge = store_path, target, optimizer, judge
        self._server = build_server(self._open_tools)
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", force=True)

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

    def _open_tools(self) -> list[Tool]:
        from skillopt_mcp.operations.workspace import Workspace  # noqa: PLC0415
        from skillopt_mcp.server.tools import tools_over  # noqa: PLC0415

        workspace = Workspace(self._store_path, target=self._target, optimizer=self._optimizer, judge=self._judge)
        return tools_over(workspace)


async def _watch_parent(parent: int, ending: Ending) -> None:
    """End the server when its parent has died, though something else may still hold its stdin open."""
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_POLL_S)
    ending.begin()
