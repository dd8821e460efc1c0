"""Doctor: whether the installation, the store and the skill folders are as they should be."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated

from skillopt_mcp.admin.doctor import Diagnosis, diagnose
from skillopt_mcp.admin.install.installing import HostConnection
from skillopt_mcp.backends.resolved import describe_unremembered, resolve_spec
from skillopt_mcp.cli.command import Command, Flag, command
from skillopt_mcp.cli.terminal import Declined, Terminal
from skillopt_mcp.core.text import counted, quoted
from skillopt_mcp.store.pool import schema_folder
from skillopt_mcp.workspace.callers import find_editor


@command("doctor", example="doctor")
class Doctor(Command):
    """Check the installation, the store, the skill folders and backends."""

    backend: Annotated[tuple[str, ...], Flag("ask this backend one short call (may be repeated)", "BACKEND:MODEL")] = ()

    def run(self, terminal: Terminal) -> Diagnosis:
        with terminal.workspace() as workspace:
            found = diagnose(workspace.store, workspace.models, workspace.place, self.backend)
            is_asked = terminal.is_interactive and not terminal.is_json and not find_editor()
            for spec in self.backend if is_asked else ():
                # A person says whether agents may use a backend that answers, unless they may already.
                if not found.checked[spec] and describe_unremembered(workspace.store, spec):
                    parts = resolve_spec(spec).parts
                    terminal.note(f"'{spec}' is {', '.join(f'{name} {value}' for name, value in parts.items())}.")
                    with suppress(Declined):
                        terminal.ask("Remember it for agents?", yes=False)
                        workspace.store.permissions.remember_backend(parts, spec, f"terminal ({workspace.place.login})")
            return found

    def show(self, result: Diagnosis, terminal: Terminal) -> None:
        for line in _lines(result):
            terminal.say(line)
        if result.lacking and not result.problems:
            terminal.say("Nothing is broken. What may be needed before a skill can be trained:")
            for each in result.lacking:
                terminal.say(f"  - {each}")
        for spec, answer in result.answers.items():
            if answer.strip(" \n.!\"'`*").casefold() != "ok":
                terminal.note(
                    f'warning: {spec} was asked to answer "ok" and did not: see whether its model follows '
                    "instructions, and whether its server uses the model's chat template."
                )
        for problem in result.problems:
            terminal.note(f"error: {problem}")
        if not result.problems and not result.lacking:
            terminal.say("All is well.")

    def exit_code(self, result: Diagnosis) -> int:
        return 1 if result.problems else 0


def _lines(found: Diagnosis) -> Iterator[str]:
    yield f"Versions: {', '.join(f'{name} {number}' for name, number in found.versions.items())}."
    wal = "safe for WAL" if found.safe_for_wal else "not safe for WAL: stores use the rollback journal"
    yield f"SQLite {found.sqlite} from {found.sqlite_driver}, {wal}."
    yield from _store(found)
    sdks = ", ".join(f"{name} {'installed' if there else 'missing'}" for name, there in found.backends.items())
    yield f"Backends: {sdks}."
    for spec, problem in found.checked.items():
        if problem is None:
            answer = " ".join(found.answers.get(spec, "").split())
            yield f"Backend {spec} answers{f': {quoted(answer)}' if answer else ''}."
    for name, path in found.hosts.items():
        yield f"Host {name}: {path or 'not found on the PATH'}."
    yield from map(_host, found.connections)
    for root in found.roots:
        yield f"Skill root {root.path}: {counted(root.n_skills, 'skill')}."
    if found.roots_unread:
        yield f"Registered skill roots: not read ({found.roots_unread})."
    elif not found.roots:
        yield "Skill roots: none found. Register one with: skillopt-mcp skills add-root PATH"


def _host(host: HostConnection) -> str:
    """A line on what a host has of us, and how it gets what it lacks."""
    parts = []
    for part in host.parts:
        store = part.other_store and f"it uses another store, '{part.other_store}'"
        trouble = "; ".join(filter(None, (part.trouble, store)))
        parts.append(f"{part.kind} ({part.scope}{f': {trouble}' if trouble else ''})")
    skill = [f"skill ({', '.join(host.skilled)})"] if host.skilled else []
    rules = ["rules"] if host.ruled else []
    has = ", ".join([*parts, *skill, *rules]) or ("not known" if host.unread else "nothing")
    lacks = f" Missing: {', '.join(host.missing)}." if host.missing else ""
    unread = f" {'; '.join(host.unread)}." if host.unread else ""
    mend = f" Install with: {'; '.join(host.mend)}" if host.mend else ""
    return f"Installed in {host.host}: {has}.{lacks}{unread}{mend}"


def _store(found: Diagnosis) -> Iterator[str]:
    store = found.store
    place = f"Store {store.path}{f' ({store.file_system})' if store.file_system else ''}"
    if not store.exists:
        yield f"{place}: does not exist yet; the first command that needs it creates it."
    elif store.mode is None:
        yield f"{place}: cannot be read."
    elif store.journal_mode is None:
        yield f"{place}: cannot be opened; mode {store.mode}, folder {store.folder_mode}."
    else:
        modes = f"mode {store.mode}, folder {store.folder_mode}"
        yield f"{place}: journal {store.journal_mode}, {modes}, pages {store.pages}."
        paths = store.path, "-m", str(schema_folder() / "datasette.json")
        yield f"Browse it: {shlex.join(['datasette', *paths])}"
        for path, n_bytes in zip(store.kept, store.kept_bytes, strict=True):
            yield f"Kept from before a restore: {path} ({n_bytes / 1e6:,.1f} MB)."
