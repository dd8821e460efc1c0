"""Diff: what differs between two versions of a skill."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.looks.history import diff_versions
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which skill; the versions default to the last change of the live file."""

    skill: str = ""
    old: str | None = None
    new: str | None = None


def run(options: Options) -> int:
    """Return 0, whether or not anything differs."""
    with Workspace(options.store_path) as workspace:
        diff = diff_versions(workspace, options.skill, options.old, options.new)
    if options.json:
        terminal.emit({"skill": options.skill, "diff": diff})
    elif diff:
        terminal.say_diff(diff)
    else:
        terminal.note("No difference.")
    return 0
