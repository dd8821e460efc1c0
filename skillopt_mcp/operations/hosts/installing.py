"""Installing: the server, its hooks and its skill, put into the files of a host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from skillopt_mcp.backends.registry import lacking
from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.entries import (
    Server,
    hook_command,
    hook_seconds,
    installed_server,
    is_server_alone,
    server_entry,
    with_server,
)
from skillopt_mcp.installing.hosts import HOOKED, PERSONAL, Places, Scope, Surroundings, host_environment, places
from skillopt_mcp.installing.rules import RULED, check_rules
from skillopt_mcp.operations.evidence.hooking import EVENTS
from skillopt_mcp.operations.hosts.host_files import Plan, clear, planned, text_of
from skillopt_mcp.operations.hosts.host_settings import Settings, are_settings_alone, rules_for
from skillopt_mcp.operations.hosts.shipping import is_in_program, mark_folders, ship, shipped
from skillopt_mcp.operations.hosts.starting import list_tools
from skillopt_mcp.operations.results import Result
from skillopt_mcp.store.locations import store_path

_PASSING = frozenset({"archive-v0", "builds-v0", "environments-v2"})
_STEPS = {
    "claude-code": "Start a new session of Claude Code: /mcp shows the server.",
    "claude-desktop": "Quit Claude Desktop and start it again.",
    "codex": "Start a new session of Codex: /mcp shows the server.",
    "cursor": "Switch the server on in Cursor's settings, under MCP.",
    "vscode": "Open the file in VS Code and press Start above the server.",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What to install where: `command` is the program by its absolute path, `arguments` are those of the server."""

    host: str
    scope: Scope
    command: str
    arguments: tuple[str, ...] = ("serve",)
    store: str | None = None
    hooks: bool = False
    skill: bool = False


class Changed(BaseModel):
    """A file that was written or removed, or would be."""

    path: str
    diff: str
    backup: str | None = None
    removed: bool = False


Status = Literal["installed", "uninstalled", "unchanged", "shown"]


class Installed(Result):
    """What became of an installation; `tools` are those that the server told, started as the host will start it."""

    status: Status
    host: str
    scope: Scope
    files: list[Changed]
    tools: list[str]
    notes: list[str]


def plan_install(request: Request, around: Surroundings) -> Plan:
    """Return what installing would change; nothing is written. Raises BadInput when a file cannot be changed safely."""
    host, where = request.host, places_of(request, around)
    plan = Plan(notes=_passing(request.command))
    server = server_entry(host, _command_in(where.config, request, around), request.arguments)
    plan.notes += _shared(where.config, request, around)
    plan.add(
        planned(
            where.config,
            lambda text: with_server(text, where, {**server, **_told_by_hand(text, where)}),
            lambda text: is_server_alone(text, where, host),
        )
    )
    if where.hooks and (settings := _settings(where, request, around)) != Settings():
        seconds = hook_seconds(host, EVENTS)
        change = planned(
            where.hooks, lambda text: settings.put(text, seconds), lambda text: are_settings_alone(text, seconds)
        )
        plan.add(change)
        if change and change.before is None and where.hooks.name == PERSONAL:
            plan.notes.append(
                f"'{where.hooks}' names places on this machine and is yours alone: keep it out of the repository "
                f"(a line '{PERSONAL}' in .gitignore)."
            )
    for file in shipped(where) if request.skill else ():
        ship(plan, file)
    mark_folders(plan, where, around)
    return plan


def places_of(request: Request, around: Surroundings) -> Places:
    """Return the files that a request is about. Raises BadInput where the host has none of the kind."""
    where = places(request.host, request.scope, around)
    if request.hooks and where.hooks is None:
        raise BadInput(f"{request.host} has no hooks that record a session: leave out --hooks")
    if request.skill and where.skills is None:
        raise BadInput(f"{request.host} reads no skill folders: leave out --skill")
    return where


def check_backends(specs: Mapping[str, str]) -> list[str]:
    """Return a note on each backend, by its option, that lacks a key here; nobody is asked anything.

    Raises BackendError when the server could never use one of them.
    """
    missing = {option: lacking(spec) for option, spec in specs.items()}
    return [f"{option}: {what}, where this host sets it for the server." for option, what in missing.items() if what]


def check_server(request: Request, around: Surroundings) -> list[str]:
    """Return the tools of the server as this host will start it. Raises Refused when it does not work there."""
    program = _command_in(places_of(request, around).config, request, around)
    command = [program, *request.arguments]
    return list_tools(command, host_environment(request.host, around), around.project)


def apply_plan(plan: Plan) -> list[Changed]:
    """Write the changes of a plan, in order. Raises Stale or Refused; what was written before that stays."""
    written = []
    for change in plan.changes:
        backup = change.write()
        kept = str(backup) if backup else None
        written.append(Changed(path=str(change.path), diff=change.diff, backup=kept, removed=change.after is None))
    clear(plan.obsolete, plan.folders)
    return written


def advice(request: Request, to_track: str) -> str:
    """Return what a person does in the host now; hooks record nothing before what is `to_track` was done."""
    step = _STEPS[request.host]
    if request.scope == "project" and request.host in HOOKED:
        step += " It asks once whether you trust this project's servers."
    if request.hooks and request.host == "codex":
        step += " It asks once whether you trust the hooks."
    if request.skill and request.host in RULED:
        step += (
            " Work items are read and written unasked, in their folders alone; programs that a task has run, "
            "promote_skill and rollback_skill still ask you."
        )
    if request.hooks:
        step += f" The hooks record turns in which a tracked skill is opened, and nothing else. {to_track}"
    return step.rstrip()


def _settings(where: Places, request: Request, around: Surroundings) -> Settings:
    """Return what was asked for beside the server: hooks, and with the skill the rules that its work takes."""
    line, rules = "", tuple[str, ...]()
    if request.hooks and where.hooks:
        line = hook_command(_command_in(where.hooks, request, around), request.store)
    if request.skill and request.host in RULED and where.hooks and not is_in_program(where.hooks):
        told = _told_by_hand(text_of(where.config) or "", where).get("env")
        named = {name: str(value) for name, value in told.items()} if isinstance(told, dict) else {}
        environ = {**host_environment(request.host, around), **named}
        rules = rules_for(store_path(request.store, environ), environ)
        check_rules(rules)
    return Settings(line, rules)


def _command_in(file: Path, request: Request, around: Surroundings) -> str:
    """Return what a file calls the program: in one that goes with the project its bare name, where the host finds it.

    That is by the PATH that the host gives a server; else, and in a person's own files, it is the absolute path.
    """
    if request.scope == "user" or file.name == PERSONAL:
        return request.command
    bare = Path(request.command).name
    found = shutil.which(bare, path=host_environment(request.host, around).get("PATH", ""))
    return bare if found and os.path.realpath(found) == os.path.realpath(request.command) else request.command


def _shared(file: Path, request: Request, around: Surroundings) -> list[str]:
    """Return what to know of a configuration that goes with the project, to all who work on that."""
    if request.scope == "user":
        return []
    program = _command_in(file, request, around)
    bare = Path(request.command).name
    named = (
        f"the program by its name: each of them needs '{bare}' on the PATH"
        if program == bare
        else f"this program where it lies on this machine ('{program}'), for this host does not find it on the PATH as "
        f"'{bare}': put it there and install again, or keep the file to yourself"
    )
    store = (
        f" It names your store as well ('{request.store}'): without --store each has their own."
        if request.store
        else ""
    )
    return [f"'{file}' goes to all who share this project, and names {named}.{store}"]


def _passing(command: str) -> list[str]:
    """Return a warning for a program that lies where a package runner may clear it away."""
    if _PASSING.isdisjoint(Path(command).parts):
        return []
    return [f"'{command}' lies in a cache that may be cleared: install the program for good, and then do this again."]


def _told_by_hand(text: str, where: Places) -> Server:
    """Return the environment that somebody gave our server in a configuration: a key may be in it."""
    env = (installed_server(text, where) or {}).get("env")
    return {"env": env} if env else {}
