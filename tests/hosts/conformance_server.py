"""Conformance server: our server over the HTTP of the SDK, for the official suite; with its fixtures where asked for.

python conformance_server.py STORE FD [--fixtures]     (FD is a socket that listens at 127.0.0.1)
"""

from __future__ import annotations

import sys
from concurrent.futures import Future
from pathlib import Path

import uvicorn
from conformance_fixtures import FixtureServer, mount

from skillopt_mcp.server.app import SkillOptServer
from skillopt_mcp.server.lifecycle import Setup
from skillopt_mcp.server.services import open_services


def main() -> None:
    """Serve until the process is ended."""
    store, number, *rest = sys.argv[1:]
    services = open_services(Setup(Path(store), target="simulated:honest"), Future())
    kind = FixtureServer if rest == ["--fixtures"] else SkillOptServer
    server = kind(lambda: services)
    if isinstance(server, FixtureServer):
        mount(server)
    uvicorn.run(server.streamable_http_app(), fd=int(number), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
