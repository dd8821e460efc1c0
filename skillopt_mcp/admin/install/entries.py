"""Entries: our server, hooks and rules in the text of a host's file, put in, found and taken out."""

from __future__ import annotations

import copy
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import cast

import tomlkit
from pydantic import JsonValue
from tomlkit.exceptions import TOMLKitError

from skillopt_mcp.admin.install.hosts import Places
from skillopt_mcp.core.errors import BadInput

NAME = "skillopt"
HOOK_SECONDS = 30
_CAPTURE = "capture"
Server = dict[str, JsonValue]
Json = dict[str, JsonValue]


# The server


def find_server(text: str, where: Places) -> Server | None:
    """The entry of our server in a configuration, None when there is none. Raises BadInput."""
    return _object(_object(_value(text, where).get(where.host.servers)).get(NAME)) or None


def put_server(text: str, where: Places, server: Server | None) -> str:
    """Put this entry into a configuration as our server's, or take ours out of it.

    Raises NotRewritten where a person has to do that, BadInput where it is unsafe.
    """
    value = _value(text, where)
    if (_object(value.get(where.host.servers)).get(NAME) or None) == server:
        return text

    def change(value: Json) -> None:
        table = value.setdefault(where.host.servers, {})
        if not isinstance(table, dict):
            raise BadInput(f"'{where.host.servers}' is not an object")
        table[NAME] = server
        if server is None:
            del table[NAME]
            if not table:
                del value[where.host.servers]

    if where.host.form != "toml":
        return _rewrite(text, change)
    edited, expected = _put_toml(text, where.host.servers, server), copy.deepcopy(value)
    change(expected)
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
        return _read_json(text)
    try:
        return cast(Json, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(str(error)) from None


# JSON


class NotRewritten(BadInput):
    """A file that can be read, but would lose something if it were written again, such as its comments."""


# A string, or what only some hosts allow: a comment, a comma before the end. A string or a comment without an end is
# matched, too, so that no character is read twice.
_STRING = r'"(?:[^"\\\n]++|\\.)*+"?'
_TOKENS = re.compile(rf"{_STRING}|(?P<blank>//[^\n]*|/\*.*?\*/)|/\*.*", re.DOTALL)
_TRAILING = re.compile(rf"{_STRING}|(?P<blank>,(?=[ \t\r\n]*[}}\]]))", re.DOTALL)
_INDENT = re.compile(r"\n([ \t]+)\S")
_BYTE_ORDER_MARK = "\ufeff"


def _read_json(text: str) -> Json:
    """The object that a text holds, comments and trailing commas ignored; {} of a blank one. Raises BadInput."""
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            for pattern in (_TOKENS, _TRAILING):
                text = pattern.sub(lambda at: re.sub(r"[^\n]", " ", at[0]) if at["blank"] else at[0], text)
            value = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise BadInput(f"line {error.lineno}, column {error.colno}: {error.msg.lower()}") from None
    except RecursionError:
        raise BadInput("too many levels") from None
    except ValueError as error:
        raise BadInput(str(error)) from None
    if not isinstance(value, dict):
        raise BadInput("line 1, column 1: an object {...} is expected")
    return value


def _rewrite(text: str, change: Callable[[Json], None]) -> str:
    """A JSON text with a change made to its value: its order, indent, line ends and byte order mark stay.

    Raises NotRewritten where anything else of it would be lost, BadInput where it does not parse.
    """
    value = _read_json(text)
    change(value)
    if value == _read_json(text):
        return text
    body = text.removeprefix(_BYTE_ORDER_MARK)
    is_one_line = bool(body.strip()) and "\n" not in body.strip()
    unit = _INDENT.search(body)
    is_tight = is_one_line and '": ' not in body and '":' in body
    try:
        if body.strip():
            json.loads(body, object_pairs_hook=_unique, parse_float=_exact, parse_constant=_no_constant)
        made = json.dumps(
            value, ensure_ascii=body.isascii(), indent=None if is_one_line else unit[1] if unit else "  ",
            separators=(",", ":") if is_tight else (", " if is_one_line else ",", ": "),
        )  # fmt: skip
        made.encode()
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise NotRewritten(f"it is not plain JSON ({error})") from None
    end = body[len(body.rstrip()) :] if body.strip() else "\n"
    newline = "\r\n" if "\r\n" in body else "\n"
    return text[: len(text) - len(body)] + made.replace("\n", newline) + end


def _unique(pairs: list[tuple[str, JsonValue]]) -> Json:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands there twice")
    return value


def _exact(text: str) -> float:
    if Decimal(text) != Decimal(repr(float(text))):
        raise ValueError(f"{text} cannot be kept exactly")
    return float(text)


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"'{name}' is not JSON")


# Hooks and rules, which share a file where a host has both


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What of ours is in a host's settings, or is to be: the line that hooks run (empty: no hooks), and the rules."""

    line: str = ""
    rules: tuple[str, ...] = ()

    def put(self, text: str, seconds: Mapping[str, int]) -> str:
        """Return settings with this in them: each event runs the line, once, for at most so many seconds, and the rules
        allow what they do on this work folder and on no other. Raises NotRewritten, BadInput.
        """

        def change(value: Json) -> None:
            for event, longest in seconds.items() if self.line else ():
                # Not `async`, though hosts have it: they drop what still runs when a session ends.
                group: JsonValue = {"hooks": [{"type": "command", "command": self.line, "timeout": longest}]}
                if [each for each in _groups(value, event) if _lines(each)] != [group]:
                    _remove(value, event)
                    _array(value, "hooks", event).append(group)
            if self.rules:
                there = _array(value, "permissions", "allow")
                there[:] = [rule for rule in there if not _is_on_work(rule) or rule in self.rules]
                there += [rule for rule in self.rules if rule not in there]

        return _rewrite(text, change)

    def take(self, text: str) -> str:
        """Return settings without our hooks, on whatever event, and our rules, as far as this has such.

        Raises NotRewritten, BadInput.
        """
        events, rules = find_hooks(text) if self.line else (), find_rules(text) if self.rules else ()

        def change(value: Json) -> None:
            for event in events:
                _remove(value, event)
            if rules:
                permissions = _object(value.get("permissions"))
                permissions["allow"] = [rule for rule in _list(permissions.get("allow")) if rule not in rules]
                _drop_empty(value, ("permissions", "allow"))

        return _rewrite(text, change)


def find_settings(text: str, *, hooks: bool = True, rules: bool = True) -> HostSettings:
    """What of ours is in a host's settings. Raises BadInput."""
    line = next(iter(find_hooks(text).values()), "") if hooks else ""
    return HostSettings(line, find_rules(text) if rules else ())


def hook_line(command: str, store: str | None) -> str:
    """Return the line that a hook runs in a shell; it always succeeds, since hosts treat failures as an objection."""
    return f"{shlex.join([command, _CAPTURE, *(['--store', store] if store else [])])} || true"


def find_hooks(text: str) -> dict[str, str]:
    """The line that a hook of ours runs, by event. Raises BadInput."""
    value = _read_json(text)
    lines = {event: [*chain(*map(_lines, _groups(value, event)))] for event in _object(value.get("hooks"))}
    return {event: found[0] for event, found in lines.items() if found}


def _remove(value: Json, event: str) -> None:
    """Take our hooks out of an event: whole groups, and those in a group of a person's own."""
    groups, hooks = _groups(value, event), _object(value.get("hooks"))
    if not any(map(_lines, groups)):
        return
    hooks[event] = [
        {**_object(group), "hooks": _theirs(group)} if _lines(group) else group
        for group in groups
        if not _lines(group) or _theirs(group)
    ]
    _drop_empty(value, ("hooks", event))


def _drop_empty(value: Json, path: tuple[str, str]) -> None:
    """Take an array out that became empty, and then the object around it."""
    outer = _object(value.get(path[0]))
    if not outer.get(path[1]):
        del outer[path[1]]
    if not outer:
        del value[path[0]]


def _array(value: Json, name: str, inner: str) -> list[JsonValue]:
    """An array inside an object of settings, made where it is not there. Raises BadInput where it is something else."""
    outer = value.setdefault(name, {})
    found = outer.setdefault(inner, []) if isinstance(outer, dict) else None
    if not isinstance(found, list):
        raise BadInput(f"'{name}.{inner}' is not an array")
    return found


def _groups(value: JsonValue, event: str) -> list[JsonValue]:
    return _list(_object(_object(value).get("hooks")).get(event))


def _lines(group: JsonValue) -> list[str]:
    """What the hooks of a group run that are ours."""
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


def find_rules(text: str) -> tuple[str, ...]:
    """Return our rules in settings. Raises BadInput.

    Where no work folder is allowed, a tool of ours was allowed by the person.
    """
    allowed = _list_allowed(_read_json(text))
    if not any(map(_is_on_work, allowed)):
        return ()
    return tuple(rule for rule in allowed if rule in _TOOL_RULES or _is_on_work(rule))


def missing_rules(texts: Sequence[str], rules: Sequence[str]) -> list[str]:
    """The rules that nothing in any of these settings covers: no rule like it, and no wider one. Raises BadInput."""
    allowed = {rule for text in texts for rule in _list_allowed(_read_json(text))}
    folders = [found for found in map(_FOLDER_RULE.fullmatch, allowed) if found]
    missing = []
    for rule in rules:
        wider = {rule, _SERVER, f"{_SERVER}__*"} if rule.startswith(_SERVER) else {rule.partition("(")[0]}
        narrow = _FOLDER_RULE.fullmatch(rule)
        is_inside = narrow and any(wide[1] == narrow[1] and Path(narrow[2]).is_relative_to(wide[2]) for wide in folders)
        if not is_inside and allowed.isdisjoint(wider):
            missing.append(rule)
    return missing


def _is_on_work(rule: JsonValue) -> bool:
    return isinstance(rule, str) and _WORK_RULE.fullmatch(rule) is not None


def _list_allowed(value: JsonValue) -> list[str]:
    rules = _list(_object(_object(value).get("permissions")).get("allow"))
    return [rule for rule in rules if isinstance(rule, str)]


def _object(value: JsonValue) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
