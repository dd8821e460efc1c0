"""Judges: the programs that may judge answers, as only a person can say at a terminal."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import Annotated, Any

from skillopt_mcp.backends.programs import (
    confinement,
    describe_barrier,
    has_changed,
    name_of,
    register_command,
    try_command,
    unprivileged_user,
)
from skillopt_mcp.cli.command import YES, Arg, Command, Flag, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.commands import Limits, RegisteredCommand
from skillopt_mcp.core.errors import BadInput, NotFound
from skillopt_mcp.core.text import counted
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.judging import missing_programs
from skillopt_mcp.workspace.skill_folders import known

_MB = 1 << 20
_CONFINED = {
    "bwrap": "bubblewrap: it sees its private folder and the system's programs, no network and no sockets",
    "none": "NOTHING: it can do whatever you can, and read your keys",
}


@command("tasks judges list", example="tasks judges", also="tasks judges", needs_store=True)
class ListJudges(Command):
    """List the programs that may judge answers."""

    def run(self, terminal: Terminal) -> dict[str, Any]:
        with terminal.workspace() as workspace:
            found = workspace.store.commands.list_commands() if workspace.store.is_made else []
        return {"judges": [_row(each) for each in found]}

    def show(self, result: dict[str, Any], terminal: Terminal) -> None:
        for row in result["judges"]:
            changed = "  (its program has changed: it is not run; register it again)" if row["changed"] else ""
            unconfined = "  (unconfined)" if row["unconfined"] else ""
            terminal.say(f"{row['name']}{unconfined}{changed}")
            terminal.say(f"  {shlex.join(row['argv'])}", "cyan")
        if not result["judges"]:
            terminal.say("No program is registered as a judge. Register one:")
            terminal.say("  skillopt-mcp tasks judges add NAME -- PROGRAM ARGS...", "cyan")


@command(
    "tasks judges add", example="tasks judges add unit-tests -- /usr/bin/python3 /home/me/check.py", takes_line=True
)
class AddJudge(Command):
    """Register a program that may judge answers: after `--`, its path and arguments.

    It runs in a private folder that holds the task's files and answer.txt; exit code 0 passes an answer.
    """

    name_of_judge: Annotated[str, Arg("how tasks call it: a to z, digits, hyphens", "NAME")]
    time: Annotated[float | None, Flag("seconds that one check may take (default: 60)")] = None
    memory: Annotated[int | None, Flag("MB of memory that it may use (default: 2048)")] = None
    reads: Annotated[tuple[str, ...], Flag("a path that it may read, too (may be repeated)", "PATH")] = ()
    unconfined: Annotated[bool, Flag("run it without bubblewrap: it can do whatever you can")] = False
    require_sandbox: Annotated[bool, Flag("never run it without bubblewrap (the default)")] = False
    yes: Annotated[bool, YES] = False
    line: tuple[str, ...] = ()

    def run(self, terminal: Terminal) -> dict[str, Any]:
        """Show the program, ask a person, run it once on an empty answer, and register it."""
        if not self.line:
            raise BadInput(f"needs a program: skillopt-mcp tasks judges add {self.name_of_judge} -- PROGRAM ARGS...")
        limits = Limits()
        if self.time is not None:
            limits = replace(limits, time_s=_positive(self.time, "--time"))
        if self.memory is not None:
            limits = replace(limits, memory_bytes=int(_positive(self.memory, "--memory")) * _MB)
        if self.unconfined and self.require_sandbox:
            raise BadInput("--unconfined and --require-sandbox exclude each other: leave one out")
        reads = [os.path.abspath(os.path.expanduser(path)) for path in self.reads]
        made = register_command(self.name_of_judge, self.line, limits, reads, unconfined=self.unconfined)
        with terminal.workspace() as workspace:
            before = workspace.store.commands.find_named([made.name]).get(made.name)
            n_tasks = _count_judged(workspace.store, made.name)
            _describe(made, terminal)
            if before:
                terminal.say(f"It replaces the program of {counted(n_tasks, 'task')}:")
                terminal.say(f"  {shlex.join(before.argv)}", "cyan")
            terminal.require_person("tasks judges add")
            terminal.ask(
                "Run it once on an empty answer, and register it?", yes=self.yes,
                declined="Nothing was run or registered.",
            )  # fmt: skip
            ended, never = try_command(made)
            # A script's word is good for its own runs, not for those of agents.
            made = replace(made, unattended=not terminal.is_interactive)
            replaced = workspace.store.commands.register(made)
        for warning in filter(None, (never, describe_barrier(made.argv))):
            terminal.note(f"warning: {warning}")
        if ended.limit is None and ended.exit == 0:
            terminal.note("note: an empty answer passes: see that it looks at answer.txt, or at its standard input")
        if ended.output.strip():
            terminal.say("On an empty answer, without a task's files, it printed:")
            terminal.say(ended.output.rstrip(), "dim")
        return {
            "name": made.name, "argv": list(made.argv), "replaced": replaced, "exit": ended.exit,
            "limit": ended.limit, "confined": ended.confined, "argv_before": list(before.argv) if before else None,
            "n_tasks": n_tasks, "warning": never or None,
        }  # fmt: skip

    def show(self, result: dict[str, Any], terminal: Terminal) -> None:
        ended = f"reached its limit ({result['limit']})" if result["limit"] else f"exited with {result['exit']}"
        terminal.say(f"On an empty answer it {ended}.")
        terminal.say(f'Registered; a task\'s judge: {{"kind": "command", "name": "{result["name"]}"}}')


@command("tasks judges remove", example="tasks judges remove unit-tests", needs_store=True)
class RemoveJudge(Command):
    """Forget a program: tasks that name it cannot be judged any more."""

    name_of_judge: Annotated[str, Arg("what tasks call it", "NAME")]
    yes: Annotated[bool, YES] = False

    def run(self, terminal: Terminal) -> dict[str, Any]:
        name = self.name_of_judge
        with terminal.workspace() as workspace:
            n_tasks = _count_judged(workspace.store, name) if workspace.store.commands.find_named([name]) else 0
            if n_tasks:
                terminal.say(f"{counted(n_tasks, 'task')} cannot be judged without '{name}'.")
                terminal.ask("Forget it?", yes=self.yes, declined="Nothing was removed.")
            if not workspace.store.commands.remove(known(name)):
                raise NotFound(f"no judge program '{name}': see 'skillopt-mcp tasks judges list'")
        return {"name": name, "removed": True, "n_tasks": n_tasks}

    def show(self, result: dict[str, Any], terminal: Terminal) -> None:
        terminal.say(f"'{result['name']}' is no longer a judge.")


def _positive(value: float, option: str) -> float:
    if not 0 < value <= 1_000_000:
        raise BadInput(f"{option} must be above 0, got {value:g}")
    return value


def _describe(made: RegisteredCommand, terminal: Terminal) -> None:
    terminal.say(f"  {shlex.join(made.argv)}", "cyan")
    terminal.say(f"  ends after {made.limits.time_s:g} s, or above {made.limits.memory_bytes // _MB:,} MB of memory")
    if made.reads:
        terminal.say(f"  may read: {', '.join(made.reads)}")
    user = unprivileged_user()
    as_whom = f"; it runs as the user '{name_of(user)}', as you are root" if user else ""
    terminal.say(f"  confined by {_CONFINED[confinement(made)]}{as_whom}")
    for part in made.argv[1:]:
        if not os.path.isabs(part) and os.path.isfile(part):
            terminal.note(f"note: '{part}' is looked for in the private folder, not here: or give its whole path")


def _row(made: RegisteredCommand) -> dict[str, Any]:
    return {
        "name": made.name, "argv": list(made.argv), "time_s": made.limits.time_s,
        "memory_mb": made.limits.memory_bytes // _MB, "reads": list(made.reads),
        "unconfined": made.unconfined, "changed": has_changed(made), "created_at": made.created_at,
    }  # fmt: skip


def _count_judged(store: Store, name: str) -> int:
    """How many tasks, of all skills, name a program as their judge."""
    tasks = (task for skill in store.skills.list_skills() for task in store.tasks.list_tasks(skill.id))
    return sum(name in missing_programs(task.judge, ()) for task in tasks)
