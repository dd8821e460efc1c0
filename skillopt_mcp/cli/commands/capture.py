"""Capture: what the hooks of Claude Code and Codex run; it never gets in the way of the host."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from skillopt_mcp.actions.hook_events import START, may_record, parse_event
from skillopt_mcp.cli.command import Command, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.advice import WAITS
from skillopt_mcp.core.errors import SkillOptError
from skillopt_mcp.core.limits import MIB

if TYPE_CHECKING:
    from pydantic import BaseModel

_MAX_SHOWN = 5


@command("capture", example="capture < event.json", hidden=True)
class Capture(Command):
    """Record a session, from the event that a host's hook gives on standard input.

    Always exits with 0: a host reads other codes as wishes. Without --json it prints nothing, but for the notice at
    the start of a session.
    """

    def run(self, terminal: Terminal) -> BaseModel | dict[str, Any]:
        try:
            event = parse_event(sys.stdin.buffer.read(MIB))
            if event.hook_event_name == START:
                if not terminal.store_path.exists():
                    return {}
                # What Claude Code and Codex show the person, and give the model: what was promoted without them.
                from skillopt_mcp.reports.listing import list_waiting, promoted_away  # noqa: PLC0415

                with terminal.workspace() as workspace:
                    away = [
                        f"skillopt-mcp: {name} was {each.note}. Show it: `{each.diff}`. Undo it: `{each.undo}`."
                        for name, each in promoted_away(workspace.store).items()
                    ]
                    proven = [
                        f"skillopt-mcp: {name}: {WAITS}: `{step}`." for name, step in list_waiting(workspace.store)
                    ]
                text = "\n".join([*away[:_MAX_SHOWN], *proven[:_MAX_SHOWN]])
                output = {"hookEventName": START, "additionalContext": f"Tell the user:\n{text}"}
                return {"systemMessage": text, "hookSpecificOutput": output} if text else {}
            if may_record(terminal.store_path, event):
                # A host waits at every stop, and in most sessions no skill is opened: then none of this is loaded.
                from skillopt_mcp.actions.sessions import capture  # noqa: PLC0415

                if found := capture(terminal.store_path, event):
                    for problem in found.problems:
                        _note(f"{problem.path}: {problem.reason}")
                    return found
        except (SkillOptError, OSError) as error:
            _note(str(error))
            return {"error": str(error)}
        return {}

    def show(self, result: object, terminal: Terminal) -> None:
        """Print what the host shows as a session begins."""
        if isinstance(result, dict) and "systemMessage" in result:
            terminal.say(json.dumps(result))


def _note(text: str) -> None:
    sys.stderr.write(f"skillopt-mcp capture: {' '.join(text.split())}\n")
