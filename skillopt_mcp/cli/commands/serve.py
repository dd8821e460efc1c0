"""Serve: MCP over stdin and stdout until the host goes, or over HTTP until it is stopped."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.backends.names import backend_name
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.errors import BadInput
from skillopt_mcp.server.lifecycle import serve
from skillopt_mcp.server.setup import LEASE_MINUTES, Setup

MOST_MINUTES = 1440


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which backends answer, if any; whether a person approves each change of a file; and where to listen."""

    target: str | None = None
    optimizer: str | None = None
    judge: str | None = None
    require_approval: bool = False
    http: str | None = None
    allow_host: tuple[str, ...] = ()
    allow_origin: tuple[str, ...] = ()
    lease_minutes: float = LEASE_MINUTES
    max_calls: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    max_minutes: float | None = None


def run(options: Options) -> int:
    """Return 0 when the host has gone, or the server was stopped."""
    if options.json:
        raise BadInput("serve speaks JSON-RPC on stdout: leave out '--json'")
    if not 0 < options.lease_minutes <= MOST_MINUTES:
        raise BadInput(f"--lease-minutes {options.lease_minutes:g} is not possible: use up to {MOST_MINUTES}, above 0")
    for spec in (options.target, options.optimizer, options.judge):
        if spec and backend_name(spec)[0] == "scripted":
            # Its file is there or not: only who names one pays for reading it before the host is answered.
            from skillopt_mcp.backends.scripted import open_scripted  # noqa: PLC0415

            open_scripted(backend_name(spec)[1])
    setup = Setup(
        options.store_path, options.target, options.optimizer, options.judge, options.require_approval,
        options.lease_minutes, options.max_calls, options.max_tokens, options.max_usd, options.max_minutes,
    )  # fmt: skip
    if options.http is None:
        if options.allow_host or options.allow_origin:
            raise BadInput("'--allow-host' and '--allow-origin' are for HTTP: give '--http PORT' too")
        return serve(setup)
    from skillopt_mcp.server.http import parsed_address, serve_http  # noqa: PLC0415

    return serve_http(setup, parsed_address(options.http, tuple(options.allow_host), tuple(options.allow_origin)))
