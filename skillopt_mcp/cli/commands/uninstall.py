"""Uninstall: take out of a host's files what install put there; where nothing else changed, byte for byte."""

from __future__ import annotations

from skillopt_mcp.admin.install.hosts import surroundings
from skillopt_mcp.admin.install.installing import Installed, list_backups, places_of, plan_uninstall
from skillopt_mcp.cli.command import command
from skillopt_mcp.cli.commands.install import Installation
from skillopt_mcp.cli.terminal import Terminal


@command("uninstall", example="uninstall claude-code --hooks")
class Uninstall(Installation):
    """Remove from a host what install put there."""

    def run(self, terminal: Terminal) -> Installed:
        request, around = self.request(terminal), surroundings()
        plan = plan_uninstall(request, around)
        result = self.carry_out(terminal, plan, lambda: plan_uninstall(request, around), done="uninstalled")
        where = places_of(request, around)
        files = filter(None, (where.config, where.hooks)) if result.status == "uninstalled" else ()
        return result.model_copy(update={"backups": [str(backup) for file in files for backup in list_backups(file)]})
