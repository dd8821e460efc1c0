"""Diff: what differs between two versions of a skill."""

from __future__ import annotations

from typing import Annotated

from skillopt_mcp.cli.command import SKILL, Arg, Command, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.reports.history import diff_versions


@command("diff", example="diff my-skill", needs_store=True)
class Diff(Command):
    """Show what differs between two versions of a skill."""

    skill: Annotated[str, Arg(SKILL)]
    old: Annotated[str | None, Arg("a version (default: the one before the last change)")] = None
    new: Annotated[str | None, Arg("a version (default: what is live)")] = None

    def run(self, terminal: Terminal) -> dict[str, str]:
        with terminal.workspace() as workspace:
            return {
                "skill": self.skill,
                "diff": diff_versions(workspace.store, workspace.place, self.skill, self.old, self.new),
            }

    def show(self, result: dict[str, str], terminal: Terminal) -> None:
        terminal.diff(result["diff"])
        if not result["diff"]:
            terminal.note("No difference.")
