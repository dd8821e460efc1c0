"""Changing: what promote and rollback share: whose consent it is, and what became of the live file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from skillopt_mcp.cli.command import Command, Flag
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.promotions.consent import Consent
from skillopt_mcp.records.results import Promoted


@dataclass(kw_only=True)
class Changing(Command):
    """Commands that write the live file."""

    yes: Annotated[bool, Flag("do not ask (needed where there is no terminal)")] = False

    def consent(self, terminal: Terminal) -> Consent:
        """Return who agrees: a person who is asked, or one who agreed beforehand."""
        return Consent.COMMAND if self.yes and not terminal.is_interactive else Consent.PERSON

    def show(self, result: Promoted, terminal: Terminal) -> None:
        if self.exit_code(result):
            terminal.note(f"error: {result.status}: {result.reason}.")
            return
        done = "Promoted" if result.status == "promoted" else "Rolled back"
        terminal.say(f"{done}: {result.skill_path} is now version {result.version} (was {result.previous_version}).")

    def as_json(self, result: Promoted) -> Mapping[str, object]:
        error = {"error": f"{result.status}: {result.reason}"} if self.exit_code(result) else {}
        return result.model_dump(mode="json") | error

    def exit_code(self, result: Promoted) -> int:
        return 0 if result.status in ("promoted", "rolled_back") else 1
