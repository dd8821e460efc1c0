"""Serve: MCP over stdin and stdout, until the host goes."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.errors import BadInput
from skillopt_mcp.server.lifecycle import serve


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which backends evaluate, propose and judge, if any."""

    target: str | None = None
    optimizer: str | None = None
    judge: str | None = None


def run(options: Options) -> int:
    """Return 0 when the host has gone."""
    if options.json:
        raise BadInput("serve speaks JSON-RPC on stdout: leave out '--json'")
    return serve(options.store_path, target=options.target, optimizer=options.optimizer, judge=options.judge)
