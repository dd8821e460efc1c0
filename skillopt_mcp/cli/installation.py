"""Installation: what install and uninstall share: the request as it was typed, and the changes as they are shown."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.declaring import PROGRAM
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.hosts.host_files import Plan
from skillopt_mcp.operations.hosts.installing import Changed, Installed, Request, apply_plan
from skillopt_mcp.store.locations import ENVIRONMENT

# Hosts do not hand these to a server, and both say where the store lies.
_PLACES_OF_THE_STORE = (ENVIRONMENT, "XDG_DATA_HOME")


@dataclass(frozen=True, slots=True)
class Installation(Invocation):
    """Which host, for the user or the project, and what beside the server."""

    host: str = ""
    user: bool = False
    project: bool = False
    hooks: bool = False
    skill: bool = False
    dry_run: bool = False
    yes: bool = False

    def request(self, backends: tuple[str, ...] = ()) -> Request:
        """Return what was asked for. Raises BadInput when the program itself cannot be found."""
        named = self.store or any(os.environ.get(name) for name in _PLACES_OF_THE_STORE)
        store = str(self.store_path) if named else None
        return Request(
            host=self.host,
            scope="project" if self.project else "user",
            command=_program(),
            arguments=("serve", *(("--store", store) if store else ()), *backends),
            store=store,
            hooks=self.hooks,
            skill=self.skill,
        )

    def carry_out(self, plan: Plan, again: Callable[[], Plan]) -> list[Changed] | None:
        """Show the changes and, if the person agrees, write them; None when they are only shown.

        They are planned `again` before they are written: a host that runs meanwhile writes to its own files.
        """
        if not self.json:
            self._show(plan)
        if self.dry_run or not plan.changes or not self._agreed():
            return None
        return apply_plan(again())

    def _show(self, plan: Plan) -> None:
        """Show what changes in the person's own files; of what comes with us no more than its name, but to look."""
        named = [change for change in plan.changes if change.shipped and not self.dry_run]
        for change in plan.changes:
            if change not in named:
                terminal.say_diff(change.diff)
                terminal.say()
        for change in named:
            done = "removed" if change.after is None else "written"
            terminal.say(f"To be {done}: {change.path} ({len(change.after or change.before or b''):,} bytes)")
        if named:
            terminal.note("What comes with skillopt-mcp is shown in full with --dry-run.")
        for note in plan.notes:
            terminal.note(note)

    def _agreed(self) -> bool:
        return terminal.agreed(f"Write this for {self.host}?", yes=self.yes, ask=not self.json)

    def report(self, result: Installed) -> int:
        """Print the result; return 0 when all is as it was asked for, 1 when the person said no."""
        if self.json:
            terminal.emit(result, self)
        elif result.status in ("installed", "uninstalled"):
            for file in result.files:
                done = "Removed" if file.removed else "Written"
                terminal.say(f"{done}: {file.path}" + (f" (backup: {file.backup})" if file.backup else ""))
        elif result.status == "unchanged":
            terminal.say("Nothing is to be changed.")
        elif not self.dry_run:
            terminal.note("Nothing was changed.")
        if not self.json and result.next_step:
            terminal.note(terminal.advice(result.next_step, self))
        return 1 if result.status == "shown" and not self.dry_run else 0


def would_be(plan: Plan) -> list[Changed]:
    """Return the changes of a plan that was not carried out."""
    return [Changed(path=str(change.path), diff=change.diff, removed=change.after is None) for change in plan.changes]


def _program() -> str:
    """Return this program by its absolute path: hosts started from a desktop search no PATH."""
    found = shutil.which(PROGRAM, path=str(Path(sys.executable).parent)) or shutil.which(PROGRAM)
    if found is None:
        raise BadInput(
            f"the program '{PROGRAM}' is neither beside '{sys.executable}' nor on the PATH: install it first"
        )
    return os.path.abspath(found)
