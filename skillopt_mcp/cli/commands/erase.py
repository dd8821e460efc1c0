"""Erase: recorded attempts taken out of the store for good, once a person has seen which, and what stays."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.evidence.erasing import Erasure, erase, review_erasure
from skillopt_mcp.operations.evidence.naming import Meant, Wanted, attempts_meant
from skillopt_mcp.operations.workspace import Workspace

NOT_SEARCHED = (
    "Not looked at: backups, exports and --out folders that were written before, and what a host has read or sent on. "
    "Restoring an older backup brings the attempts back. A secret that was recorded is best changed."
)


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which attempts, and whether to stop before anything is changed, or not to ask."""

    what: Sequence[str] = ()
    session: str | None = None
    before: str | None = None
    containing: str | None = None
    all: bool = False
    dry_run: bool = False
    yes: bool = False


def run(options: Options) -> int:
    """Return 0 when they are gone, 1 when the person did not want it or the store's log could not be emptied.

    Raises Refused in an agent's shell.
    """
    terminal.require_person("erase")
    wanted = Wanted(options.what, options.session, options.before, _text(options.containing), options.all)
    with Workspace(options.store_path) as workspace:
        meant = attempts_meant(workspace, wanted)
        if options.dry_run or not (options.yes and options.json):
            planned = review_erasure(workspace, meant)
            if options.json and options.dry_run:
                terminal.emit(planned, options)
            elif not options.json:
                _say(planned, options)
            if options.dry_run:
                terminal.note("Nothing was changed.")
                return 0
            question = f"Erase {counted(planned.n, 'attempt')} for good?"
            if planned.status == "planned" and not terminal.agreed(question, yes=options.yes, ask=not options.json):
                terminal.note("Nothing was changed.")
                return 1
        done = _erased(workspace, meant, options)
    if options.json:
        terminal.emit(done, options)
    else:
        _say_done(done, options)
    return 0 if done.log_emptied else 1


def _text(given: str | None) -> str | None:
    """Return the text to look for, read where nobody sees it when it is to come from standard input."""
    if given != "-":
        return given
    if sys.stdin.isatty():
        return getpass.getpass("The text to look for (it is not shown): ")
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


def _erased(workspace: Workspace, meant: Meant, options: Options) -> Erasure:
    bar = Progress(
        TextColumn("erasing"), BarColumn(), MofNCompleteColumn(),
        console=terminal.stderr(), transient=True, disable=options.json or not terminal.stderr().is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("", total=len(meant.ids))
        return erase(workspace, meant, lambda n: bar.advance(task, n))


def _say(planned: Erasure, options: Options) -> None:
    """Say what would go, and what would stay."""
    terminal.say(f"{counted(planned.n, 'attempt')} would be erased{':' if planned.n else '.'}")
    for row in planned.attempts:
        session = f"  session {row.session}" if row.session else ""
        terminal.say(f"  {row.id}  {row.skill}  {row.at}{session}  {row.words}")
    if planned.n > len(planned.attempts):
        terminal.say(f"  and {planned.n - len(planned.attempts):,} more")
    if planned.answers:
        terminal.say(f"{counted(planned.answers, 'answer')} of the optimizer to what showed them would be emptied.")
    for run in planned.runs:
        terminal.say(f"{run} is not finished: it goes on without them, and what showed them is asked anew.")
    for each in planned.elsewhere:
        terminal.say(f"Not erased: {each.what} ({each.n:,}):")
        for where in each.where:
            terminal.say(f"  {where}")
        if each.n > len(each.where):
            terminal.say(f"  and {each.n - len(each.where):,} more")
        terminal.say(f"  {options.on_store(each.step)}")
    terminal.say(NOT_SEARCHED)


def _say_done(done: Erasure, options: Options) -> None:
    notes = f", and {counted(done.notes, 'note')} rid of it" if done.notes else ""
    terminal.say(
        f"{counted(done.n, 'attempt')} erased, {counted(done.answers, 'answer')} of the optimizer emptied{notes}."
    )
    if done.n:
        terminal.say("Of each a row stays without its text, so that no reading of its session brings it back.")
    if done.next_step:
        terminal.note(options.on_store(done.next_step))
