"""Uses: by what a transcript shows that a skill was opened."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pydantic import JsonValue
from pydantic_core import from_json

from skillopt_mcp.backends.work import ORDER
from skillopt_mcp.records.calls import TOOL_CALL, Message
from skillopt_mcp.records.skills import MAIN_FILE

_BASE = re.compile(r"Base directory for this skill: ([^\\\"]+)")
_COMMAND = re.compile(r"<command-name>/?([^<\\]+)</command-name>")
_INJECTED = re.compile(r"<skill>\\n<name>[^<]*</name>\\n<path>([^<]+)</path>")
_PATH = re.compile(r"[^\s\"'`;|&<>()\[\]{},=]*" + re.escape(MAIN_FILE))
_WRITERS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write", "apply_patch"})


class Use(NamedTuple):
    """A skill that was opened: the path of its main document, as it was written there, or only its name."""

    name: str = ""
    path: str = ""


def uses_in(raw: Sequence[str], messages: Iterable[Message]) -> Iterator[Use]:
    """Yield each use once: by the host's own lines, and by the calls that the model made."""
    bases = [found[1].rstrip("/") for text in raw for found in _BASE.finditer(text)]
    found = [Use(path=f"{base}/{MAIN_FILE}") for base in bases]
    found += [Use(path=match[1]) for text in raw for match in _INJECTED.finditer(text)]
    names = [match[1] for match in _COMMAND.finditer(raw[0])]
    for message in messages:
        if message.role == TOOL_CALL and message.name not in _WRITERS:
            arguments = _arguments(message.content)
            if message.name == "Skill" and isinstance(arguments, dict):
                names.append(str(arguments.get("skill") or arguments.get("command") or ""))
            found += [Use(path=path) for text in _texts(arguments) for path in _PATH.findall(text)]
    placed = {base.rpartition("/")[2] for base in bases}
    plain = (name.strip().rpartition(":")[2] for name in names)
    found += [Use(name=name) for name in plain if name and name not in placed]
    yield from dict.fromkeys(found)


def is_own_work(messages: Iterable[Message]) -> bool:
    """Return whether a work item was opened: what is done there is evidence, and may be held out."""
    return any(message.role == TOOL_CALL and ORDER in message.content for message in messages)


def _arguments(content: str) -> JsonValue:
    try:
        value: JsonValue = from_json(content)
    except ValueError:
        return content
    return value


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
