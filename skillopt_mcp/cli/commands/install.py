"""Install: add the server to a host's configuration, once a person has seen the change and the server works there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.installation import Installation, would_be
from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.installing.hosts import surroundings
from skillopt_mcp.operations.hosts.installing import (
    Installed,
    Status,
    advice,
    check_backends,
    check_server,
    plan_install,
)
from skillopt_mcp.operations.skills.tracking import to_track
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Installation):
    """What install takes beyond what uninstall does: the backends that the server is started with."""

    target: str | None = None
    optimizer: str | None = None
    judge: str | None = None

    @property
    def backends(self) -> dict[str, str]:
        """Return the backends that were named, by the option of the server that names them."""
        given = {"--target": self.target, "--optimizer": self.optimizer, "--judge": self.judge}
        return {option: spec for option, spec in given.items() if spec}


def run(options: Options) -> int:
    """Return 0 when the host has what was asked for (or would have, with --dry-run), 1 when the person said no."""
    request, around = options.request(tuple(chain(*options.backends.items()))), surroundings()
    lacking = check_backends(options.backends)
    plan = plan_install(request, around)
    plan.notes += lacking
    tools = check_server(request, around)
    if not options.json:
        terminal.note(f"Started as {request.host} will start it, the server told {len(tools)} tools.")
    written = options.carry_out(plan, lambda: plan_install(request, around))
    status: Status = "unchanged" if not plan.changes else "shown" if written is None else "installed"
    return options.report(
        Installed(
            status=status,
            host=request.host,
            scope=request.scope,
            files=would_be(plan) if written is None else written,
            tools=tools,
            notes=plan.notes,
            next_step=advice(request, _to_track(options)) if status == "installed" else "",
        )
    )


def _to_track(options: Options) -> str:
    """Return how recording begins; a store that cannot be opened is told of by whoever needs it."""
    with suppress(SkillOptError), Workspace(options.store_path) as workspace:
        return to_track(workspace)
    return ""
