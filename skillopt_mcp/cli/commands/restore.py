"""Restore: a backup in the place of the store, which is kept beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.cli.working import working
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.stores.backing_up import Backup, restore_store, review_backup


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which backup, whether it is wanted though it is not sound, and whether the person has agreed beforehand."""

    file: str = ""
    unsound: bool = False
    yes: bool = False


def run(options: Options) -> int:
    """Return 0 when it is in place, 1 when the person did not want it. Raises Refused in an agent's shell."""
    terminal.require_person("restore")
    file = Path(options.file).expanduser()
    if not options.yes:
        with working(options) as tell:
            found = review_backup(options.store_path, file, unsound=options.unsound, tell=tell)
        if not options.json:
            _say(found)
        question = f"Put it in the place of {options.store_path}?"
        if not terminal.agreed(question, yes=False, ask=not options.json):
            terminal.note("Nothing was changed.")
            return 1
    with working(options) as tell:
        restored = restore_store(options.store_path, file, unsound=options.unsound, tell=tell)
    if options.json:
        terminal.emit(restored, options)
        return 0
    if options.yes:
        _say(restored)
    terminal.say(terminal.advice(restored.next_step, options))
    return 0


def _say(backup: Backup) -> None:
    """Say what a backup holds, and what it lets agents do once it is the store."""
    events = counted(backup.n_events, "event")
    is_sound = "is NOT sound" if backup.problems else "is sound"
    terminal.say(f"{backup.file} {is_sound}: {events}, the last at {backup.last_event_at or '?'}.")
    terminal.say(f"Skills: {', '.join(backup.skills) or 'none'}.")
    for missing in backup.missing:
        terminal.say(f"  Not on this machine: {missing}.")
    for permit in backup.permits:
        terminal.say(f"  It allows {permit}.")
    for lost in backup.lost_tests:
        terminal.say(f"  It does not know of {lost}: that is given back, and may be spent again.")
    if backup.n_returning:
        back = "that was erased since comes" if backup.n_returning == 1 else "that were erased since come"
        terminal.say(f"  {counted(backup.n_returning, 'attempt')} {back} back: erase again what is to be gone.")
