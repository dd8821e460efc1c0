"""Installing: plan what install or uninstall changes in a host's files, write it, and see how hosts are connected.

A plan is made without writing. Each file is written whole or not at all, with a backup of what a person had in it, and
uninstall restores that byte for byte where nothing else has changed since.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp import __version__
from skillopt_mcp.actions.hook_events import END, EVENTS
from skillopt_mcp.admin.install.entries import (
    HOOK_SECONDS,
    NAME,
    HostSettings,
    NotRewritten,
    Server,
    find_hooks,
    find_server,
    find_settings,
    hook_line,
    missing_rules,
    put_server,
    work_rules,
)
from skillopt_mcp.admin.install.hosts import HOSTS, PERSONAL, Places, Scope, Surroundings, host_environment, places
from skillopt_mcp.backends.registry import lacking
from skillopt_mcp.backends.work_folders import WorkFolders
from skillopt_mcp.core.errors import BackendError, BadInput, Refused
from skillopt_mcp.core.results import Result
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.documents.live_files import replace_files
from skillopt_mcp.store.files import store_path

SHIPPED = Path(__file__).resolve().parents[2]
PLUGIN = SHIPPED / "packaging/plugin"
SKILL = "train-a-skill"
AGENT = "skillopt-worker.md"
ANSWER_S = 30.0
_BACKUP = "skillopt-backup"
_STAMP = re.compile(rf"\d{{8}}-\d{{6}}-\d{{6}}\.{_BACKUP}$")
_ERROR_CHARACTERS = 400
_BACKENDS = ("--target", "--optimizer", "--judge")
# Where package runners keep programs that they may clear away.
_CACHES = frozenset({"archive-v0", "builds-v0", "environments-v2"})


# A plan


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after, None where there is none; `path` is resolved.

    No backup is kept of a `shipped` file, which comes with this program, nor of what install alone wrote (`is_ours`).
    """

    path: Path
    before: bytes | None
    after: bytes | None
    runs: bool = False
    shipped: bool = False
    is_ours: bool = False

    @property
    def diff(self) -> str:
        """Return the change as a unified diff."""
        return unified_diff(self._files(self.before), self._files(self.after), str(self.path.parent))

    def write(self) -> Path | None:
        """Write the change, and return the backup of what was there.

        Raises Stale when the file has changed since it was read, Refused when it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            is_spare = self.before is None or self.shipped or self.is_ours
            backup = None if is_spare else _back_up(self.path, self.before or b"")
        except OSError as error:
            raise Refused(
                f"'{self.path.parent}' cannot be written ({error.strerror}); check its permissions"
            ) from error
        replace_files(self.path.parent, self._files(self.before), self._files(self.after))
        return backup

    def _files(self, content: bytes | None) -> SkillFiles:
        return SkillFiles(() if content is None else (SkillFile(self.path.name, content, self.runs),))


@dataclass(frozen=True, slots=True)
class HostCommand:
    """A command of the host that changes its own configuration; `loses`: values of a person go with the entry."""

    words: tuple[str, ...]
    config: Path
    around: Surroundings
    loses: bool = False

    def __str__(self) -> str:
        words = ["claude", *self.words[1:]]
        if words[-1].startswith("{") and (env := json.loads(words[-1]).get("env")):
            # Its values may be keys.
            words[-1] = json.dumps(json.loads(words[-1]) | {"env": dict.fromkeys(env, "...")})
        return shlex.join(words)

    def run(self) -> Path | None:
        """Run it; the backup of the configuration, where something of a person's goes. Raises Refused."""
        backup = _back_up(self.config, self.config.read_bytes()) if self.loses else None
        kept = f"; '{self.config}' was copied to '{backup}' before" if backup else ""
        try:
            done = subprocess.run(
                self.words, cwd=self.around.project, env=dict(self.around.environ), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refused(f"'{self}' could not be run ({error.__class__.__name__}): run it yourself{kept}") from error
        if done.returncode:
            output = " ".join(f"{done.stdout} {done.stderr}".split())[-_ERROR_CHARACTERS:]
            raise Refused(f"'{self}' failed: {output or 'no output'}{kept}")
        return backup


@dataclass(slots=True)
class InstallPlan:
    """The changes to make, what a person should know, and the backups and empty folders that go afterwards.

    `by_hand` is what a person has to do; `commands` are run first, so that nothing is changed where one fails.
    """

    changes: list[FileChange] = field(default_factory=list)
    commands: list[HostCommand] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    obsolete: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)


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


class ChangedFile(BaseModel):
    """A file that was written or removed, or would be."""

    path: str
    diff: str
    backup: str | None = None
    removed: bool = False


Status = Literal["installed", "uninstalled", "unchanged", "shown"]


class Installed(Result):
    """What was installed or uninstalled; `tools` are those of the server, started as the host will start it.

    `commands` of the host were run, or would be; `by_hand` is left to the person. `restart`: what to do in the host
    now. `backups`: files that uninstall leaves.
    """

    status: Status
    host: str
    scope: Scope
    files: list[ChangedFile]
    tools: list[str]
    notes: list[str]
    commands: list[str] = Field(default_factory=list)
    by_hand: list[str] = Field(default_factory=list)
    restart: str = ""
    backups: list[str] = Field(default_factory=list)


def plan_install(request: Request, around: Surroundings) -> InstallPlan:
    """What installing would change; nothing is written. Raises BadInput when a file cannot be changed safely."""
    where, plan = places_of(request, around), InstallPlan()
    if not _CACHES.isdisjoint(Path(request.command).parts):
        plan.notes.append(f"'{request.command}' is in a cache that may be cleared; install the program permanently.")
    program = _command_in(where.config, request, around)
    if request.scope != "user":
        others = f"; others need '{program}' on the PATH" if program != request.command else None
        store = f" It names your store '{request.store}'." if request.store else ""
        why = others or f", but names '{program}' of this machine"
        plan.notes.append(f"'{where.config}' is shared by the project{why}.{store}")
    server = cast(Server, {"command": program, "args": list(request.arguments), **where.host.entry})
    if where.host.form == "command":
        server |= _own_env(read_text(where.config) or "", where)
        _command(plan, where, request, around, server)
    else:
        take_server, is_by_hand = partial(_take_server, where), where.host.form == "by hand"

        def put(text: str) -> str:
            return put_server(text, where, server | _own_env(text, where))

        _edit(plan, where.config, put, take_server, is_by_hand=is_by_hand)
    line, rules = "", tuple[str, ...]()
    if request.hooks and where.hooks:
        line = hook_line(_command_in(where.hooks, request, around), request.store)
    is_shipped = where.hooks is not None and _real(where.hooks).is_relative_to(SHIPPED)
    if request.skill and where.host.has_rules and not is_shipped:
        environ = _server_environment(request.host, find_server(read_text(where.config) or "", where), around)
        rules = work_rules(WorkFolders(store_path(request.store, environ), environ).root)
    settings = HostSettings(line, rules)
    if where.hooks and settings != HostSettings():
        seconds, is_new = _seconds(where), not where.hooks.exists()
        _edit(plan, where.hooks, lambda text: settings.put(text, seconds), partial(_take_settings, where))
        if is_new and where.hooks.name == PERSONAL:
            plan.notes.append(f"'{where.hooks}' names paths of this machine; add '{PERSONAL}' to .gitignore.")
    for source, folder, name in _list_shipped(where) if request.skill else ():
        target = folder / name
        if link := _describe_foreign(folder, name):
            plan.notes.append(f"{link}; nothing was written there. The file is '{source}'.")
        elif not target.exists():
            plan.changes.append(FileChange(_real(target), None, source.read_bytes(), shipped=True))
        elif _content(target) != source.read_bytes():
            plan.notes.append(f"'{target}' was trained or edited, and stays; remove it to get the one that we ship.")
    return plan


def plan_uninstall(request: Request, around: Surroundings) -> InstallPlan:
    """What uninstalling would change; nothing is written. Raises BadInput when it cannot be done safely."""
    where, plan = places_of(request, around), InstallPlan()
    command, environ, _ = _find_command(request.host, "server", where, around)
    store = None if command is None else store_path(_option(command, "--store"), environ)
    if where.host.form == "command":
        _command(plan, where, request, around, None)
    else:
        take_server, is_by_hand = partial(_take_server, where), where.host.form == "by hand"
        _edit(plan, where.config, take_server, take_server, is_by_hand=is_by_hand)
    if where.hooks:
        asked = partial(_take_settings, where, hooks=request.hooks, rules=request.skill)
        _edit(plan, where.hooks, asked, partial(_take_settings, where))
    for source, folder, name in _list_shipped(where) if request.skill else ():
        target = folder / name
        if link := _describe_foreign(folder, name):
            plan.notes.append(f"{link}; it stays.")
        elif target.exists() and _content(target) != source.read_bytes():
            plan.notes.append(f"'{target}' was trained or edited, and stays.")
        elif target.exists():
            plan.changes.append(FileChange(_real(target), source.read_bytes(), None, shipped=True))
    for change in plan.changes:
        if change.after is None:
            roots = (_real(around.home), _real(around.project))
            plan.folders += [each for each in change.path.parents if any(root in each.parents for root in roots)]
    plan.folders = sorted(set(plan.folders), key=lambda folder: len(folder.parts), reverse=True)
    plan.notes += _list_remaining(request, around)
    if store and store.exists():
        plan.notes.append(f"What was recorded stays in the store '{store}'.")
    if store and (work := WorkFolders(store, host_environment(request.host, around)).root).exists():
        plan.notes.append(f"Open work stays in '{work}'.")
    return plan


def apply_plan(plan: InstallPlan) -> list[ChangedFile]:
    """Write the changes of a plan, in order. Raises Stale or Refused; what was written before that stays."""
    written = []
    for command in plan.commands:
        backup = command.run()
        written.append(ChangedFile(path=str(command.config), diff="", backup=str(backup) if backup else None))
    for change in plan.changes:
        backup = change.write()
        kept = str(backup) if backup else None
        written.append(ChangedFile(path=str(change.path), diff=change.diff, backup=kept, removed=change.after is None))
    for file in plan.obsolete:
        with suppress(OSError):
            file.unlink()
    for folder in plan.folders:
        with suppress(OSError):
            folder.rmdir()
    return written


def places_of(request: Request, around: Surroundings) -> Places:
    """Return the files that a request is about. Raises BadInput where the host has none of the kind."""
    where = places(request.host, request.scope, around)
    if request.hooks and where.hooks is None:
        raise BadInput(f"{request.host} has no hooks; leave out --hooks")
    if request.skill and where.skills is None:
        raise BadInput(f"{request.host} has no skill folders; leave out --skill")
    return where


# One file


def _take_server(where: Places, text: str) -> str | None:
    """A host's configuration without our server, as it was before install; None where there was no file."""
    server = find_server(text, where)
    if server is None:
        return text

    def put(old: str) -> str:
        return put_server(old, where, server)

    return _undo(where.config, text, put, lambda new: put_server(new, where, None), is_alone=put("") == text)


def _take_settings(where: Places, text: str, *, hooks: bool = True, rules: bool = True) -> str | None:
    """A host's settings without our hooks and rules, as they were before install; None where there was no file."""
    ours = find_settings(text, hooks=hooks, rules=rules)
    if ours == HostSettings() or where.hooks is None:
        return text
    seconds, is_alone = _seconds(where), ours.take(text).strip() in ("", "{}")
    return _undo(where.hooks, text, lambda old: ours.put(old, seconds), ours.take, is_alone=is_alone)


def _edit(
    plan: InstallPlan, named: Path, edit: Callable[[str], str | None], take_all: Callable[[str], str | None],
    *, is_by_hand: bool = False,
) -> None:  # fmt: skip
    """Add the change of a text file by an edit to a plan; `take_all` takes out all of ours that it may hold.

    Where the file cannot be rewritten, what is to be in it, or to go from it, is left to the person.
    """
    path = _real(named)
    before = read_text(path)
    try:
        try:
            after = edit(before or "")
            if after == before or (before is None and not after):
                return
            if is_by_hand:
                raise NotRewritten("this host's file is left to you")
            is_ours = before is not None and take_all(before) is None
        except NotRewritten as error:
            snippet = (edit("") or "").rstrip()
            todo = f"put this into it:\n{snippet}" if snippet else "take out of it what names skillopt"
            plan.by_hand.append(f"'{path}' was not changed ({error}); {todo}")
            return
    except BadInput as error:
        raise BadInput(f"'{path}': {error}; nothing was changed") from error
    old, new = (None if text is None else text.encode() for text in (before, after))
    plan.changes.append(FileChange(path, old, new, before is not None and os.access(path, os.X_OK), is_ours=is_ours))
    plan.obsolete += [backup for backup in list_backups(path) if new is not None and _content(backup) == new]


def _command(plan: InstallPlan, where: Places, request: Request, around: Surroundings, server: Server | None) -> None:
    """Add the commands by which the host puts our server into its configuration, or takes it out, to a plan."""
    there = find_server(read_text(where.config) or "", where)
    if _essence(there) == _essence(server):
        return
    found = shutil.which(where.host.program, path=around.environ.get("PATH", ""))
    commands, first = list[HostCommand](), (found or where.host.program, "mcp")
    scope = ("--scope", request.scope, NAME)
    if there is not None:
        commands.append(HostCommand((*first, "remove", *scope), where.config, around, bool(there.get("env"))))
    if server is not None:
        commands.append(HostCommand((*first, "add-json", *scope, json.dumps(server)), where.config, around))
    if found:
        plan.commands += commands
    else:
        lines = "\n".join(map(str, commands))
        plan.by_hand.append(f"the program '{where.host.program}' is not on the PATH; where it is, run:\n{lines}")


def _essence(server: Server | None) -> Server | None:
    """An entry without what a host adds to it by itself."""
    return server and {key: value for key, value in server.items() if value and (key, value) != ("type", "stdio")}


def _undo(
    named: Path, text: str, put: Callable[[str], str], take: Callable[[str], str], *, is_alone: bool
) -> str | None:
    """Return a text as it was before a change that `put` makes: of a backup, where nothing else has changed since."""
    for backup in list_backups(named):
        with suppress(BadInput, OSError, UnicodeDecodeError):
            old = backup.read_bytes().decode()
            if put(old) == text and take(old) == old:
                return old
    return None if is_alone else take(text)


def read_text(path: Path) -> str | None:
    """Return a host's file as text, None where there is none. Raises BadInput when it cannot be read as UTF-8."""
    try:
        return path.read_bytes().decode() if path.exists() else None
    except UnicodeDecodeError as error:
        raise BadInput(f"'{path}' is not UTF-8 at byte {error.start}; save it as UTF-8") from None
    except OSError as error:
        raise BadInput(f"'{path}' cannot be read ({error.strerror}); check its permissions") from error


def list_backups(named: Path) -> list[Path]:
    """Return the backups of a file, the newest first."""
    path = _real(named)
    found = path.parent.glob(f"{glob.escape(_stem(path))}.*.{_BACKUP}")
    return sorted((each for each in found if _STAMP.match(each.name, len(_stem(path)) + 1)), reverse=True)


def _back_up(path: Path, content: bytes) -> Path:
    backup = path.with_name(f"{_stem(path)}.{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.{_BACKUP}")
    with open(os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return backup


def _stem(path: Path) -> str:
    # Hidden, so that no host takes it for a file of its own.
    return f".{path.name.removeprefix('.')}"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _list_shipped(where: Places) -> Iterator[tuple[Path, Path, str]]:
    """Yield each file of `--skill`: where it comes from, the folder of the host, and its path there."""
    if where.skills:
        yield PLUGIN / "skills" / SKILL / "SKILL.md", where.skills, f"{SKILL}/SKILL.md"
    if where.agents:
        yield PLUGIN / "agents" / AGENT, where.agents, AGENT


def _describe_foreign(folder: Path, name: str) -> str:
    """Why a place is not ours to write or remove, or an empty string."""
    path = folder / name
    if link := next((each for each in (folder, path.parent, path) if each.is_symlink()), None):
        return f"'{link}' is a link"
    return f"'{path}' is in this program's own folder" if _real(path).is_relative_to(SHIPPED) else ""


def _list_remaining(request: Request, around: Surroundings) -> Iterator[str]:
    """Yield what of ours stays in each scope, with the command that takes it out."""
    going = {"", *(["--hooks"] if request.hooks else []), *(["--skill"] if request.skill else [])}
    other: Scope = "user" if request.scope == "project" else "project"
    here, there = list(_list_installed(places_of(request, around))), list[tuple[str, str]]()
    with suppress(BadInput):
        there = [each for each in _list_installed(places(request.host, other, around)) if each not in here]
    for scope, found in ((request.scope, [each for each in here if each[1] not in going]), (other, there)):
        if found:
            options = sorted({option for _, option in found} - {""})
            words = ["uninstall", request.host, *(["--project"] if scope == "project" else []), *options]
            paths = ", ".join(dict.fromkeys(path for path, _ in found))
            yield f"Still installed: {paths}. Remove with: {shlex.join(['skillopt-mcp', *words])}"


def _list_installed(where: Places) -> Iterator[tuple[str, str]]:
    """Yield the files that have something of ours as it was installed, each with the option that it came with."""
    with suppress(BadInput):
        if find_server(read_text(where.config) or "", where) is not None:
            yield str(where.config), ""
    with suppress(BadInput):
        ours = find_settings(read_text(where.hooks) or "") if where.hooks else HostSettings()
        yield from [(str(where.hooks), "--hooks")] if ours.line else []
        yield from [(str(where.hooks), "--skill")] if ours.rules else []
    for source, folder, name in _list_shipped(where):
        if _content(folder / name) == source.read_bytes():
            yield str(folder / name), "--skill"


# What is written


def _seconds(where: Places) -> dict[str, int]:
    return dict.fromkeys(EVENTS, HOOK_SECONDS) | {END: where.host.session_end_s}


def _own_env(text: str, where: Places) -> Server:
    """Return the environment that a person gave our server in a configuration: a key may be in it."""
    env = (find_server(text, where) or {}).get("env")
    return {"env": env} if env else {}


def _server_environment(host: str, server: Server | None, around: Surroundings) -> dict[str, str]:
    env = (server or {}).get("env")
    named = {name: str(value) for name, value in env.items()} if isinstance(env, dict) else {}
    return {**host_environment(host, around), **named}


def _command_in(file: Path, request: Request, around: Surroundings) -> str:
    """How a file names the program: in one that is shared by its bare name, where the host finds that."""
    if request.scope == "user" or file.name == PERSONAL:
        return request.command
    bare = Path(request.command).name
    found = shutil.which(bare, path=host_environment(request.host, around).get("PATH", ""))
    return bare if found and os.path.realpath(found) == os.path.realpath(request.command) else request.command


# The server, tried


def choose_backends(host: str, named: Mapping[str, str], *, sub_agents: bool) -> tuple[dict[str, str], list[str]]:
    """The backend of each role, by option: the one named, or the host's own command line (no `sub_agents`); and notes.

    One is on each that lacks a key here; no model is asked. Raises BackendError when the server could never use one.
    """
    own, notes = dict[str, str](), list[str]()
    if HOSTS[host].program and not sub_agents:
        try:
            lacking(host)
        except BackendError as error:
            notes.append(f"The agents of your session will do the work: {error}.")
        else:
            own = dict.fromkeys(_BACKENDS, host)
            notes.append(f"{host} does the work in runs of its own, with your login and model.")
    backends = {**own, **named}
    missing = {option: lacking(spec) for option, spec in backends.items()}
    notes += [f"{option}: {what}, where this host sets it for the server." for option, what in missing.items() if what]
    return backends, notes


def check_server(request: Request, around: Surroundings) -> list[str]:
    """The names of the server's tools, started as this host will start it.

    Raises Refused, with the end of its error output, when it does not start or does not answer within ANSWER_S.
    """
    command = [_command_in(places_of(request, around).config, request, around), *request.arguments]
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "skillopt-mcp install", "version": __version__},
    }
    frames: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
    ]
    try:
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=around.project, env=host_environment(request.host, around), text=True, encoding="utf-8",
            errors="replace",
        )  # fmt: skip
    except OSError as error:
        raise Refused(f"'{command[0]}' cannot be started: {error.strerror}") from error
    with server:
        watch = threading.Timer(ANSWER_S, server.kill)
        watch.start()
        try:
            with suppress(BrokenPipeError):
                for frame in frames:
                    print(json.dumps({"jsonrpc": "2.0", **frame}), file=server.stdin, flush=True)
            for line in server.stdout or ():
                with suppress(ValueError, KeyError, TypeError):
                    answer = json.loads(line)
                    if answer["id"] == 2:
                        server.terminate()
                        return [str(tool["name"]) for tool in answer["result"]["tools"]]
            server.kill()
            output = " ".join((server.stderr.read() if server.stderr else "").split())[-_ERROR_CHARACTERS:]
            raise Refused(f"'{shlex.join(command)}' did not answer: {output or 'no error output'}")
        finally:
            watch.cancel()


# How hosts are connected


Kind = Literal["server", "hooks", "rules"]
_OPTIONS: dict[Kind, str] = {"hooks": "--hooks", "rules": "--skill"}


class HostEntry(BaseModel):
    """The server, or the hooks, as a file of a host names them.

    `trouble` is why they cannot work; `other_store` is the store that they use, where that is not the one looked at.
    """

    model_config = ConfigDict(frozen=True)
    kind: Kind
    scope: Scope
    path: str
    command: list[str]
    trouble: str = ""
    other_store: str | None = None


class HostConnection(BaseModel):
    """What a host has of us, and what is missing; `mend` are the commands that install what is missing or wrong.

    `unread` says which of its files cannot be read; `skilled` are the scopes with the skill that we ship; `ruled` says
    whether the work of that is allowed without asking.
    """

    model_config = ConfigDict(frozen=True)
    host: str
    parts: list[HostEntry]
    missing: list[Kind]
    unread: list[str]
    mend: list[str]
    skilled: list[Scope] = []
    ruled: bool = False

    @property
    def problems(self) -> list[str]:
        """What needs a person."""
        again = f"; run: {'; '.join(self.mend)}" if self.mend else ""
        broken = [f"the {part.kind} in '{part.path}': {part.trouble}{again}" for part in self.parts if part.trouble]
        return [*self.unread, *broken]

    @property
    def hindrance(self) -> str:
        """What is not a fault, but keeps a person busy while a skill is trained; else an empty string."""
        if "rules" not in self.missing:
            return ""
        return f"{self.host} asks you at every file of every work item; run: {'; '.join(self.mend)}"


def connections(around: Surroundings, store: Path) -> list[HostConnection]:
    """How each host that is found here is connected to this store; no host is started, nothing is written."""
    return [found for host in HOSTS if (found := _connection(host, around, store))]


def _connection(host: str, around: Surroundings, store: Path) -> HostConnection | None:
    scopes: dict[Scope, Places] = {"user": places(host, "user", around)}
    with suppress(BadInput):
        project = places(host, "project", around)
        if project.config != scopes["user"].config:  # in the home folder some hosts have the same for both
            scopes["project"] = project
    kinds: list[Kind] = ["server", *(["hooks"] if scopes["user"].hooks else [])]  # type: ignore[list-item]
    parts, unread, unknown = list[HostEntry](), list[str](), set[Kind]()
    stores = list[tuple[Path, Mapping[str, str]]]()
    for scope, where in scopes.items():
        for kind in kinds:
            path = where.config if kind == "server" else where.hooks
            try:
                command, environ, trouble = _find_command(host, kind, where, around)
            except BadInput as error:
                unknown.add(kind)
                unread.append(f"'{path}' cannot be read: {error}")
                continue
            if command is None:
                continue
            used = store_path(_option(command, "--store"), environ)
            is_other = bool(command) and os.path.realpath(used) != os.path.realpath(store)
            parts.append(HostEntry(
                kind=kind, scope=scope, path=str(path), command=command, trouble=trouble,
                other_store=str(used) if is_other else None,
            ))  # fmt: skip
            stores += [(used, environ)] if kind == "server" else []
    if not (parts or unread):  # a host that is neither installed nor was ever used
        program, user = HOSTS[host].program, scopes["user"]
        is_used = any(map(os.path.exists, (user.config, (user.hooks or user.config).parent)))
        if not is_used and not (program and shutil.which(program, path=around.environ.get("PATH", ""))):
            return None
    missing = [kind for kind in kinds if kind not in unknown and all(part.kind != kind for part in parts)]
    skilled = [
        scope for scope, where in scopes.items() if any((f / name).exists() for _, f, name in _list_shipped(where))
    ]
    has_work = HOSTS[host].has_rules and bool(skilled)
    if has_work and "hooks" not in unknown:
        texts = [read_text(where.hooks) or "" for where in scopes.values() if where.hooks]
        for used, environ in stores or [(store, host_environment(host, around))]:
            if "rules" not in missing and missing_rules(texts, work_rules(WorkFolders(used, environ).root)):
                missing.append("rules")
    ruled = has_work and "hooks" not in unknown and "rules" not in missing
    found = HostConnection(
        host=host, parts=parts, missing=missing, unread=unread, mend=[], skilled=skilled, ruled=ruled
    )
    # What cannot be read is not written either.
    return found if unread else found.model_copy(update={"mend": list(_plan_commands(found, store, around))})


def _find_command(
    host: str, kind: Kind, where: Places, around: Surroundings
) -> tuple[list[str] | None, Mapping[str, str], str]:
    """Return the command of the server or the hooks (None where there are none), its environment, and its trouble.

    The command is empty where a host has the address of a server instead.
    """
    if kind == "server":
        server = find_server(read_text(where.config) or "", where)
        environ = _server_environment(host, server, around)
        if server is None:
            return None, environ, ""
        arguments = server.get("args")
        words = [server.get("command"), *(arguments if isinstance(arguments, list) else ())]
        command = [word for word in words if isinstance(word, str)]
        return command, environ, _trouble(command, environ)
    environ, found = host_environment(host, around), find_hooks(read_text(where.hooks) or "") if where.hooks else {}
    lines = [found[event] for event in EVENTS if event in found]
    if not lines:
        return None, environ, ""
    command = []
    with suppress(ValueError):
        command = shlex.split(lines[0])
    if len(lines) < len(EVENTS):
        return command, environ, f"they must run at each of {', '.join(EVENTS)}"
    return command, environ, _trouble(command, environ)


def _trouble(command: Sequence[str], environ: Mapping[str, str]) -> str:
    # What a desktop program searches is not known here, so both paths are tried.
    paths = os.pathsep.join((environ.get("PATH", ""), os.environ.get("PATH", "")))
    if not command or shutil.which(os.path.expanduser(command[0]), path=paths):
        return ""
    return f"the program '{command[0]}' is missing, or cannot be run"


def _option(command: Sequence[str], option: str) -> str | None:
    """Return the value of an option in a command line."""
    words = [each for word in command for each in (word.split("=", 1) if word.startswith(f"{option}=") else [word])]
    return next((value for word, value in pairwise(words) if word == option), None)


def _plan_commands(found: HostConnection, store: Path, around: Surroundings) -> Iterator[str]:
    """Yield the commands that install what is missing, next to what is there, and install again what is wrong."""
    host, parts = found.host, found.parts
    has_work = HOSTS[host].has_rules and bool(found.skilled)
    named = [] if store == store_path(None, around.environ) else ["--store", str(store)]
    home: Scope = next((part.scope for part in parts if part.kind == "server"), "user")
    wanted = {(home, kind) for kind in found.missing}
    wanted |= {(part.scope, part.kind) for part in parts if part.trouble or part.other_store}
    # The rules are for the work of one store.
    wanted |= {(part.scope, "rules") for part in parts if part.other_store and part.kind == "server" and has_work}
    for scope in sorted({scope for scope, _ in wanted}, reverse=True):
        options = ["--project"] if scope == "project" else []
        options += [option for kind, option in _OPTIONS.items() if (scope, kind) in wanted]
        served = next((part.command for part in parts if (part.scope, part.kind) == (scope, "server")), [])
        backends = {option: spec for option, spec in pairwise(served) if option in _BACKENDS}
        own = dict.fromkeys(_BACKENDS, host) if HOSTS[host].program else {}
        if served and own.keys() - backends.keys():
            options, own = [*options, "--sub-agents"], {}
        others = [word for option, spec in backends.items() if own.get(option) != spec for word in (option, spec)]
        yield shlex.join(["skillopt-mcp", *named, "install", host, *options, *others])
