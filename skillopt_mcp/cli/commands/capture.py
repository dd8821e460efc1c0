"""Capture: what the hooks of Claude Code and Codex run; it never gets in the way of the host."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from skillopt_mcp.cli.command import Command, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.hook_events import may_record, parse_event
from skillopt_mcp.limits import MIB

if TYPE_CHECKING:
    from pydantic import BaseModel


@command("capture", example="capture < event.json", hidden=True)
class Capture(Command):
    """Record a session, from the event that a host's hook gives on standard input.

    Always exits with 0 and prints nothing without --json: a host reads other codes, and output, as wishes.
    """

    def run(self, terminal: Terminal) -> BaseModel | dict[str, str]:
        """Return what was recorded."""
        try:
            event = parse_event(sys.stdin.buffer.read(MIB))
            if may_record(terminal.store_path, event):
                # A host waits at every stop, and in most sessions no skill is opened: then none of this is loaded.
                from skillopt_mcp.sessions import capture  # noqa: PLC0415

                if found := capture(terminal.store_path, event):
                    for problem in found.problems:
                        _note(f"{problem.path}: {problem.reason}")
                    return found
        except (SkillOptError, OSError) as error:
            _note(str(error))
            return {"error": str(error)}
        return {}

    def show(self, result: object, terminal: Terminal) -> None:
        """Print nothing."""


def _note(text: str) -> None:
    sys.stderr.write(f"skillopt-mcp capture: {' '.join(text.split())}\n")
