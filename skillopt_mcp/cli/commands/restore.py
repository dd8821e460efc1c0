"""Restore: a backup in the place of the store, which is kept beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.backing_up import restore_store, review_backup


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which backup, and whether the person has agreed beforehand."""

    file: str = ""
    yes: bool = False


def run(options: Options) -> int:
    """Return 0 when it is in place, 1 when the person did not want it."""
    file = Path(options.file).expanduser()
    if not options.yes:
        found = review_backup(options.store_path, file)
        if not options.json:
            terminal.say(f"{file} is sound: {found.n_events:,} events, the last at {found.last_event_at or '?'}.")
            terminal.say(f"Skills: {', '.join(found.skills) or 'none'}.")
            for permit in found.permits:
                terminal.say(f"  It allows {permit}.")
        question = f"Put it in the place of {options.store_path}?"
        if not terminal.agreed(question, yes=False, ask=not options.json):
            terminal.note("Nothing was changed.")
            return 1
    restored = restore_store(options.store_path, file)
    if options.json:
        terminal.emit(restored)
    else:
        terminal.say(restored.next_step)
    return 0
