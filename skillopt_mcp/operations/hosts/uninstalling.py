"""Uninstalling: what install put into the files of a host, taken out of them again, and named where it stays."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.entries import (
    hook_seconds,
    installed_server,
    is_server_alone,
    with_server,
    without_server,
)
from skillopt_mcp.installing.hosts import Places, Scope, Surroundings, host_environment, places
from skillopt_mcp.operations.evidence.hooking import EVENTS
from skillopt_mcp.operations.hosts.connecting import store_served
from skillopt_mcp.operations.hosts.host_files import Plan, backups_of, planned, spent_backups, text_of, undone
from skillopt_mcp.operations.hosts.host_settings import are_settings_alone, settings_in, without_settings
from skillopt_mcp.operations.hosts.installing import Request, places_of
from skillopt_mcp.operations.hosts.shipping import shipped, unmark_folders, withdraw
from skillopt_mcp.operations.workplaces import Workplaces

Option = Literal["", "--hooks", "--skill"]


class _Part(NamedTuple):
    """Something of ours in a host's folder, and the option that it is installed with; the server needs none."""

    option: Option
    path: Path


def plan_uninstall(request: Request, around: Surroundings) -> Plan:
    """Return what uninstalling would change; nothing is written. Raises BadInput when it cannot be done safely."""
    host, where = request.host, places_of(request, around)
    plan = Plan()
    _restore(plan, where.config, lambda text: _without_server(where, text), lambda t: is_server_alone(t, where, host))
    if where.hooks:
        named, seconds = where.hooks, hook_seconds(host, EVENTS)
        asked_for = {"hooks": request.hooks, "rules": request.skill}
        _restore(
            plan,
            named,
            lambda text: without_settings(named, seconds, text, **asked_for),
            lambda text: are_settings_alone(text, seconds),
        )
    for file in shipped(where) if request.skill else ():
        withdraw(plan, file)
    asked: dict[Option, bool] = {"": True, "--hooks": request.hooks, "--skill": request.skill}
    here = [part for part in _parts(where) if not asked[part.option]]
    there = [part for part in _elsewhere(request, around) if part not in _parts(where)]
    plan.notes += [*_staying(here), *_told_elsewhere(request, there), *_recorded(request, where, around)]
    unmark_folders(plan, where, around, [part.path for part in (*here, *there)])
    return plan


def left_behind(request: Request, around: Surroundings) -> list[str]:
    """Return the backups that lie beside the files of a host: what install and uninstall found there and changed."""
    where = places_of(request, around)
    named = [path for path in (where.config, where.hooks) if path]
    return [str(backup) for path in named for backup in backups_of(Path(os.path.realpath(path)))]


def _recorded(request: Request, where: Places, around: Surroundings) -> Iterator[str]:
    """Yield where what was recorded lies, which no host has in its files, and the work that is out."""
    store = store_served(request.host, where, around)
    if store is None:
        return
    if store.exists():
        yield (
            f"What was recorded stays: tasks, attempts, sessions and every version of a skill, in '{store}'. Once no "
            "host and nobody else needs them, remove that file and what lies beside it under the same name."
        )
    if (work := Workplaces(store, host_environment(request.host, around)).root).exists():
        yield f"Work that is out lies in '{work}': remove it when no agent is at it."


def _restore(plan: Plan, named: Path, edit: Callable[[str], str | None], is_ours_alone: Callable[[str], bool]) -> None:
    """Add a change that takes out what install put in; backups that nobody needs any more go with it."""
    change = planned(named, edit, is_ours_alone)
    plan.add(change)
    if change:
        plan.obsolete += spent_backups(change.path, change.after, is_ours_alone)


def _without_server(where: Places, text: str) -> str | None:
    server = installed_server(text, where)
    if server is None:
        return text
    return undone(
        where.config,
        text,
        lambda old: with_server(old, where, server),
        lambda new: without_server(new, where),
        lambda old: installed_server(old, where) is not None,
    )


def _parts(where: Places) -> Iterator[_Part]:
    """Yield what there is of ours, as far as the files can be read; what was trained or edited is a person's."""
    with suppress(BadInput):
        if installed_server(text_of(where.config) or "", where) is not None:
            yield _Part("", where.config)
    with suppress(BadInput):
        if where.hooks:
            there = settings_in(text_of(where.hooks) or "")
            yield from [_Part("--hooks", where.hooks)] if there.line else []
            yield from [_Part("--skill", where.hooks)] if there.rules else []
    yield from (_Part("--skill", file.target) for file in shipped(where) if file.is_there())


def _elsewhere(request: Request, around: Surroundings) -> Iterator[_Part]:
    """Yield what there is of ours in the other scope of the same host."""
    with suppress(BadInput):
        yield from _parts(places(request.host, _other(request), around))


def _other(request: Request) -> Scope:
    return "user" if request.scope == "project" else "project"


def _staying(parts: list[_Part]) -> Iterator[str]:
    """Yield what stays of this scope, and how to take it out."""
    options: tuple[Option, ...] = ("--hooks", "--skill")
    for option in options:
        named = " and ".join(f"'{part.path}'" for part in parts if part.option == option)
        if named and option == "--hooks":
            yield f"The hooks in {named} stay: take them out with {option}."
        elif named:
            yield f"What {option} put there stays ({named}): take it out with {option}."


def _told_elsewhere(request: Request, parts: list[_Part]) -> Iterator[str]:
    """Yield where else it is installed, and the command that takes it out there."""
    if not parts:
        return
    scope = _other(request)
    options = sorted({part.option for part in parts if part.option})
    scoped = ["--project"] if scope == "project" else []
    command = shlex.join(["skillopt-mcp", "uninstall", request.host, *scoped, *options])
    paths = ", ".join(dict.fromkeys(f"'{part.path}'" for part in parts))
    whose = "in this project" if scope == "project" else "for the user"
    yield f"What is installed {whose} stays ({paths}): take it out with: {command}"
