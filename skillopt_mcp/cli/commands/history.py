"""History: the promotions and rollbacks of a skill, newest first."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.looks.history import history
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which skill."""

    skill: str = ""


def run(options: Options) -> int:
    """Return 0, whether or not anything ever changed."""
    with Workspace(options.store_path) as workspace:
        found = history(workspace, options.skill)
    if options.json:
        terminal.emit(found, options)
        return 0
    for row in found.rows:
        candidate = f", candidate {row.candidate_id}" if row.candidate_id else ""
        verdict = f", verdict {row.verdict}" if row.verdict else ""
        terminal.say(f"{row.at}  {row.kind:<8}  {row.previous_version} -> {row.version}{candidate}{verdict}")
        terminal.say(f"    by {row.by}", style="dim")
    for line in found.declined:
        terminal.say(f"declined: {line}")
    for line in found.retired:
        terminal.say(f"retired: {line}")
    for line in found.imported:
        terminal.say(f"imported (of another store, nothing here rests on it): {line}", style="dim")
    terminal.note(terminal.advice(found.next_step, options))
    return 0
