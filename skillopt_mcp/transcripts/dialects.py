"""Dialects: how each host writes its sessions: which lines count, where a person speaks, and what a turn holds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from pydantic import Field, JsonValue
from pydantic_core import from_json

from skillopt_mcp.backends.agents.claude_events import read_claude, text_of
from skillopt_mcp.backends.agents.codex_events import read_session
from skillopt_mcp.backends.agents.events import AgentEvents, Event, parsed
from skillopt_mcp.records.calls import TOOL_CALL, Message

# Hosts speak to the model in the person's name; they put what they say between such tags.
_BY_THE_HOST = re.compile(r"\s*(?:<(?!command-)[a-z][a-z0-9_-]*>|Caveat: |# AGENTS\.md instructions)")
_COMMAND = re.compile(r"<command-name>/?([^<]+)</command-name>")
_ARGUMENTS = re.compile(r"<command-args>([^<]*)</command-args>", re.DOTALL)
# However the JSON is spaced. What all of a pattern begins with is searched for as fast as plain bytes are.
_MESSAGE = re.compile(rb'"type"\s*:\s*"(?:assistant|user)"')
_BY_THE_USER = re.compile(rb'"type"\s*:\s*"user"')
_RESULT = re.compile(rb'"type"\s*:\s*"tool_result"')
_INTERRUPTED = "[Request interrupted by user"


class Said(Event):
    """What a line says when it is a person who speaks: `folder` is the working folder, where the line names it."""

    text: str
    folder: str = ""


class Dialect(Protocol):
    """How one host writes."""

    def keeps(self, line: bytes) -> bool:
        """Return whether a line may hold a message; cheap, with false positives."""
        ...

    def said(self, line: bytes) -> Said | None:
        """Return what a person says in a kept line that begins a turn, None for all others."""
        ...

    def folder(self, line: bytes) -> str | None:
        """Return the working folder that a line sets for what follows."""
        ...

    def read(self, lines: str) -> AgentEvents:
        """Return the messages of a turn."""
        ...


class _Content(Event):
    content: JsonValue = None


class _ClaudeLine(Event):
    message: _Content = _Content()
    cwd: str = ""
    meta: bool = Field(default=False, alias="isMeta")
    summary: bool = Field(default=False, alias="isCompactSummary")


class Claude:
    """Claude Code: a line is a message, and an answer of a tool is one of the user's."""

    def keeps(self, line: bytes) -> bool:
        """Return whether the line is a message of the user or the assistant."""
        return _MESSAGE.search(line) is not None

    def said(self, line: bytes) -> Said | None:
        """Return what a person typed."""
        if not _BY_THE_USER.search(line) or _RESULT.search(line):
            return None
        row = parsed(line.decode("utf-8", "replace"), _ClaudeLine)
        if row is None or row.meta or row.summary:
            return None
        text = text_of(row.message.content)
        command = _COMMAND.search(text)
        if command:
            arguments = _ARGUMENTS.search(text)
            text = f"/{command[1]} {arguments[1] if arguments else ''}".strip()
        elif not text.strip() or _BY_THE_HOST.match(text) or text.startswith(_INTERRUPTED):
            return None
        return Said(text=text, folder=row.cwd)

    def folder(self, line: bytes) -> str | None:
        """Return None: every message of a person names it."""
        return None

    def read(self, lines: str) -> AgentEvents:
        """Return the messages of a turn."""
        return read_claude(lines)


class _Item(Event):
    type: str = ""
    content: JsonValue = None


class _CodexPayload(Event):
    type: str = ""
    message: str = ""
    cwd: str = ""
    item: _Item = _Item()


class _CodexLine(Event):
    payload: _CodexPayload = _CodexPayload()


class Codex:
    """Codex: a line is an event with a payload; what a person typed is an event of its own."""

    def keeps(self, line: bytes) -> bool:
        """Return whether the line is a message, a call, an answer of a tool, or what a person typed."""
        return b'"response_item"' in line or b'"UserMessage"' in line or b'"user_message"' in line

    def said(self, line: bytes) -> Said | None:
        """Return what a person typed."""
        if b'"UserMessage"' not in line and b'"user_message"' not in line:
            return None
        row = parsed(line.decode("utf-8", "replace"), _CodexLine)
        if row is None or not (row.payload.type == "user_message" or row.payload.item.type == "UserMessage"):
            return None
        text = row.payload.message or text_of(row.payload.item.content)
        return None if not text.strip() or _BY_THE_HOST.match(text) else Said(text=text)

    def folder(self, line: bytes) -> str | None:
        """Return the folder that a session or a turn begins in."""
        if b'"session_meta"' not in line and b'"turn_context"' not in line:
            return None
        row = parsed(line.decode("utf-8", "replace"), _CodexLine)
        return (row.payload.cwd or None) if row else None

    def read(self, lines: str) -> AgentEvents:
        """Return the messages of a turn."""
        return read_session(lines)


class _Any(Event):
    type: JsonValue = None
    payload: JsonValue = None


def is_host_line(line: bytes) -> bool:
    """Return whether a host may have written a line: an object of JSON that says what it is."""
    if b'"type"' not in line and b'"payload"' not in line:
        return False
    row = parsed(line.decode("utf-8", "replace"), _Any)
    return row is not None and (isinstance(row.type, str) or isinstance(row.payload, dict))


def dialect_of(line: bytes) -> Dialect:
    """Return the dialect of a file by its first line."""
    return Codex() if b'"payload"' in line else Claude()


OWN_TOOL = re.compile(r"(?:mcp__)?(?:plugin_\w+_)?skillopt(?:__|\.)\w+")
_RECORD = "record_trajectory"
# A host may keep the result as text within a text.
_RECORDED = re.compile(r'\\?"trajectory_id\\?"\s*:\s*\\?"trajectory:(\d{1,18})\\?"')
_NEW = re.compile(r'\\?"outcome\\?"\s*:\s*\\?"recorded\\?"')


class SelfRecorded(NamedTuple):
    """The trajectories that our tool stored in a turn; `tasks` and `sessions` are what it was given with them."""

    ids: frozenset[int] = frozenset()
    tasks: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()


NOTHING = SelfRecorded()


def self_recorded(messages: Iterable[Message]) -> SelfRecorded:
    """Return what the agent recorded in a turn; an attempt that it only scored there was recorded before."""
    own = [message for message in messages if message.name and _is_record(message.name)]
    given = [_arguments(message.content) for message in own if message.role == TOOL_CALL]
    results = [message.content for message in own if message.role == "tool" and _NEW.search(message.content)]
    return SelfRecorded(
        frozenset(int(found[1]) for content in results for found in _RECORDED.finditer(content)),
        frozenset(task for each in given if (task := _text(each, "task"))),
        frozenset(session for each in given if (session := _text(each, "session_id"))),
    )


def _is_record(name: str) -> bool:
    return name.endswith(_RECORD) and OWN_TOOL.fullmatch(name) is not None


def _arguments(content: str) -> JsonValue:
    try:
        value: JsonValue = from_json(content)
    except ValueError:
        return None
    return value


def _text(arguments: JsonValue, name: str) -> str:
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return value if isinstance(value, str) else ""
