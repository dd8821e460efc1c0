"""Store: verify, back up, restore, and erase attempts for good."""

from __future__ import annotations

import getpass
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

from skillopt_mcp.cli.command import YES, Arg, Command, Flag, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import working
from skillopt_mcp.documents.text import counted
from skillopt_mcp.maintenance.backup import BackedUp, Backup, Restored, back_up, restore_store, review_backup
from skillopt_mcp.maintenance.erase import Erasure, erase, review_erasure
from skillopt_mcp.maintenance.verify import Verified, verify_store
from skillopt_mcp.show.notes import describe_note
from skillopt_mcp.trajectories import AttemptQuery, find_attempts

_STAYS = "It stays in this store. A new one (--store FILE) is without it, once this one is removed."
# What an erasure leaves, by its kind, and what a person can do about it.
_ELSEWHERE = {
    "version": ("versions of skills", f"If one is live, correct the file. {_STAYS}"),
    "version_file": ("names of files in versions", _STAYS),
    "task": ("tasks", f"Remove them, so that nothing draws them (skillopt-mcp tasks remove). {_STAYS}"),
    "retirement": ("removed tasks", _STAYS),
    "candidate": ("reasons of candidates", f"Promote none that you would not show. {_STAYS}"),
    "edit": ("edits of candidates", f"Promote none that you would not show. {_STAYS}"),
    "run": ("runs (their settings, notes or results)", _STAYS),
    "step": ("steps of runs", _STAYS),
    "trial": ("reasons of scores in runs and tests", _STAYS),
    "attempt": ("errors of backends", _STAYS),
    "other_attempts": ("other attempts", "Erase them, too: skillopt-mcp store erase trajectory:N"),
    "session_ids": ("session ids of erased attempts", _STAYS),
    "open_answers": ("answers of the optimizer in unfinished runs", "Finish the run, then repeat this command."),
    "answers": ("answers in runs and tests", f"Verdicts rest on them. {_STAYS}"),
    "host_work": ("work that is out with a host", "It is removed when that work is done, or after a day."),
    "made_from": ("candidates with edits from these attempts", f"Look at each (skillopt-mcp show). {_STAYS}"),
    "copies": ("older copies of this store", "Remove these files."),
    "transcripts": ("transcripts of the hosts", "Remove these files; nothing reads these attempts from them again."),
}


@command("store verify", example="store verify", needs_store=True)
class Verify(Command):
    """Check that the store holds what was written, and recompute its verdicts."""

    holds: Annotated[str | None, Flag("check that this hash of the chain of events is still in it", "HASH")] = None

    def run(self, terminal: Terminal) -> Verified:
        """Return what is wrong."""
        with working(terminal) as progress:
            return verify_store(terminal.store_path, self.holds, advance=progress)

    def show(self, result: Verified, terminal: Terminal) -> None:
        for note in result.notes:
            terminal.note(f"note: {describe_note(note)}.")
        for problem in result.problems:
            terminal.note(f"error: {problem}")
        if result.n_problems > len(result.problems):
            terminal.note(f"error: and {result.n_problems - len(result.problems):,} more")
        if result.problems:
            terminal.say(f"{result.store} is NOT sound.")
            return
        events, decisions = counted(result.n_events, "event"), counted(result.n_decisions, "decision")
        terminal.say(f"{result.store} is sound: {events}, {decisions} recomputed.")
        terminal.say(f"Checked: {'; '.join(result.covered)}.")
        terminal.say(f"Not checked, a changed bit there goes unnoticed: {'; '.join(result.not_covered)}.")
        if result.head:
            terminal.say(f"The last event is {result.head}; keep this hash elsewhere for verify --holds.")

    def exit_code(self, result: Verified) -> int:
        return 1 if result.problems else 0


@command("store backup", example="store backup store-copy.db", needs_store=True)
class Save(Command):
    """Write the store to a file while it is in use, and check the file."""

    file: Annotated[str, Arg("a file that does not exist yet")]
    unsound: Annotated[bool, Flag("write it though the check finds faults in the store")] = False

    def run(self, terminal: Terminal) -> BackedUp:
        """Return what the backup holds."""
        terminal.require_person("store backup")
        with working(terminal) as progress:
            file = Path(self.file).expanduser()
            return back_up(terminal.store_path, file, unsound=self.unsound, advance=progress)

    def show(self, result: BackedUp, terminal: Terminal) -> None:
        for problem in result.problems:
            terminal.note(f"note: {problem}")
        terminal.say(f"{result.file}: {counted(result.n_bytes, 'byte')}, {counted(result.n_events, 'event')}.")


@command("store restore", example="store restore store-copy.db")
class Restore(Command):
    """Put a backup in the place of the store, which is kept next to it."""

    file: Annotated[str, Arg("a backup; first stop all that has the store open (hosts, replays)")]
    unsound: Annotated[bool, Flag("put it in place though the check finds faults in it")] = False
    yes: Annotated[bool, YES] = False

    def run(self, terminal: Terminal) -> Restored:
        """Show what the backup holds, ask a person, and put it in place."""
        terminal.require_person("store restore")
        file = Path(self.file).expanduser()
        if not self.yes:
            with working(terminal) as progress:
                found = review_backup(terminal.store_path, file, unsound=self.unsound, advance=progress)
            self._describe(found, terminal)
            terminal.ask(f"Put it in the place of {terminal.store_path}?", yes=False)
        with working(terminal) as progress:
            return restore_store(terminal.store_path, file, unsound=self.unsound, advance=progress)

    def show(self, result: Restored, terminal: Terminal) -> None:
        if self.yes:
            self._describe(result, terminal)
        kept = f" What was there is kept as {result.kept}." if result.kept else ""
        terminal.note(f"It is in place.{kept}")

    def _describe(self, backup: Backup, terminal: Terminal) -> None:
        is_sound = "is NOT sound" if backup.problems else "is sound"
        events = counted(backup.n_events, "event")
        terminal.say(f"{backup.file} {is_sound}: {events}, the last at {backup.last_event_at or '?'}.")
        n_named = Counter(each.name for each in backup.skills)
        names = [f"{each.name} ('{each.path}')" if n_named[each.name] > 1 else each.name for each in backup.skills]
        terminal.say(f"Skills: {', '.join(names) or 'none'}.")
        for each, name in zip(backup.skills, names, strict=True):
            if each.is_missing:
                terminal.say(f"  Not on this machine: {each.path}.")
            if each.is_permitted:
                terminal.say(f"  It allows promotions of {name} without asking.")
        for root in backup.roots:
            terminal.say(f"  It allows the skill root {root}.")
        for program in backup.programs:
            terminal.say(f"  It allows the judge program {program}.")
        for lost in backup.lost_tests:
            tests = f"{counted(lost.n, 'promotion test')} of {lost.skill} (error rate {lost.alpha:.3f})"
            terminal.say(f"  It does not have {tests}; that error rate may be spent again.")
        if backup.n_returning:
            terminal.say(f"  Erased since, and in it: {counted(backup.n_returning, 'attempt')}; erase again.")


@command("store erase", example="store erase trajectory:7 --dry-run", needs_store=True)
class Erase(Command):
    """Remove the text of recorded attempts from the store for good.

    Backups, exports and --out folders written before are not searched. Change a secret that was recorded.
    """

    what: Annotated[tuple[str, ...], Arg("trajectory:N (one or more), or a SKILL with one of the options below")]
    session: Annotated[str | None, Flag("the skill's attempts of this session of a host", "ID")] = None
    before: Annotated[str | None, Flag("those recorded before a day (2026-08-01, UTC), or 90d ago", "DATE")] = None
    containing: Annotated[
        str | None, Flag("those that contain this text ('-': read it from standard input)", "TEXT")
    ] = None
    all: Annotated[bool, Flag("all attempts of the skill")] = False
    dry_run: Annotated[bool, Flag("show what would be erased and what would stay, and stop")] = False
    yes: Annotated[bool, YES] = False

    def run(self, terminal: Terminal) -> Erasure:
        """Show what would go and stay, ask a person, and erase it."""
        terminal.require_person("store erase")
        wanted = AttemptQuery(self.what, self.session, self.before, self._text(), self.all)
        with terminal.workspace() as workspace:
            meant = find_attempts(workspace, wanted)
            if self.dry_run or not (self.yes and terminal.is_json):
                planned = review_erasure(workspace, meant)
                if self.dry_run:
                    return planned
                self._describe(planned, terminal)
                if planned.status == "planned":
                    terminal.ask(f"Erase {counted(planned.n, 'attempt')} for good?", yes=self.yes)
            n_done = 0
            with working(terminal) as progress:

                def advance(n: int) -> None:
                    nonlocal n_done
                    n_done += n
                    progress("erasing", n_done, len(meant.ids))

                return erase(workspace, meant, advance)

    def show(self, result: Erasure, terminal: Terminal) -> None:
        if self.dry_run:
            self._describe(result, terminal)
            terminal.note("Nothing was changed.")
            return
        terminal.say(
            f"{counted(result.n, 'attempt')} erased, {counted(result.answers, 'answer')} of the optimizer emptied, "
            f"{counted(result.notes, 'note')} cleaned."
        )

    def exit_code(self, result: Erasure) -> int:
        return 0 if self.dry_run or result.log_emptied else 1

    def _text(self) -> str | None:
        """Return the text to look for, read where no history of a shell keeps it when it comes from standard input."""
        if self.containing != "-":
            return self.containing
        if sys.stdin.isatty():
            return getpass.getpass("The text to look for (it is not shown): ")
        return sys.stdin.read().removesuffix("\n").removesuffix("\r")

    def _describe(self, planned: Erasure, terminal: Terminal) -> None:
        terminal.say(f"{counted(planned.n, 'attempt')} would be erased{':' if planned.n else '.'}")
        for row in planned.attempts:
            session = f"  session {row.session}" if row.session else ""
            terminal.say(f"  {row.id}  {row.skill}  {row.at}{session}  {row.words}")
        if planned.n > len(planned.attempts):
            terminal.say(f"  and {planned.n - len(planned.attempts):,} more")
        if planned.answers:
            terminal.say(f"{counted(planned.answers, 'answer')} of the optimizer to what showed them would be emptied.")
        for run in planned.runs:
            terminal.say(f"{run} is not finished: it continues without them.")
        for each in planned.elsewhere:
            what, step = _ELSEWHERE.get(each.kind, (f"rows of table {each.kind}", _STAYS))
            terminal.say(f"Not erased: {what} ({each.n:,}):")
            for where in each.where:
                terminal.say(f"  {where}")
            if each.n > len(each.where):
                terminal.say(f"  and {each.n - len(each.where):,} more")
            terminal.say(f"  {step}")
