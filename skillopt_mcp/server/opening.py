"""Opening: the server of a setup; what stands behind it is imported and opened when it is first needed."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from skillopt_mcp.server.app import Rooms, SkillOptServer
from skillopt_mcp.server.setup import Setup


def open_server(setup: Setup, leaving: Future[None] | None = None) -> SkillOptServer:
    """Return the server of `setup`; once it is `leaving`, no call waits for work that goes on in the background."""
    lock = threading.Lock()
    opened: list[Rooms] = []

    def rooms() -> Rooms:
        with lock:
            if not opened:
                from skillopt_mcp.server.rooms import open_rooms  # noqa: PLC0415

                opened.append(open_rooms(setup, leaving))
            return opened[0]

    server = SkillOptServer(
        lambda: rooms().tools,
        lambda: rooms().library,
        lambda: rooms().desk,
        require_approval=setup.require_approval,
    )
    # After the SDK has set up a logging of its own.
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", force=True)
    return server
