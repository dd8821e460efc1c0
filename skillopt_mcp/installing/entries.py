"""Entries: what is written into a host's files, and those files with it or without it."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import cast

from pydantic import JsonValue

from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.hosts import Places
from skillopt_mcp.installing.json_edits import JsonText
from skillopt_mcp.installing.toml_edits import toml_value, with_table, without_table

NAME = "skillopt"
HOOK_SECONDS = 30
# Codex gives the end of a session no more, and tells the person at each start when more is asked for.
_LESS = {("codex", "SessionEnd"): 3}
_CAPTURE = "capture"

Server = dict[str, JsonValue]


def server_entry(host: str, command: str, arguments: Sequence[str]) -> Server:
    """Return the entry of our server, as this host wants it."""
    entry: Server = {"command": command, "args": list(arguments)}
    if host in ("claude-code", "vscode"):
        return {"type": "stdio", **entry}
    if host == "codex":
        # Without `required` a first turn may begin without the server; whether these two tools may write is decided by
        # the verdict and by the person's permission, not by the host's dialog.
        approved: JsonValue = {"approval_mode": "approve"}
        return {**entry, "required": True, "tools": {"promote_skill": approved, "rollback_skill": approved}}
    return entry


def hook_seconds(host: str, events: Sequence[str]) -> dict[str, int]:
    """Return the longest that our hook may take on each event, in seconds, as this host takes it."""
    return {event: _LESS.get((host, event), HOOK_SECONDS) for event in events}


def hook_command(command: str, store: str | None) -> str:
    """Return the line that a hook runs in a shell; it succeeds whatever happens, for a host takes failures to heart."""
    words = [command, _CAPTURE, *(["--store", store] if store else [])]
    return f"{shlex.join(words)} || true"


def with_server(text: str, places: Places, server: Server) -> str:
    """Return a host's configuration with the server in it. Raises BadInput where that cannot be done safely."""
    if places.form == "toml":
        path = (*places.servers_path, NAME)
        return _proven(text, with_table(text, path, server), toml_value, lambda value: _put(value, path, server))
    edited = JsonText(text, comments=places.form == "jsonc")
    edited.set((*places.servers_path, NAME), server)
    return _proven(text, edited.text, _reader(places), lambda value: _put(value, (*places.servers_path, NAME), server))


def without_server(text: str, places: Places) -> str:
    """Return a host's configuration without the server. Raises BadInput where that cannot be done safely."""
    path = (*places.servers_path, NAME)
    if places.form == "toml":
        return _proven(text, without_table(text, path), toml_value, lambda value: _taken(value, path))
    edited = JsonText(text, comments=places.form == "jsonc")
    edited.remove(path)
    return _proven(text, edited.text, _reader(places), lambda value: _taken(value, path))


def with_hooks(text: str, seconds: Mapping[str, int], command: str) -> str:
    """Return a file of hooks in which each event runs the command, once, for so long at most. Raises BadInput."""
    edited = JsonText(text, comments=False)
    for event, longest in seconds.items():
        # Not `async`, though hosts have it: they drop what still runs when a session ends.
        group: JsonValue = {"hooks": [{"type": "command", "command": command, "timeout": longest}]}
        if [each for each in _groups(edited.value, event) if _lines(each)] == [group]:
            continue
        _take_out(edited, event)
        edited.append(("hooks", event), group)
    return edited.text


def without_hooks(text: str) -> str:
    """Return a file of hooks without ours, on whatever event they are. Raises BadInput."""
    edited = JsonText(text, comments=False)
    for event in installed_hooks(text):
        _take_out(edited, event)
    return edited.text


def installed_server(text: str, places: Places) -> Server | None:
    """Return the entry of our server as it stands in a configuration, None when there is none. Raises BadInput."""
    value: JsonValue = toml_value(text) if places.form == "toml" else _reader(places)(text)
    for key in (*places.servers_path, NAME):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def installed_hooks(text: str) -> dict[str, str]:
    """Return the line that a hook of ours runs, by the event, for each that runs one. Raises BadInput."""
    value = JsonText(text, comments=False).value
    events = _mapping(_mapping(value).get("hooks"))
    lines = {event: [*chain(*map(_lines, _groups(value, event)))] for event in events}
    return {event: found[0] for event, found in lines.items() if found}


def is_server_alone(text: str, places: Places, host: str) -> bool:
    """Return whether a configuration is what install writes where there was none. Raises BadInput."""
    server = installed_server(text, places) or {}
    command, arguments = server.get("command"), server.get("args")
    if not isinstance(command, str) or not isinstance(arguments, list):
        return False
    entry = server_entry(host, command, [str(each) for each in arguments])
    return entry == server and with_server("", places, entry) == text


def _groups(value: JsonValue, event: str) -> list[JsonValue]:
    groups = _mapping(_mapping(value).get("hooks")).get(event)
    return groups if isinstance(groups, list) else []


def _take_out(edited: JsonText, event: str) -> None:
    """Take our hooks out of an event: whole groups, and those that somebody put into a group of theirs."""
    edited.remove_elements(("hooks", event), lambda group: bool(_lines(group)) and not _theirs(group))
    edited.replace_elements(("hooks", event), lambda group: _without_ours(group) if _lines(group) else group)


def _without_ours(group: JsonValue) -> JsonValue:
    return {**_mapping(group), "hooks": _theirs(group)}


def _lines(group: JsonValue) -> list[str]:
    """Return what the hooks of a group run that are ours."""
    return [line for hook in _hooks(group) if (line := _line(hook))]


def _theirs(group: JsonValue) -> list[JsonValue]:
    return [hook for hook in _hooks(group) if not _line(hook)]


def _hooks(group: JsonValue) -> list[JsonValue]:
    hooks = _mapping(group).get("hooks")
    return hooks if isinstance(hooks, list) else []


def _line(hook: JsonValue) -> str:
    """Return what a hook runs, if that is our capture."""
    line = str(_mapping(hook).get("command"))
    return line if "skillopt-mcp" in line and f" {_CAPTURE}" in line else ""


def _mapping(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _reader(places: Places) -> Callable[[str], JsonValue]:
    return lambda text: JsonText(text, comments=places.form == "jsonc").value


def _proven(before: str, after: str, read: Callable[[str], JsonValue], change: Callable[[JsonValue], JsonValue]) -> str:
    """Return `after` if it says what was meant, and nothing else differs. Raises BadInput otherwise."""
    expected = change(read(before))
    try:
        said = read(after)
    except BadInput:
        said = None
    if said != expected:
        raise BadInput("it is written in a way that this program cannot change safely: edit it by hand")
    return after


def _put(value: JsonValue, path: Sequence[str], entry: JsonValue) -> JsonValue:
    changed = cast(dict[str, JsonValue], copy.deepcopy(value))
    inner = changed
    for key in path[:-1]:
        inner = cast(dict[str, JsonValue], inner.setdefault(key, {}))
    inner[path[-1]] = entry
    return changed


def _taken(value: JsonValue, path: Sequence[str]) -> JsonValue:
    changed = cast(dict[str, JsonValue], copy.deepcopy(value))
    trail = [changed]
    for key in path[:-1]:
        inner = trail[-1].get(key)
        if not isinstance(inner, dict):
            return changed
        trail.append(inner)
    if path[-1] not in trail[-1]:
        return changed
    for at in range(len(path) - 1, -1, -1):
        del trail[at][path[at]]
        if trail[at]:
            break
    return changed
