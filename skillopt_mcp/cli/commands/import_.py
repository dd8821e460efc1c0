"""Import: the history of a skill from another store, as evidence to read; no live file changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.cli.working import working
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.stores.taking_in import import_history
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which file, into which skill (else the one of its name); what contradicts left out; another skill's meant."""

    file: str = ""
    skill: str | None = None
    keep_mine: bool = False
    other_skill: bool = False


def run(options: Options) -> int:
    """Return 0 when all of it is here now, 1 when conflicts kept it out."""
    with Workspace(options.store_path) as workspace, working(options) as tell:
        got = import_history(
            workspace, Path(options.file).expanduser(), options.skill, keep_mine=options.keep_mine,
            other_skill=options.other_skill, tell=tell,
        )  # fmt: skip
    if options.json:
        terminal.emit(got, options)
        return 1 if got.status == "conflicts" else 0
    for each in got.left_out:
        terminal.note(f"left out: {each}")
    for each in got.conflicts:
        terminal.note(f"conflict: {each}")
    if got.status == "imported":
        terminal.say(
            f"{got.skill}: of the history of {got.of}, {counted(got.versions, 'version')}, "
            f"{counted(got.tasks, 'task')}, {counted(got.trajectories, 'attempt')}, "
            f"{counted(got.candidates, 'candidate')} and {counted(got.told, 'line')} of history were new."
        )
    elif got.skill == got.of:
        terminal.say(f"{got.skill}: nothing of the file was taken in.")
    else:
        terminal.say(f"{got.skill}: the file is the history of {got.of}.")
    if got.erased:
        terminal.note(f"note: {counted(got.erased, 'attempt')} that the file tells to be erased, erased here as well")
    if got.known_tasks:
        terminal.note(
            f"note: {counted(got.known_tasks, 'held-out task')} here {'was' if got.known_tasks == 1 else 'were'} train "
            "or val where its candidates were made: the promotion tests of those candidates leave them out"
        )
    terminal.say(terminal.advice(got.next_step, options))
    return 1 if got.status == "conflicts" else 0
