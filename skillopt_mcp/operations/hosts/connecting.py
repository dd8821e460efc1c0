"""Connecting: which hosts have the server and the capture hooks, and whether what they have can work."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.entries import Server, installed_hooks, installed_server
from skillopt_mcp.installing.hosts import HOOKED, HOSTS, Places, Scope, Surroundings, host_environment, places
from skillopt_mcp.installing.rules import RULED, lacking_rules
from skillopt_mcp.operations.evidence.hooking import EVENTS
from skillopt_mcp.operations.hosts.host_files import text_of
from skillopt_mcp.operations.hosts.host_settings import rules_for
from skillopt_mcp.operations.hosts.shipping import shipped
from skillopt_mcp.store.locations import store_path

T = TypeVar("T")
Kind = Literal["server", "hooks", "rules"]
_PROGRAMS = {"claude-code": "claude", "codex": "codex"}
_BACKENDS = ("--target", "--optimizer", "--judge")
_STORE = "--store"
_OPTIONS: dict[Kind, str] = {"hooks": "--hooks", "rules": "--skill"}


class Part(BaseModel):
    """The server, or the hooks, as a file of a host names them; rules are looked at as a whole, and are no part.

    `trouble` is why they cannot work; `other_store` is the store that they use, where that is not the one looked at.
    """

    model_config = ConfigDict(frozen=True)
    kind: Kind
    scope: Scope
    path: str
    command: list[str]
    trouble: str = ""
    other_store: str | None = None


class Connection(BaseModel):
    """What a host has of us, and what it lacks; `mend` are the commands that install what is missing or wrong.

    Rules are missing where the skill is, and its work would need a person at each of its files. `unread` says which of
    its files cannot be read: nobody can tell what is in them. `skilled` are the scopes that have the skill which comes
    with us, `ruled` says whether the work of that is allowed there.
    """

    model_config = ConfigDict(frozen=True)
    host: str
    parts: list[Part]
    missing: list[Kind]
    unread: list[str]
    mend: list[str]
    skilled: list[Scope] = []
    ruled: bool = False

    @property
    def problems(self) -> list[str]:
        """Return what needs a person."""
        again = f": {'; '.join(self.mend)}" if self.mend else ""
        broken = [f"the {part.kind} in '{part.path}': {part.trouble}{again}" for part in self.parts if part.trouble]
        return [*(f"{each}; mend that file" for each in self.unread), *broken]

    @property
    def hindrance(self) -> str:
        """Return what is no fault, but keeps a person busy while a skill is trained; empty when nothing does."""
        if "rules" not in self.missing:
            return ""
        return (
            f"{self.host} has the skill without the rules for its work: it asks you at every file of every work item, "
            f"and does none where it runs headless: {'; '.join(self.mend)}"
        )


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a host's file says of the server or the hooks, and the environment that they are started in."""

    kind: Kind
    scope: Scope
    path: Path
    command: list[str]
    environ: Mapping[str, str]
    n_events: int = len(EVENTS)


def connections(around: Surroundings, store: Path) -> list[Connection]:
    """Return how each host that is found here is connected to this store; no host is started, nothing is written."""
    return [found for host in HOSTS if (found := _connection(host, around, store))]


def _connection(host: str, around: Surroundings, store: Path) -> Connection | None:
    scopes = _scopes(host, around)
    parts, unread, unknown, served = list[Part](), list[str](), set[Kind](), list[_Entry]()
    for scope, where in scopes.items():
        for kind in _kinds(host):
            try:
                entry = _server(host, scope, where, around) if kind == "server" else _hooks(host, scope, where, around)
            except BadInput as error:
                unknown.add(kind)
                unread.append(str(error))
            else:
                parts += [_part(entry, store)] if entry else []
                served += [entry] if entry and kind == "server" else []
    if not (parts or unread or _is_here(host, scopes["user"], around)):
        return None
    missing = [kind for kind in _kinds(host) if kind not in unknown and all(part.kind != kind for part in parts)]
    # In the home folder both scopes may have the same folder of skills.
    folders = {where.skills: scope for scope, where in reversed(scopes.items()) if _has_skill(where)}
    skilled = list(folders.values())[::-1]
    is_skilled = host in RULED and bool(skilled)
    if is_skilled and "hooks" not in unknown:
        stores = [(_store(entry), entry.environ) for entry in served] or [(store, host_environment(host, around))]
        missing += ["rules"] if _lacks_rules(scopes.values(), stores) else []
    # What cannot be read is not written either.
    mend = [] if unread else list(_commands(host, parts, missing, _named(store, around), is_skilled=is_skilled))
    ruled = is_skilled and "hooks" not in unknown and "rules" not in missing
    return Connection(host=host, parts=parts, missing=missing, unread=unread, mend=mend, skilled=skilled, ruled=ruled)


def _has_skill(where: Places) -> bool:
    """Return whether the skill or the agent that comes with us is there, as it came or trained since."""
    return any(os.path.exists(file.target) for file in shipped(where))


def _lacks_rules(scopes: Iterable[Places], served: Sequence[tuple[Path, Mapping[str, str]]]) -> bool:
    """Return whether the work of one of these stores, each served in an environment, is not wholly allowed."""
    texts = [text_of(each.hooks) or "" for each in scopes if each.hooks]
    return any(lacking_rules(texts, rules_for(store, environ)) for store, environ in served)


def _kinds(host: str) -> tuple[Kind, ...]:
    return ("server", "hooks") if host in HOOKED else ("server",)


def _scopes(host: str, around: Surroundings) -> dict[Scope, Places]:
    """Return the files of a host in each of its scopes; in the home folder some hosts have the same for both."""
    found: dict[Scope, Places] = {"user": places(host, "user", around)}
    try:
        project = places(host, "project", around)
    except BadInput:
        return found
    return found if project.config == found["user"].config else {**found, "project": project}


def _is_here(host: str, where: Places, around: Surroundings) -> bool:
    """Return whether a host is installed, or has been used."""
    program = _PROGRAMS.get(host)
    if program and shutil.which(program, path=around.environ.get("PATH", "")):
        return True
    return any(map(os.path.exists, (where.config, (where.hooks or where.config).parent)))


def _server(host: str, scope: Scope, where: Places, around: Surroundings) -> _Entry | None:
    entry = _read(where.config, lambda text: installed_server(text, where))
    if entry is None:
        return None
    told = entry.get("env")
    named = {name: str(value) for name, value in told.items()} if isinstance(told, dict) else {}
    return _Entry("server", scope, where.config, _words(entry), {**host_environment(host, around), **named})


def _read(path: Path, reader: Callable[[str], T]) -> T:
    """Return what a reader finds in a file, an empty one where there is none. Raises BadInput, naming the file."""
    text = text_of(path) or ""
    try:
        return reader(text)
    except BadInput as error:
        raise BadInput(f"'{path}' cannot be read: {error}") from None


def _words(entry: Server) -> list[str]:
    """Return the command of an entry; none is there where a host is told an address instead."""
    arguments = entry.get("args")
    words = [entry.get("command"), *(arguments if isinstance(arguments, list) else ())]
    return [word for word in words if isinstance(word, str)]


def _hooks(host: str, scope: Scope, where: Places, around: Surroundings) -> _Entry | None:
    if where.hooks is None:
        return None
    found = _read(where.hooks, installed_hooks)
    lines = [found[event] for event in EVENTS if event in found]
    if not lines:
        return None
    try:
        command = shlex.split(lines[0])
    except ValueError:
        command = []
    return _Entry("hooks", scope, where.hooks, command, host_environment(host, around), len(lines))


def _part(entry: _Entry, store: Path) -> Part:
    other = _store(entry)
    is_other = bool(entry.command) and os.path.realpath(other) != os.path.realpath(store)
    return Part(
        kind=entry.kind,
        scope=entry.scope,
        path=str(entry.path),
        command=entry.command,
        trouble=_trouble(entry),
        other_store=str(other) if is_other else None,
    )


def store_served(host: str, where: Places, around: Surroundings) -> Path | None:
    """Return the store that a host's server uses, None where the host has none of ours. Raises BadInput."""
    entry = _server(host, "user", where, around)
    return _store(entry) if entry else None


def _store(entry: _Entry) -> Path:
    return store_path(_store_of(entry.command), entry.environ)


def _store_of(command: Sequence[str]) -> str | None:
    """Return the store that a command line names."""
    for word, following in pairwise([*command, ""]):
        if word == _STORE:
            return following
        if word.startswith(f"{_STORE}="):
            return word.removeprefix(f"{_STORE}=")
    return None


def _trouble(entry: _Entry) -> str:
    if entry.n_events < len(EVENTS):
        return f"not every one of the events {', '.join(EVENTS)} runs them"
    if entry.command and not _runs(entry.command[0], entry.environ):
        if os.path.basename(entry.command[0]) == entry.command[0]:
            return f"the program '{entry.command[0]}' is not on the PATH"
        return f"the program '{entry.command[0]}' is not there any more, or cannot be run"
    return ""


def _runs(program: str, environ: Mapping[str, str]) -> bool:
    # What a desktop program searches is not known here: a bare name is given up when nobody finds it.
    paths = (environ.get("PATH", ""), os.environ.get("PATH", ""))
    return shutil.which(os.path.expanduser(program), path=os.pathsep.join(paths)) is not None


def _named(store: Path, around: Surroundings) -> list[str]:
    """Return the option that names the store, where a command would use another one without it."""
    return [] if store == store_path(None, around.environ) else [_STORE, str(store)]


def _commands(
    host: str, parts: Sequence[Part], missing: Sequence[Kind], named: Sequence[str], *, is_skilled: bool
) -> Iterator[str]:
    """Yield the commands that install what is missing, beside what is there, and install again what is wrong."""
    home: Scope = next((part.scope for part in parts if part.kind == "server"), "user")
    wanted = {(home, kind) for kind in missing}
    wanted |= {(part.scope, part.kind) for part in parts if part.trouble or part.other_store}
    # The rules are for the work of one store.
    wanted |= {(part.scope, "rules") for part in parts if part.other_store and part.kind == "server" and is_skilled}
    for scope in sorted({scope for scope, _ in wanted}, reverse=True):
        options = ["--project"] if scope == "project" else []
        options += [option for kind, option in _OPTIONS.items() if (scope, kind) in wanted]
        served = next((part.command for part in parts if (part.scope, part.kind) == (scope, "server")), [])
        yield shlex.join(["skillopt-mcp", *named, "install", host, *options, *_backends(served)])


def _backends(command: Sequence[str]) -> list[str]:
    """Return the backends that a server is started with: installing it again must not lose them."""
    return [word for option, spec in pairwise(command) if option in _BACKENDS for word in (option, spec)]
