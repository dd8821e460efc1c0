"""Export: a skill's whole history as one file, for another store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.stores.transferring import export_history
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which skill, and where to write its history."""

    skill: str = ""
    file: str = ""


def run(options: Options) -> int:
    """Return 0: it was written."""
    with Workspace(options.store_path) as workspace:
        sent = export_history(workspace, options.skill, Path(options.file).expanduser())
    if options.json:
        terminal.emit(sent)
        return 0
    for each in sent.left_out:
        terminal.note(f"left out: {each}")
    terminal.say(f"{sent.file}: the history of {sent.skill}, {sent.n_lines:,} lines, {sent.n_bytes:,} bytes.")
    terminal.say(sent.next_step)
    return 0
