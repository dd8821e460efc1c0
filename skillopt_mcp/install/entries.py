"""Entries: our server, hooks and rules in the text of a host's file, put in, found and taken out."""

from __future__ import annotations

import copy
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import cast

import tomlkit
from pydantic import JsonValue
from tomlkit.exceptions import TOMLKitError

from skillopt_mcp.errors import BadInput
from skillopt_mcp.install.hosts import Host, Places
from skillopt_mcp.install.json_edits import JsonText

NAME = "skillopt"
HOOK_SECONDS = 30
_CAPTURE = "capture"
Server = dict[str, JsonValue]
Json = dict[str, JsonValue]


# The server


def server_entry(host: Host, command: str, arguments: Sequence[str]) -> Server:
    """Return the entry of our server, as this host wants it."""
    return {"command": command, "args": list(arguments), **cast(Server, dict(host.entry))}


def find_server(text: str, where: Places) -> Server | None:
    """Return the entry of our server in a configuration, None when there is none. Raises BadInput."""
    return _object(_object(_value(text, where).get(where.host.servers)).get(NAME)) or None


def put_server(text: str, where: Places, server: Server | None) -> str:
    """Return a configuration with this entry as our server's, or without one. Raises BadInput where that is unsafe."""
    value = _value(text, where)
    if (_object(value.get(where.host.servers)).get(NAME) or None) == server:
        return text
    if where.host.form == "toml":
        edited = _put_toml(text, where.host.servers, server)
    else:
        json_text = JsonText(text, comments=where.host.form == "jsonc")
        if server is None:
            json_text.remove((where.host.servers, NAME))
        else:
            json_text.set((where.host.servers, NAME), server)
        edited = json_text.text
    expected = _with(value, where.host.servers, server)
    try:
        is_right = _value(edited, where) == expected
    except BadInput:
        is_right = False
    if not is_right:
        raise BadInput("this program cannot change it safely as it is written: edit it by hand")
    return edited


def _put_toml(text: str, servers: str, server: Server | None) -> str:
    try:
        document = tomlkit.parse(text)
        table = cast(Json, document.setdefault(servers, tomlkit.table(is_super_table=True)))
        if NAME in table:
            del table[NAME]
            if not table:
                del document[servers]
            left = _keep_comments(text, document.as_string())
            return left if server is None else _put_toml(left, servers, server)
        if server is not None:
            table[NAME] = server
        return document.as_string()
    except (TOMLKitError, AttributeError, TypeError, ValueError) as error:
        raise BadInput(f"this program cannot change it safely ({error}): edit it by hand") from None


def _keep_comments(text: str, after: str) -> str:
    """Return `after`, which is `text` without a table, with the comments that were between it and the next table."""
    n = len(text) - len(after)
    n_same = next((at for at, (old, new) in enumerate(zip(text, after, strict=False)) if old != new), len(after))
    start = text.rfind("\n", 0, n_same) + 1
    if text != after[:start] + text[start : start + n] + after[start:]:
        return after
    lines = text[start : start + n].splitlines(keepends=True)
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    head, kept = after[:start], text[start + len("".join(lines)) : start + n]
    # The blank line before the table came with it.
    return (head[:-1] if head.endswith("\n\n") else head) + kept + after[start:]


def _value(text: str, where: Places) -> Json:
    if where.host.form != "toml":
        return cast(Json, JsonText(text, comments=where.host.form == "jsonc").value)
    try:
        return cast(Json, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(str(error)) from None


def _with(value: Json, servers: str, server: Server | None) -> Json:
    changed = copy.deepcopy(value)
    table = changed.setdefault(servers, {})
    if not isinstance(table, dict):
        raise BadInput(f"'{servers}' is not an object")
    if server is not None:
        table[NAME] = server
    else:
        table.pop(NAME, None)
        if not table:
            del changed[servers]
    return changed


# Hooks and rules, which share a file where a host has both


@dataclass(frozen=True, slots=True)
class Settings:
    """What of ours is in a host's settings, or is to be: the line that hooks run (empty: no hooks), and the rules."""

    line: str = ""
    rules: tuple[str, ...] = ()

    def put(self, text: str, seconds: Mapping[str, int]) -> str:
        """Return settings with this in them; each hook runs for at most so many seconds. Raises BadInput."""
        text = put_hooks(text, seconds, self.line) if self.line else text
        return put_rules(text, self.rules) if self.rules else text

    def take(self, text: str) -> str:
        """Return settings without the hooks and the rules, as far as this has them. Raises BadInput."""
        text = remove_hooks(text) if self.line else text
        return remove_rules(text) if self.rules else text


def find_settings(text: str, *, hooks: bool = True, rules: bool = True) -> Settings:
    """Return what of ours is in a host's settings. Raises BadInput."""
    line = next(iter(find_hooks(text).values()), "") if hooks else ""
    return Settings(line, find_rules(text) if rules else ())


def hook_line(command: str, store: str | None) -> str:
    """Return the line that a hook runs in a shell; it always succeeds, since hosts treat failures as an objection."""
    return f"{shlex.join([command, _CAPTURE, *(['--store', store] if store else [])])} || true"


def put_hooks(text: str, seconds: Mapping[str, int], line: str) -> str:
    """Return a file of hooks in which each event runs the line, once, for at most so many seconds. Raises BadInput."""
    edited = JsonText(text, comments=False)
    for event, longest in seconds.items():
        # Not `async`, though hosts have it: they drop what still runs when a session ends.
        group: JsonValue = {"hooks": [{"type": "command", "command": line, "timeout": longest}]}
        if [each for each in _groups(edited.value, event) if _lines(each)] != [group]:
            _remove(edited, event)
            edited.append(("hooks", event), group)
    return edited.text


def remove_hooks(text: str) -> str:
    """Return a file of hooks without ours, on whatever event they are. Raises BadInput."""
    edited = JsonText(text, comments=False)
    for event in find_hooks(text):
        _remove(edited, event)
    return edited.text


def find_hooks(text: str) -> dict[str, str]:
    """Return the line that a hook of ours runs, by event. Raises BadInput."""
    value = JsonText(text, comments=False).value
    lines = {event: [*chain(*map(_lines, _groups(value, event)))] for event in _object(_object(value).get("hooks"))}
    return {event: found[0] for event, found in lines.items() if found}


def _remove(edited: JsonText, event: str) -> None:
    """Take our hooks out of an event: whole groups, and those in a group of a person's own."""
    path = ("hooks", event)
    edited.remove_elements(path, lambda group: bool(_lines(group)) and not _theirs(group))
    edited.replace_elements(path, lambda group: {**_object(group), "hooks": _theirs(group)} if _lines(group) else group)


def _groups(value: JsonValue, event: str) -> list[JsonValue]:
    return _list(_object(_object(value).get("hooks")).get(event))


def _lines(group: JsonValue) -> list[str]:
    """Return what the hooks of a group run that are ours."""
    return [line for hook in _list(_object(group).get("hooks")) if (line := _line(hook))]


def _theirs(group: JsonValue) -> list[JsonValue]:
    return [hook for hook in _list(_object(group).get("hooks")) if not _line(hook)]


def _line(hook: JsonValue) -> str:
    line = str(_object(hook).get("command"))
    return line if "skillopt-mcp" in line and f" {_CAPTURE}" in line else ""


# The tools that work takes, by name: promote_skill and rollback_skill are never allowed here, for they write the
# person's files, and a rule for the whole server would allow them, too.
_TOOLS = (
    "list_skills", "record_trajectory", "add_tasks", "propose_edits", "evaluate_candidate", "submit_work", "inspect",
)  # fmt: skip
_ALLOWED = ("permissions", "allow")
_SERVER = f"mcp__{NAME}"
_TOOL_RULES = tuple(f"{_SERVER}__{tool}" for tool in _TOOLS)
_WORK_RULE = re.compile(r"(?:Read|Edit)\(/.*/skillopt-[0-9a-f]{12}/\*\*\)")
_FOLDER_RULE = re.compile(r"(Read|Edit)\(/(/.*)/\*\*\)")


def work_rules(folder: Path) -> tuple[str, ...]:
    """Return the rules by which a host works in a folder without asking; `Edit` allows to write, too.

    Raises BadInput where the host would read the folder's path as a pattern.
    """
    if re.search(r"[*?\[\]\\]", str(folder)):
        raise BadInput(
            f"a host would read the work folder '{folder}' as a pattern; name one without any of * ? [ ] \\ by "
            "SKILLOPT_WORK, or leave out --skill"
        )
    return (*_TOOL_RULES, f"Read(/{folder}/**)", f"Edit(/{folder}/**)")


def put_rules(text: str, rules: Sequence[str]) -> str:
    """Return settings that allow what these rules do, on this work folder and on no other. Raises BadInput."""
    edited = JsonText(text, comments=False)
    edited.remove_elements(_ALLOWED, lambda rule: _is_on_work(rule) and rule not in rules)
    there = _allowed(edited.value)
    for rule in rules:
        if rule not in there:
            edited.append(_ALLOWED, rule)
    return edited.text


def remove_rules(text: str) -> str:
    """Return settings without our rules. Raises BadInput."""
    ours, edited = find_rules(text), JsonText(text, comments=False)
    edited.remove_elements(_ALLOWED, lambda rule: rule in ours)
    return edited.text


def find_rules(text: str) -> tuple[str, ...]:
    """Return our rules in settings. Raises BadInput.

    Where no work folder is allowed, a tool of ours was allowed by the person.
    """
    allowed = _allowed(JsonText(text, comments=False).value)
    if not any(map(_is_on_work, allowed)):
        return ()
    return tuple(rule for rule in allowed if rule in _TOOL_RULES or _is_on_work(rule))


def missing_rules(texts: Sequence[str], rules: Sequence[str]) -> list[str]:
    """Return the rules that nothing in any of these settings covers. Raises BadInput."""
    allowed = {rule for text in texts for rule in _allowed(JsonText(text, comments=False).value)}
    return [rule for rule in rules if not any(_covers(each, rule) for each in allowed)]


def _covers(allowed: str, rule: str) -> bool:
    if rule.startswith(_SERVER):
        return allowed in (rule, _SERVER, f"{_SERVER}__*")
    wide, narrow = _FOLDER_RULE.fullmatch(allowed), _FOLDER_RULE.fullmatch(rule)
    if wide and narrow:
        return wide[1] == narrow[1] and Path(narrow[2]).is_relative_to(wide[2])
    return allowed == rule.partition("(")[0]


def _is_on_work(rule: JsonValue) -> bool:
    return isinstance(rule, str) and _WORK_RULE.fullmatch(rule) is not None


def _allowed(value: JsonValue) -> list[str]:
    rules = _list(_object(_object(value).get("permissions")).get("allow"))
    return [rule for rule in rules if isinstance(rule, str)]


def _object(value: JsonValue) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
