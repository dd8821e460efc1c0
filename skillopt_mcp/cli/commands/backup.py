"""Backup: the store as one file that was checked, while others go on using it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.cli.working import working
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.stores.backing_up import back_up


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Where to write it, and whether it is wanted though it is not sound."""

    file: str = ""
    unsound: bool = False


def run(options: Options) -> int:
    """Return 0: it was made, and is sound or wanted as it is."""
    with working(options) as tell:
        made = back_up(options.store_path, Path(options.file).expanduser(), unsound=options.unsound, tell=tell)
    if options.json:
        terminal.emit(made, options)
        return 0
    for problem in made.problems:
        terminal.note(f"note: {problem}")
    terminal.say(f"{made.file}: {counted(made.n_bytes, 'byte')}, {counted(made.n_events, 'event')}.")
    terminal.say(terminal.advice(made.next_step, options))
    return 0
