"""Import: the history of a skill from another store, as evidence to read; no live file changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.taking_in import import_history
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which file, into which skill (else the one of its name), and whether what contradicts is to be left out."""

    file: str = ""
    skill: str | None = None
    keep_mine: bool = False


def run(options: Options) -> int:
    """Return 0 when all of it is here now, 1 when conflicts kept it out."""
    with Workspace(options.store_path) as workspace:
        got = import_history(
            workspace, Path(options.file).expanduser(), options.skill, keep_mine=options.keep_mine
        )  # fmt: skip
    if options.json:
        terminal.emit(got)
        return 1 if got.status == "conflicts" else 0
    for each in got.left_out:
        terminal.note(f"left out: {each}")
    for each in got.conflicts:
        terminal.note(f"conflict: {each}")
    if got.status == "imported":
        terminal.say(
            f"{got.skill}: {got.versions} versions, {got.tasks} tasks, {got.trajectories} attempts, {got.candidates} "
            f"candidates and {got.told} lines of history were new."
        )
    terminal.say(terminal.advice(got.next_step, options))
    return 1 if got.status == "conflicts" else 0
