"""Judges: the programs that may judge answers, as only a person can say at a terminal."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.command import has_changed, register_command, told_barred
from skillopt_mcp.judges.confinement import best_level, name_of, unprivileged_user
from skillopt_mcp.operations.tasks.registering import (
    add_command,
    cannot_pass,
    find_command,
    n_judged_by,
    remove_command,
    try_command,
)  # fmt: skip
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.commands import Limits, RegisteredCommand
from skillopt_mcp.records.replies import CheckReply

_MB = 1 << 20
_CONFINED = {
    "bwrap": "bubblewrap: it sees its private folder and the system, and no network",
    "landlock": "Landlock: it writes in its private folder only, and reads that and the system",
    "none": "NOTHING: it can do whatever you can (install bubblewrap, or insist with --require-sandbox)",
}


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """What to do (nothing: list), with which command, and what it may use; `line` is its program and arguments."""

    action: str | None = None
    name: str = ""
    time: float | None = None
    memory: int | None = None
    reads: tuple[str, ...] | list[str] = ()
    require_sandbox: bool = False
    yes: bool = False
    line: tuple[str, ...] = ()


def run(options: Options) -> int:
    """Return 0 when it was done, 1 when the person did not want it."""
    with Workspace(options.store_path) as workspace:
        if options.action == "add":
            return _add(workspace, options)
        if options.action == "remove":
            return _remove(workspace, options)
        _list(workspace.store.commands.list_commands() if workspace.is_made else [], options)
    return 0


def _add(workspace: Workspace, options: Options) -> int:
    command = _command(options)
    before, n_tasks = find_command(workspace, command.name), n_judged_by(workspace, command.name)
    if not options.json:
        _show(command)
        _show_replaced(before, n_tasks)
    terminal.require_person("judges add")
    if not terminal.agreed("Run it once on an empty answer, and register it?", yes=options.yes, ask=not options.json):
        terminal.note("Nothing was run or registered.")
        return 1
    ended = try_command(command)
    replaced = add_command(workspace, command)
    told = f"ran into its limit ({ended.limit})" if ended.limit else f"ended with exit code {ended.exit}"
    never = cannot_pass(ended)
    for warning in filter(None, (never, told_barred(command.argv))):
        terminal.note(f"warning: {warning}")
    if ended.limit is None and ended.exit == 0:
        terminal.note("note: an empty answer passes: see that it looks at answer.txt, or at its standard input")
    if ended.output.strip() and not options.json:
        terminal.say("A trial has none of a task's files. On an empty answer and without them it said:")
        terminal.say(ended.output.rstrip(), style="dim")
    value: dict[str, object] = {"name": command.name, "argv": list(command.argv), "replaced": replaced, **_plain(ended)}
    value |= {"argv_before": list(before.argv) if before else None, "n_tasks": n_tasks, "warning": never or None}
    task = f'{{"kind": "command", "name": "{command.name}"}}'
    text = f"On an empty answer it {told}.\n{'Registered anew' if replaced else 'Registered'}; a task's judge: {task}"
    _done(value, text, options)
    return 0


def _remove(workspace: Workspace, options: Options) -> int:
    """Return 0 when a command is forgotten, 1 when the person did not want it: tasks that name it lose their judge."""
    n_tasks = n_judged_by(workspace, options.name) if find_command(workspace, options.name) else 0
    if n_tasks:
        if not options.json:
            terminal.say(f"{_naming(n_tasks)} '{options.name}', and can be judged no more without it.")
        if not terminal.agreed("Forget it?", yes=options.yes, ask=not options.json):
            terminal.note("Nothing was removed.")
            return 1
    remove_command(workspace, options.name)
    value: dict[str, object] = {"name": options.name, "removed": True, "n_tasks": n_tasks}
    _done(value, f"'{options.name}' judges no more.", options)
    return 0


def _naming(n_tasks: int) -> str:
    return counted(n_tasks, "task names", "tasks name")


def _command(options: Options) -> RegisteredCommand:
    """Return the command that is to be registered. Raises BadInput when it could never run."""
    if not options.line:
        raise BadInput(f"the program is missing: skillopt-mcp judges add {options.name} -- PROGRAM ARGS...")
    limits = Limits()
    if options.time is not None:
        limits = replace(limits, time_s=_positive(options.time, "--time"))
    if options.memory is not None:
        limits = replace(limits, memory_bytes=int(_positive(options.memory, "--memory")) * _MB)
    reads = [os.path.abspath(os.path.expanduser(path)) for path in options.reads]
    return register_command(options.name, options.line, limits, reads, require_sandbox=options.require_sandbox)


def _positive(value: float, option: str) -> float:
    if not 0 < value <= 1_000_000:
        raise BadInput(f"{option} '{value:g}' is not possible: use a number above 0")
    return value


def _show(command: RegisteredCommand) -> None:
    terminal.say("It runs in a private folder that holds the task's files and answer.txt (also its standard input):")
    terminal.say_command(shlex.join(command.argv))
    limits = command.limits
    terminal.say(f"  ended after {limits.time_s:g} s, or with more than {limits.memory_bytes // _MB:,} MB of memory")
    if command.reads:
        terminal.say(f"  may read: {', '.join(command.reads)}")
    user = unprivileged_user()
    as_whom = f"; it runs as the user '{name_of(user)}', for you are root" if user else ""
    terminal.say(f"  confined by {_CONFINED[best_level()]}{as_whom}")
    for part in command.argv[1:]:
        if not os.path.isabs(part) and os.path.isfile(part):
            terminal.note(f"note: '{part}' is not looked for here, but in the private folder: or give its whole path")


def _show_replaced(before: RegisteredCommand | None, n_tasks: int) -> None:
    """Tell what a new command takes the place of, and for how many tasks."""
    if before is None:
        return
    terminal.say(f"'{before.name}' is registered already, and {_naming(n_tasks)} it. The program in its place so far:")
    terminal.say_command(shlex.join(before.argv))


def _plain(ended: CheckReply) -> dict[str, object]:
    return {"exit": ended.exit, "limit": ended.limit, "confined": ended.confined}


def _list(commands: list[RegisteredCommand], options: Options) -> None:
    if options.json:
        terminal.emit({"judges": [_row(command) for command in commands]}, options)
        return
    for command in commands:
        changed = "  (its program has changed: it is not run; register it anew)" if has_changed(command) else ""
        terminal.say(f"{command.name}{changed}")
        terminal.say_command(shlex.join(command.argv))
    if not commands:
        terminal.say("No command is registered as a judge. Register one:")
        terminal.say_command(options.on_store("skillopt-mcp judges add NAME -- PROGRAM ARGS..."))


def _row(command: RegisteredCommand) -> dict[str, object]:
    return {
        "name": command.name, "argv": list(command.argv), "time_s": command.limits.time_s,
        "memory_mb": command.limits.memory_bytes // _MB, "reads": list(command.reads),
        "require_sandbox": command.require_sandbox, "changed": has_changed(command), "created_at": command.created_at,
    }  # fmt: skip


def _done(value: dict[str, object], text: str, options: Options) -> None:
    if options.json:
        terminal.emit(value, options)
    else:
        terminal.say(text)
