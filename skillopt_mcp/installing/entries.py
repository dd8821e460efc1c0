"""Entries: what is written into a host's files, and those files with it or without it."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable, Sequence
from typing import cast

from pydantic import JsonValue

from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.hosts import Places
from skillopt_mcp.installing.json_edits import JsonText
from skillopt_mcp.installing.toml_edits import toml_value, with_table, without_table

NAME = "skillopt"
HOOK_SECONDS = 30
_CAPTURE = "capture"

Server = dict[str, JsonValue]


def server_entry(host: str, command: str, arguments: Sequence[str]) -> Server:
    """Return the entry of our server, as this host wants it."""
    entry: Server = {"command": command, "args": list(arguments)}
    if host in ("claude-code", "vscode"):
        return {"type": "stdio", **entry}
    if host == "codex":
        # Without `required` a first turn may begin without the server; whether promote_skill may write is decided by
        # the verdict and by the person's permission, not by the host's dialog.
        return {**entry, "required": True, "tools": {"promote_skill": {"approval_mode": "approve"}}}
    return entry


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


def with_hooks(text: str, events: Sequence[str], command: str) -> str:
    """Return a file of hooks in which each event runs the command, once. Raises BadInput."""
    edited = JsonText(text, comments=False)
    for event in events:
        # Not `async`, though hosts have it: they drop what still runs when a session ends.
        group: JsonValue = {"hooks": [{"type": "command", "command": command, "timeout": HOOK_SECONDS}]}
        if group in _groups(edited.value, event):
            continue
        edited.remove_elements(("hooks", event), _is_ours)
        edited.append(("hooks", event), group)
    return edited.text


def without_hooks(text: str, events: Sequence[str]) -> str:
    """Return a file of hooks without ours. Raises BadInput."""
    edited = JsonText(text, comments=False)
    for event in events:
        if any(_is_ours(group) for group in _groups(edited.value, event)):
            edited.remove_elements(("hooks", event), _is_ours)
    return edited.text


def installed_server(text: str, places: Places) -> Server | None:
    """Return the entry of our server as it stands in a configuration, None when there is none. Raises BadInput."""
    value: JsonValue = toml_value(text) if places.form == "toml" else _reader(places)(text)
    for key in (*places.servers_path, NAME):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def installed_hook(text: str, events: Sequence[str]) -> str | None:
    """Return the line that a hook of ours runs, None when a file has none. Raises BadInput."""
    value = JsonText(text, comments=False).value
    return next((line for event in events for group in _groups(value, event) if (line := _line(group))), None)


def _groups(value: JsonValue, event: str) -> list[JsonValue]:
    hooks = value.get("hooks") if isinstance(value, dict) else None
    groups = hooks.get(event) if isinstance(hooks, dict) else None
    return groups if isinstance(groups, list) else []


def _is_ours(group: JsonValue) -> bool:
    return _line(group) is not None


def _line(group: JsonValue) -> str | None:
    """Return what a group of hooks runs, if that is our capture and nothing else."""
    hooks = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(hooks, list) or len(hooks) != 1 or not isinstance(hooks[0], dict):
        return None
    line = str(hooks[0].get("command"))
    return line if "skillopt-mcp" in line and f" {_CAPTURE}" in line else None


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
