"""Uninstall: take out of a host's files what install put there; where nothing else changed, byte for byte."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from skillopt_mcp.cli.installation import Installation, would_be
from skillopt_mcp.installing.hosts import surroundings
from skillopt_mcp.operations.hosts.installing import Installed
from skillopt_mcp.operations.hosts.uninstalling import left_behind, plan_uninstall


@dataclass(frozen=True, slots=True)
class Options(Installation):
    """What to take out of which host."""


def run(options: Options) -> int:
    """Return 0 when the host has it no longer (or would not, with --dry-run), 1 when the person said no."""
    request = options.request()
    around = surroundings()
    plan = plan_uninstall(request, around)
    written = options.carry_out(plan, lambda: plan_uninstall(request, around))
    backups = [] if written is None else left_behind(request, around)
    return options.report(
        Installed(
            status="unchanged" if not plan.changes else "shown" if written is None else "uninstalled",
            host=request.host,
            scope=request.scope,
            files=would_be(plan) if written is None else written,
            tools=[],
            notes=plan.notes,
            next_step=f"Backups stay. Once all is well, remove them: {shlex.join(['rm', *backups])}" if backups else "",
        )
    )
