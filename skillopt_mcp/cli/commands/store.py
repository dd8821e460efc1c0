"""Store: verify, back up, restore, and erase attempts for good."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from skillopt_mcp.admin.backup import BackedUp, Restored, back_up, restore_store
from skillopt_mcp.admin.verify import Verified, verify_store
from skillopt_mcp.cli.command import YES, Arg, Command, Flag, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import show_work
from skillopt_mcp.core.notes import describe_note
from skillopt_mcp.core.text import counted

if TYPE_CHECKING:
    from skillopt_mcp.admin.erase import Erasure

_SHOWN = 20


@command("store verify", example="store verify", needs_store=True)
class Verify(Command):
    """Check that the store holds what was written, and recompute its verdicts."""

    holds: Annotated[str | None, Flag("check that this hash of the chain of events is still in it", "HASH")] = None

    def run(self, terminal: Terminal) -> Verified:
        with show_work(terminal) as progress:
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


@command("store backup", example="store backup store-copy.db", needs_store=True, is_persons=True)
class Save(Command):
    """Write the store to a file while it is in use, and check the file."""

    file: Annotated[str, Arg("a file that does not exist yet")]

    def run(self, terminal: Terminal) -> BackedUp:
        with show_work(terminal) as progress:
            return back_up(terminal.store_path, Path(self.file).expanduser(), advance=progress)

    def show(self, result: BackedUp, terminal: Terminal) -> None:
        terminal.say(f"{result.file}: {counted(result.n_bytes, 'byte')}, {counted(result.n_events, 'event')}.")


@command("store restore", example="store restore store-copy.db", is_persons=True)
class Restore(Command):
    """Put a backup in the place of the store, which is kept next to it."""

    file: Annotated[str, Arg("a backup; first stop all that has the store open (hosts, replays)")]
    yes: Annotated[bool, YES] = False

    def run(self, terminal: Terminal) -> Restored:
        def agree(backup: Restored) -> None:
            self._describe(backup, terminal)
            terminal.ask(f"Put it in the place of {backup.store}?", yes=self.yes)

        return restore_store(terminal.store_path, Path(self.file).expanduser(), agree)

    def show(self, result: Restored, terminal: Terminal) -> None:
        kept = f" What was there is kept as {result.kept}." if result.kept else ""
        terminal.note(f"It is in place.{kept}")

    def _describe(self, backup: Restored, terminal: Terminal) -> None:
        events = counted(backup.n_events, "event")
        terminal.say(f"{backup.file} is sound: {events}, the last at {backup.last_event_at or '?'}.")
        terminal.say(f"Skills: {', '.join(backup.skills) or 'none'}.")
        for path in backup.missing:
            terminal.say(f"  Not on this machine: {path}.")
        for allowed in backup.allows:
            terminal.say(f"  It allows {allowed}.")
        for lost in backup.lost or ():
            spent = f" (error rate {lost.alpha:.3f}, which may be spent again)" if lost.alpha else ""
            terminal.say(f"  It lacks a {lost.kind} of {lost.skill}: {lost.which}{spent}.")
        if backup.lost is None:
            terminal.say("  The store in its place cannot be read: what the backup lacks is not known.")
        if backup.kept:
            terminal.say(f"What is there now will be kept as {backup.kept} (all files whose names begin so).")


@command("store erase", example="store erase trajectory:7 --dry-run", needs_store=True, is_persons=True)
class Erase(Command):
    """Remove the text of recorded attempts from the store for good.

    Backups, exports and --out folders written before are not searched. Change a secret that was recorded.
    """

    what: Annotated[tuple[str, ...], Arg("trajectory:N (one or more), or a SKILL with one of the options below")]
    session: Annotated[str | None, Flag("the skill's attempts of this session of a host", "ID")] = None
    before: Annotated[str | None, Flag("those recorded before a day (2026-08-01, UTC), or 90d ago", "DATE")] = None
    all: Annotated[bool, Flag("all attempts of the skill")] = False
    dry_run: Annotated[bool, Flag("show what would be erased and what would stay, and stop")] = False
    yes: Annotated[bool, YES] = False

    def run(self, terminal: Terminal) -> Erasure:
        from skillopt_mcp.actions.trajectories import AttemptQuery, find_attempts  # noqa: PLC0415 (not to verify)
        from skillopt_mcp.admin.erase import erase, review_erasure  # noqa: PLC0415

        with terminal.workspace() as workspace:
            ids = find_attempts(
                workspace.store, workspace.place, AttemptQuery(self.what, self.session, self.before, self.all)
            )
            planned = review_erasure(workspace.store, workspace.place.redactor, ids)
            if self.dry_run:
                return planned
            self._describe(planned, terminal)
            if planned.status == "planned":
                terminal.ask(f"Erase {counted(planned.n, 'attempt')} for good?", yes=self.yes)
            n_done = 0
            with show_work(terminal) as progress:

                def advance(n: int) -> None:
                    nonlocal n_done
                    n_done += n
                    progress("erasing", n_done, len(ids))

                return erase(workspace.store, workspace.place, ids, advance)

    def show(self, result: Erasure, terminal: Terminal) -> None:
        if self.dry_run:
            self._describe(result, terminal)
            terminal.note("Nothing was changed.")
            return
        terminal.say(
            f"{counted(result.n, 'attempt')} erased, {counted(result.answers, 'answer')} of the optimizer emptied."
        )

    def exit_code(self, result: Erasure) -> int:
        return 0 if self.dry_run or result.is_gone else 1

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
        for what, step, paths in (
            ("candidates with edits from these attempts", "Look at each: skillopt-mcp show.", planned.made_from),
            ("older copies of this store", "Remove these files.", planned.copies),
            ("transcripts of the hosts", "Remove these files; nothing reads these attempts from them again.",
             planned.transcripts),
        ):  # fmt: skip
            if paths:
                terminal.say(f"Not erased: {what} ({len(paths):,}):")
                for path in paths[:_SHOWN]:
                    terminal.say(f"  {path}")
                if len(paths) > _SHOWN:
                    terminal.say(f"  and {len(paths) - _SHOWN:,} more")
                terminal.say(f"  {step}")
