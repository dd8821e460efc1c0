"""Doctor: whether the installation, the store and the skill folders are as they should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.hosts.connecting import Connection, Part
from skillopt_mcp.operations.stores.diagnosing import Diagnosis, diagnose
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which backends to ask one short call."""

    backend: Sequence[str] = ()


def run(options: Options) -> int:
    """Return 0 when all is well, 1 when something needs a person."""
    with Workspace(options.store_path) as workspace:
        found = diagnose(workspace, options.backend)
    found = found.model_copy(update={"lacking": [options.on_store(each) for each in found.lacking]})
    if options.json:
        terminal.emit(found)
    else:
        for line in _lines(found):
            terminal.say(line)
        for problem in found.problems:
            terminal.note(f"error: {problem}")
    return 1 if found.problems else 0


def _lines(found: Diagnosis) -> list[str]:
    versions = ", ".join(f"{name} {number}" for name, number in found.versions.items())
    wal = "safe for WAL" if found.safe_for_wal else "not safe for WAL: stores use the rollback journal"
    sdks = ", ".join(f"{name} {'is there' if there else 'is missing'}" for name, there in found.backends.items())
    lines = [f"Versions: {versions}.", f"SQLite {found.sqlite} from {found.sqlite_driver}, {wal}.", *_store(found)]
    lines.append(f"Backends: {sdks}.")
    lines += [f"Backend {spec} answers." for spec, problem in found.checked.items() if problem is None]
    for name, path in found.hosts.items():
        lines.append(f"Host {name}: {path or 'not found on the PATH'}.")
    lines += map(_connected, found.connections)
    for root in found.roots:
        lines.append(f"Skill root {root.path}, skills in it: {root.n_skills}.")
    if found.roots_unread:
        lines.append(f"Skill roots that you registered: not read, for the store was not ({found.roots_unread}).")
    elif not found.roots:
        lines.append("Skill roots: none found. Register one with: skillopt-mcp skills add-root PATH")
    if found.lacking and not found.problems:
        lines.append("Nothing is broken. What may be needed before a skill can be trained:")
        lines += [f"  - {each}" for each in found.lacking]
    elif not found.problems:
        lines.append("All is well.")
    return lines


def _connected(host: Connection) -> str:
    """Return in one line what a host has of us, and how it gets what it lacks."""
    skill = [f"skill ({', '.join(host.skilled)})"] if host.skilled else []
    rules = ["rules"] if host.ruled else []
    has = ", ".join([*map(_part, host.parts), *skill, *rules]) or ("not known" if host.unread else "nothing")
    lacks = f" Missing: {', '.join(host.missing)}." if host.missing else ""
    unread = f" {'; '.join(host.unread)}." if host.unread else ""
    mend = f" Install with: {'; '.join(host.mend)}" if host.mend else ""
    return f"Installed in {host.host}: {has}.{lacks}{unread}{mend}"


def _part(part: Part) -> str:
    told = "; ".join(filter(None, (part.trouble, part.other_store and f"it uses another store, '{part.other_store}'")))
    return f"{part.kind} ({part.scope}{f': {told}' if told else ''})"


def _store(found: Diagnosis) -> list[str]:
    store = found.store
    place = f" ({store.file_system})" if store.file_system else ""
    if store.exists and store.mode is None:
        return [f"Store {store.path}{place}: it could not be looked at."]
    if not store.exists:
        return [f"Store {store.path}{place}: not made yet; the first command that needs it makes it."]
    if store.schema_version is None:
        return [f"Store {store.path}{place}: it could not be opened; mode {store.mode}, folder {store.folder_mode}."]
    lines = [
        f"Store {store.path}{place}: schema {store.schema_version} of {found.newest_schema}, "
        f"journal {store.journal_mode}, mode {store.mode}, folder {store.folder_mode}, pages {store.pages} "
        "(what they hold: skillopt-mcp verify)."
    ]
    for path, n_bytes in zip(store.kept, store.kept_bytes, strict=True):
        event = "a restore" if ".replaced-" in path.removeprefix(store.path) else "the schema was changed"
        lines.append(f"Kept from before {event}: {path} ({n_bytes / 1e6:,.1f} MB).")
    if store.kept:
        lines.append("Each of these is a whole store: remove it when you need no way back to it.")
    return lines
