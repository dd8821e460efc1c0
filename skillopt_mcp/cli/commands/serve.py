"""Serve: MCP over stdin and stdout until the host goes."""

from __future__ import annotations

from typing import Annotated

from skillopt_mcp.backends.registry import backend_name
from skillopt_mcp.cli.command import OPTIMIZER, TARGET, TARGET_FLAG, Capped, Flag, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.server.lifecycle import LEASE_MINUTES, Setup
from skillopt_mcp.server.start import serve

MAX_LEASE_MINUTES = 1440


@command("serve", example=f"serve --target {TARGET}")
class Serve(Capped):
    """Serve MCP over stdin and stdout, for an agent's host."""

    target: Annotated[str | None, TARGET_FLAG] = None
    optimizer: Annotated[str | None, Flag(f"writes the edits, for instance {OPTIMIZER}", "BACKEND:MODEL")] = None
    require_approval: Annotated[bool, Flag("every change of a live file needs a person, also what is permitted")] = (
        False
    )
    lease_minutes: Annotated[float, Flag("how long an agent of the host may take for a work item")] = LEASE_MINUTES

    def run(self, terminal: Terminal) -> int:
        if terminal.is_json:
            raise BadInput("serve speaks JSON-RPC on stdout: leave out '--json'")
        if not 0 < self.lease_minutes <= MAX_LEASE_MINUTES:
            raise BadInput(f"--lease-minutes must be above 0, up to {MAX_LEASE_MINUTES}, got {self.lease_minutes:g}")
        for spec in (self.target, self.optimizer, self.judge):
            if spec and backend_name(spec)[0] == "scripted":
                # Its file is there or not: only who names one pays for reading it before the host is answered.
                from skillopt_mcp.backends.scripted import open_scripted  # noqa: PLC0415

                open_scripted(backend_name(spec)[1])
        return serve(
            Setup(
                terminal.store_path, self.target, self.optimizer, self.judge, self.require_approval,
                self.lease_minutes, (self.max_calls, self.max_tokens, self.max_usd, self.max_minutes),
            )
        )  # fmt: skip

    def show(self, result: int, terminal: Terminal) -> None:
        """Print nothing: stdout is the protocol's."""

    def exit_code(self, result: int) -> int:
        return result
