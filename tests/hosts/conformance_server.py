"""Conformance server: our server over HTTP without a token; with the official suite's fixtures where asked for.

python conformance_server.py STORE FD [--fixtures]     (FD is a socket that listens at 127.0.0.1)
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import uvicorn
from conformance_fixtures import FixtureServer, mount

from skillopt_mcp.server.app import SkillOptServer
from skillopt_mcp.server.http import http_app, parsed_address
from skillopt_mcp.server.lifecycle import Setup
from skillopt_mcp.server.services import open_services


def main() -> None:
    """Serve until the process is ended."""
    store, number, *rest = sys.argv[1:]
    with socket.socket(fileno=os.dup(int(number))) as listening:
        port = listening.getsockname()[1]
    services = open_services(Setup(Path(store), target="simulated:honest"))
    kind = FixtureServer if rest == ["--fixtures"] else SkillOptServer
    server = kind(lambda: services)
    if isinstance(server, FixtureServer):
        mount(server)
    app = http_app(server, parsed_address(str(port), (), ()))
    uvicorn.run(app, fd=int(number), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
