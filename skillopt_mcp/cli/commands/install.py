"""Install: add the server to a host's configuration, once a person has seen the change and the server works there."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import Annotated

from skillopt_mcp.cli.command import OPTIMIZER, TARGET, Flag, command
from skillopt_mcp.cli.installation import Installation
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.install.hosts import surroundings
from skillopt_mcp.install.installing import Installed, check_backends, check_server, describe_restart, plan_install
from skillopt_mcp.skills import first_to_track


@command("install", example="install claude-code --hooks --skill")
class Install(Installation):
    """Add the server to a host; with --hooks and --skill also what records sessions and teaches the loop."""

    target: Annotated[str | None, Flag(f"does the tasks, for instance {TARGET}", "BACKEND:MODEL")] = None
    optimizer: Annotated[str | None, Flag(f"writes the edits, for instance {OPTIMIZER}", "BACKEND:MODEL")] = None
    judge: Annotated[str | None, Flag("judges by rubrics, where tasks have such", "BACKEND:MODEL")] = None

    def run(self, terminal: Terminal) -> Installed:
        """Start the server as the host will, show the change, ask a person, write it."""
        named = {"--target": self.target, "--optimizer": self.optimizer, "--judge": self.judge}
        backends = {option: spec for option, spec in named.items() if spec}
        request, around = self.request(terminal, tuple(chain(*backends.items()))), surroundings()
        lacking = check_backends(backends)
        plan = plan_install(request, around)
        plan.notes += lacking
        tools = check_server(request, around)
        terminal.note(f"The server starts and lists {len(tools)} tools.")
        result = self.carry_out(terminal, plan, lambda: plan_install(request, around), done="installed")
        if result.status != "installed":
            return result.model_copy(update={"tools": tools})
        step = None
        if self.hooks:
            with suppress(SkillOptError), terminal.workspace() as workspace:
                step = first_to_track(workspace)
        return result.model_copy(update={"tools": tools, "restart": describe_restart(request), "next_step": step})
