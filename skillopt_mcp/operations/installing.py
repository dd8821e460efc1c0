"""Installing: the server, its hooks and its skill in the files of a host, put there and taken out again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from skillopt_mcp.backends.registry import lacking
from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.entries import (
    hook_command,
    installed_hook,
    installed_server,
    server_entry,
    with_hooks,
    with_server,
    without_hooks,
    without_server,
)
from skillopt_mcp.installing.hosts import HOOKED, Places, Scope, Surroundings, host_environment, places
from skillopt_mcp.operations.hooking import EVENTS
from skillopt_mcp.operations.host_files import Change, backups_holding, backups_of, clear, content_of, planned, undone
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.starting import list_tools

SHIPPED = Path(__file__).resolve().parents[1]
SKILL = "train-a-skill"
AGENT = "skillopt-worker.md"
MADE = ".skillopt-made"
_MADE_TEXT = b"'skillopt-mcp install' made this folder; 'uninstall' removes it once nothing else is in it.\n"
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


@dataclass(slots=True)
class Plan:
    """The changes to make, and what a person should know of what is left as it is.

    After them go the `obsolete` files, which are backups of what is restored and marks of folders that install made,
    and those of `folders` that are empty then.
    """

    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    obsolete: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    def add(self, change: Change | None) -> None:
        """Add a change, if there is one."""
        if change:
            self.changes.append(change)


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
    where = _places(request, around)
    plan = Plan(notes=_passing(request.command))
    server = server_entry(request.host, request.command, request.arguments)
    plan.add(planned(where.config, lambda text: with_server(text, where, server)))
    if request.hooks and where.hooks:
        line = hook_command(request.command, request.store)
        plan.add(planned(where.hooks, lambda text: with_hooks(text, EVENTS, line)))
    if request.skill:
        for shipped in _shipped(where):
            _ship(plan, shipped)
        for folder in reversed(_folders(where, around)):
            _mark(plan, folder)
    return plan


def plan_uninstall(request: Request, around: Surroundings) -> Plan:
    """Return what uninstalling would change; nothing is written. Raises BadInput as `plan_install` does."""
    where = _places(request, around)
    plan = Plan()
    _restore(plan, planned(where.config, lambda text: _without_server(where, text)))
    if where.hooks:
        hooks = planned(where.hooks, lambda text: _without_hooks(where, text))
        if request.hooks:
            _restore(plan, hooks)
        elif hooks:
            plan.notes.append(f"The hooks in '{where.hooks}' stay: take them out with --hooks.")
    if request.skill:
        for shipped in _shipped(where):
            _withdraw(plan, shipped)
        for folder in _folders(where, around):
            _unmark(plan, folder)
    return plan


def check_backends(specs: Mapping[str, str]) -> list[str]:
    """Return a note on each backend, by its option, that lacks a key here; nobody is asked anything.

    Raises BackendError when the server could never use one of them.
    """
    missing = {option: lacking(spec) for option, spec in specs.items()}
    return [f"{option}: {what}, where this host sets it for the server." for option, what in missing.items() if what]


def check_server(request: Request, around: Surroundings) -> list[str]:
    """Return the tools of the server as this host will start it. Raises Refused when it does not work there."""
    command = [request.command, *request.arguments]
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


def left_behind(request: Request, around: Surroundings) -> list[str]:
    """Return the backups that lie beside the files of a host: what install and uninstall found there and changed."""
    where = _places(request, around)
    named = [path for path in (where.config, where.hooks) if path]
    return [str(backup) for path in named for backup in backups_of(Path(os.path.realpath(path)))]


def advice(request: Request) -> str:
    """Return what a person does in the host now."""
    step = _STEPS[request.host]
    if request.scope == "project" and request.host in HOOKED:
        step += " It asks once whether you trust this project's servers."
    if request.hooks and request.host == "codex":
        step += " It asks once whether you trust the hooks."
    return step


def _places(request: Request, around: Surroundings) -> Places:
    where = places(request.host, request.scope, around)
    if request.hooks and where.hooks is None:
        raise BadInput(f"{request.host} has no hooks that record a session: leave out --hooks")
    if request.skill and where.skills is None:
        raise BadInput(f"{request.host} reads no skill folders: leave out --skill")
    return where


def _passing(command: str) -> list[str]:
    """Return a warning for a program that lies where a package runner may clear it away."""
    if _PASSING.isdisjoint(Path(command).parts):
        return []
    return [f"'{command}' lies in a cache that may be cleared: install the program for good, and then do this again."]


def _without_server(where: Places, text: str) -> str | None:
    server = installed_server(text, where)
    if server is None:
        return text
    return undone(
        where.config, text, lambda old: with_server(old, where, server), lambda new: without_server(new, where)
    )


def _without_hooks(where: Places, text: str) -> str | None:
    line = installed_hook(text, EVENTS)
    if line is None or where.hooks is None:
        return text
    return undone(
        where.hooks,
        text,
        lambda old: with_hooks(old, EVENTS, line),
        lambda new: without_hooks(new, EVENTS),
    )


@dataclass(frozen=True, slots=True)
class _Shipped:
    """A file that comes with the skill, and the place in a folder of the host that it is read at."""

    source: Path
    folder: Path
    name: str

    @property
    def target(self) -> Path:
        return self.folder / self.name

    def is_there(self) -> bool:
        return content_of(self.target) == self.source.read_bytes()

    def foreign(self) -> str:
        """Return why the place is not ours to touch, or an empty string: a link leads to what somebody else keeps."""
        way = [self.folder, *map(self.folder.joinpath, accumulate(Path(self.name).parts, os.path.join))]
        if link := next((path for path in way if path.is_symlink()), None):
            return f"'{link}' is a link"
        is_inside = Path(os.path.realpath(self.target)).is_relative_to(SHIPPED)
        return f"'{self.target}' is a part of this program" if is_inside else ""


def _shipped(where: Places) -> Iterator[_Shipped]:
    if where.skills:
        yield _Shipped(SHIPPED / "skills" / SKILL / "SKILL.md", where.skills, f"{SKILL}/SKILL.md")
    if where.agents:
        yield _Shipped(SHIPPED / "agents" / AGENT, where.agents, AGENT)


def _ship(plan: Plan, shipped: _Shipped) -> None:
    path = Path(os.path.realpath(shipped.target))
    if foreign := shipped.foreign():
        plan.notes.append(f"{foreign}: nothing is written there. What comes with us is '{shipped.source}'.")
    elif not path.exists():
        plan.add(Change(path, None, shipped.source.read_bytes(), shipped=True))
    elif not shipped.is_there():
        plan.notes.append(f"'{path}' was trained or edited: it stays. Remove it to get the one that comes with us.")


def _withdraw(plan: Plan, shipped: _Shipped) -> None:
    path = Path(os.path.realpath(shipped.target))
    if foreign := shipped.foreign():
        plan.notes.append(f"{foreign}: it stays, and so does all behind it. Remove it yourself if it is not needed.")
    elif path.exists() and not shipped.is_there():
        plan.notes.append(f"'{path}' was trained or edited: it stays. Remove it yourself if it is not needed.")
    elif path.exists():
        plan.add(Change(path, shipped.source.read_bytes(), None, shipped=True))
        if shipped.target.parent != shipped.folder:
            plan.folders.append(shipped.target.parent)


def _restore(plan: Plan, change: Change | None) -> None:
    """Add a change that takes out what install put in; the backup of what is there again has served."""
    plan.add(change)
    if change and change.after is not None:
        plan.obsolete += backups_holding(change.path, change.after)


def _folders(where: Places, around: Surroundings) -> list[Path]:
    """Return the folders that install makes, where they lack, for what it ships: the inner ones first."""
    inner = [folder for folder in (where.skills, where.agents) if folder]
    # A folder of a host's own, such as .agents, and none that the person named.
    outer = {folder.parent for folder in inner if folder.parent.parent in (around.home, around.project)}
    return [*inner, *sorted(outer)]


def _mark(plan: Plan, folder: Path) -> None:
    """Leave a mark in a folder that is made for what is shipped: one that the person had is never removed."""
    real = Path(os.path.realpath(folder))
    if not real.exists() and any(change.shipped and change.path.is_relative_to(real) for change in plan.changes):
        plan.add(Change(real / MADE, None, _MADE_TEXT))


def _unmark(plan: Plan, folder: Path) -> None:
    mark = folder / MADE
    if not folder.is_symlink() and not mark.is_symlink() and content_of(mark) == _MADE_TEXT:
        plan.obsolete.append(mark)
        plan.folders.append(folder)
