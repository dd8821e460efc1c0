"""Install: add the server to a host's configuration, once a person has seen the change and the server works there."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

from skillopt_mcp.admin.install.hosts import HOSTS, surroundings
from skillopt_mcp.admin.install.installing import (
    ChangedFile,
    Installed,
    InstallPlan,
    Request,
    Status,
    apply_plan,
    check_server,
    choose_backends,
    plan_install,
)
from skillopt_mcp.backends.resolved import resolve_spec
from skillopt_mcp.cli.command import OPTIMIZER, PROGRAM, TARGET, YES, Arg, Command, Flag, WrongUsage, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.errors import BadInput, SkillOptError
from skillopt_mcp.store.files import ENVIRONMENT
from skillopt_mcp.workspace.callers import find_editor
from skillopt_mcp.workspace.skills import first_to_track

# Hosts do not hand these to a server, and both say where the store lies.
_PLACES_OF_THE_STORE = (ENVIRONMENT, "XDG_DATA_HOME")
_HOSTS = "claude-code | claude-desktop | codex | cursor | vscode"


@dataclass(kw_only=True)
class Installation(Command):
    """Commands that change a host's files."""

    host: Annotated[Literal["claude-code", "claude-desktop", "codex", "cursor", "vscode"], Arg(_HOSTS)]
    user: Annotated[bool, Flag("for all your projects (the default)")] = False
    project: Annotated[bool, Flag("for the project in the current folder")] = False
    hooks: Annotated[bool, Flag("also the hooks that record sessions")] = False
    skill: Annotated[bool, Flag("also the skill that teaches the loop, and in Claude Code its permissions")] = False
    dry_run: Annotated[bool, Flag("show the change, and change nothing")] = False
    yes: Annotated[bool, YES] = False

    def __post_init__(self) -> None:
        if self.user and self.project:
            raise WrongUsage("--user and --project exclude each other")

    def request(self, terminal: Terminal, backends: tuple[str, ...] = ()) -> Request:
        """What was asked for. Raises BadInput when the program itself cannot be found."""
        named = terminal.store or any(os.environ.get(name) for name in _PLACES_OF_THE_STORE)
        store = str(terminal.store_path) if named else None
        program = shutil.which(PROGRAM, path=str(Path(sys.executable).parent)) or shutil.which(PROGRAM)
        if program is None:
            raise BadInput(f"the program '{PROGRAM}' is neither next to '{sys.executable}' nor on the PATH: install it")
        return Request(
            host=self.host,
            scope="project" if self.project else "user",
            command=os.path.abspath(program),  # a host that is started from a desktop searches no PATH
            arguments=("serve", *(("--store", store) if store else ()), *backends),
            store=store,
            hooks=self.hooks,
            skill=self.skill,
        )

    def carry_out(
        self, terminal: Terminal, plan: InstallPlan, again: Callable[[], InstallPlan], *, done: Status
    ) -> Installed:
        """Show the changes and, if the person agrees, write them. Raises Declined.

        They are planned `again` before they are written: a host that runs meanwhile writes to its own files.
        """
        shipped = [change for change in plan.changes if change.shipped and not self.dry_run]
        for change in plan.changes:
            if change not in shipped:
                terminal.diff(change.diff)
                terminal.say()
        for change in shipped:
            does = "removed" if change.after is None else "written"
            terminal.say(f"To be {does}: {change.path} ({len(change.after or change.before or b''):,} bytes)")
        if shipped:
            terminal.note("--dry-run shows them in full.")
        for each in plan.commands:
            terminal.say(f"To be run: {each}")
        for note in plan.notes:
            terminal.note(note)
        is_change = bool(plan.changes or plan.commands)
        status: Status = "shown" if is_change or plan.by_hand else "unchanged"
        files = [ChangedFile(path=str(each.path), diff=each.diff, removed=each.after is None) for each in plan.changes]
        if is_change and not self.dry_run:
            terminal.ask(f"Write this for {self.host}?", yes=self.yes)
            status, files = done, apply_plan(again())
        return Installed(
            status=status, host=self.host, scope="project" if self.project else "user", files=files, tools=[],
            notes=plan.notes, commands=list(map(str, plan.commands)), by_hand=plan.by_hand,
        )  # fmt: skip

    def show(self, result: Installed, terminal: Terminal) -> None:
        for file in result.files if result.status in ("installed", "uninstalled") else ():
            does = "Removed" if file.removed else "Written"
            terminal.say(f"{does}: {file.path}" + (f" (backup: {file.backup})" if file.backup else ""))
        for todo in result.by_hand:
            terminal.say(f"Left to you: {todo}")
        if result.status == "unchanged":
            terminal.say("Nothing to change.")
        if result.restart:
            terminal.note(result.restart)
        if result.backups:
            terminal.note(f"Backups stay. Once all is well, remove them: {shlex.join(['rm', *result.backups])}")


@command("install", example="install claude-code --hooks --skill", is_persons=True)
class Install(Installation):
    """Add the server to a host; with --hooks and --skill also what records sessions and teaches the loop."""

    target: Annotated[str | None, Flag(f"does the tasks, for instance {TARGET}", "BACKEND:MODEL")] = None
    optimizer: Annotated[str | None, Flag(f"writes the edits, for instance {OPTIMIZER}", "BACKEND:MODEL")] = None
    judge: Annotated[str | None, Flag("judges by rubrics, where tasks have such", "BACKEND:MODEL")] = None
    sub_agents: Annotated[
        bool, Flag("the agents of your session do the work, not claude-code or codex as backends")
    ] = False

    def run(self, terminal: Terminal) -> Installed:
        """Start the server as the host will, show the change, ask a person, write it, and remember its backends."""
        named = {"--target": self.target, "--optimizer": self.optimizer, "--judge": self.judge}
        given = {option: spec for option, spec in named.items() if spec}
        backends, notes = choose_backends(self.host, given, sub_agents=self.sub_agents)
        request, around = self.request(terminal, tuple(chain(*backends.items()))), surroundings()
        plan = plan_install(request, around)
        plan.notes += notes
        tools = check_server(request, around)
        terminal.note(f"The server starts and lists {len(tools)} tools.")
        result = self.carry_out(terminal, plan, lambda: plan_install(request, around), done="installed")
        if result.status != "installed":
            return result.model_copy(update={"tools": tools})
        if backends and terminal.is_interactive and not find_editor():
            with terminal.workspace() as workspace:
                for spec in dict.fromkeys(backends.values()):
                    parts = resolve_spec(spec).parts
                    workspace.store.permissions.remember_backend(parts, spec, f"install ({workspace.place.login})")
        step = None
        if self.hooks:
            with suppress(SkillOptError), terminal.workspace() as workspace:
                step = first_to_track(workspace.store, workspace.place)
        host, restart = HOSTS[self.host], HOSTS[self.host].restart
        if host.program and (self.project or (self.hooks and self.host == "codex")):
            restart += " It asks once whether you trust what was installed."
        return result.model_copy(update={"tools": tools, "restart": restart, "next_step": step})
