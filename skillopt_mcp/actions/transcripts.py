"""Transcripts: the files in which hosts keep sessions, cut into attempts at skills. Pure: it is given the lines."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pydantic import Field, JsonValue
from pydantic_core import from_json

from skillopt_mcp.actions.hook_events import marks
from skillopt_mcp.backends.agents.claude_events import read_claude, text_of
from skillopt_mcp.backends.agents.codex_events import read_session
from skillopt_mcp.backends.agents.events import AgentEvents, Event, parse_event
from skillopt_mcp.backends.work import ORDER
from skillopt_mcp.core.calls import TOOL_CALL, Message
from skillopt_mcp.core.limits import MIB
from skillopt_mcp.core.skills import MAIN_FILE

# How each host writes: which lines count, which a person typed, and what a turn holds

# Hosts speak to the model in the person's name; they put what they say between such tags.
_BY_THE_HOST = re.compile(r"\s*(?:<(?!command-)[a-z][a-z0-9_-]*>|Caveat: |# AGENTS\.md instructions)")
_COMMAND = re.compile(r"<command-name>/?([^<]+)</command-name>")
_ARGUMENTS = re.compile(r"<command-args>([^<]*)</command-args>", re.DOTALL)
# However the JSON is spaced. What all of a pattern begins with is searched for as fast as plain bytes are.
_MESSAGE = re.compile(rb'"type"\s*:\s*"(?:assistant|user)"')
_BY_THE_USER = re.compile(rb'"type"\s*:\s*"user"')
_RESULT = re.compile(rb'"type"\s*:\s*"tool_result"')
# Only a command that failed writes there.
_COMMAND_FAILED = b"<local-command-stderr>"
_INTERRUPTED = "[Request interrupted by user"


class Said(Event):
    """What a line says when it is a person who speaks: `folder` is the working folder, where the line names it."""

    text: str
    folder: str = ""


class SessionFormat(Protocol):
    """How one host writes its sessions."""

    def keeps(self, line: bytes) -> bool:
        """Whether a line may hold a message; cheap, with false positives."""
        ...

    def said(self, line: bytes) -> Said | None:
        """What a person says in a kept line that begins a turn, None for all others."""
        ...

    def folder(self, line: bytes) -> str | None:
        """Return the working folder that a line sets for what follows."""
        ...

    def read(self, lines: str) -> AgentEvents:
        """Return the messages of a turn."""
        ...


class _LineContent(Event):
    content: JsonValue = None


class _ClaudeLine(Event):
    message: _LineContent = _LineContent()
    cwd: str = ""
    meta: bool = Field(default=False, alias="isMeta")
    summary: bool = Field(default=False, alias="isCompactSummary")


class Claude:
    """Claude Code: a line is a message, and an answer of a tool is one of the user's."""

    def keeps(self, line: bytes) -> bool:
        return _MESSAGE.search(line) is not None or _COMMAND_FAILED in line

    def said(self, line: bytes) -> Said | None:
        if not _BY_THE_USER.search(line) or _RESULT.search(line):
            return None
        row = parse_event(line.decode("utf-8", "replace"), _ClaudeLine)
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
        return None  # every message of a person names it

    def read(self, lines: str) -> AgentEvents:
        return read_claude(lines)


class _SessionItem(Event):
    type: str = ""
    content: JsonValue = None


class _CodexPayload(Event):
    type: str = ""
    message: str = ""
    cwd: str = ""
    item: _SessionItem = _SessionItem()


class _CodexLine(Event):
    payload: _CodexPayload = _CodexPayload()


class CodexSessions:
    """Codex: a line is an event with a payload; what a person typed is an event of its own."""

    def keeps(self, line: bytes) -> bool:
        return b'"response_item"' in line or b'"UserMessage"' in line or b'"user_message"' in line

    def said(self, line: bytes) -> Said | None:
        if b'"UserMessage"' not in line and b'"user_message"' not in line:
            return None
        row = parse_event(line.decode("utf-8", "replace"), _CodexLine)
        if row is None or not (row.payload.type == "user_message" or row.payload.item.type == "UserMessage"):
            return None
        text = row.payload.message or text_of(row.payload.item.content)
        return None if not text.strip() or _BY_THE_HOST.match(text) else Said(text=text)

    def folder(self, line: bytes) -> str | None:
        if b'"session_meta"' not in line and b'"turn_context"' not in line:
            return None
        row = parse_event(line.decode("utf-8", "replace"), _CodexLine)
        return (row.payload.cwd or None) if row else None

    def read(self, lines: str) -> AgentEvents:
        return read_session(lines)


class _Any(Event):
    type: JsonValue = None
    payload: JsonValue = None


def is_host_line(line: bytes) -> bool:
    """Whether a host may have written a line: an object of JSON that says what it is."""
    if b'"type"' not in line and b'"payload"' not in line:
        return False
    row = parse_event(line.decode("utf-8", "replace"), _Any)
    return row is not None and (isinstance(row.type, str) or isinstance(row.payload, dict))


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
    """What the agent recorded in a turn; an attempt that it only scored there was recorded before."""
    named = (message for message in messages if message.name and message.name.endswith(_RECORD))
    own = [message for message in named if OWN_TOOL.fullmatch(message.name or "")]
    given = [_arguments(message.content) for message in own if message.role == TOOL_CALL]
    results = [message.content for message in own if message.role == "tool" and _NEW.search(message.content)]
    return SelfRecorded(
        frozenset(int(found[1]) for content in results for found in _RECORDED.finditer(content)),
        frozenset(task for each in given if (task := _text(each, "task"))),
        frozenset(session for each in given if (session := _text(each, "session_id"))),
    )


def _text(arguments: JsonValue, name: str) -> str:
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return value if isinstance(value, str) else ""


# Which skills were opened, and the turns in which they were

_BASE = re.compile(r"Base directory for this skill: ([^\\\"]+)")
_RAW_COMMAND = re.compile(r"<command-name>/?([^<\\]+)</command-name>")
_INJECTED = re.compile(r"<skill>\\n<name>[^<]*</name>\\n<path>([^<]+)</path>")
_PATH = re.compile(r"[^\s\"'`;|&<>()\[\]{},=]*" + re.escape(MAIN_FILE))
_WRITERS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write", "apply_patch"})


class Use(NamedTuple):
    """A skill that was opened: the path of its main document, as it was written there, or only its name."""

    name: str = ""
    path: str = ""


def uses_in(raw: Sequence[str], messages: Iterable[Message]) -> Iterator[Use]:
    """Yield each use once: by the host's own lines, and by the calls of the model that did not fail."""
    bases = [found[1].rstrip("/") for text in raw for found in _BASE.finditer(text)]
    found = [Use(path=f"{base}/{MAIN_FILE}") for base in bases]
    found += [Use(path=match[1]) for text in raw for match in _INJECTED.finditer(text)]
    names = [] if _COMMAND_FAILED.decode() in raw[1] else _RAW_COMMAND.findall(raw[0])
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


PART_BYTES = MIB
"""How much of the beginning, and of the end, of a turn is kept; what lies between is left out."""


@dataclass(frozen=True, slots=True)
class SessionAttempt:
    """One turn in which skills were opened: `index` counts what the person said before it in the session.

    `reaction` is what the person said next, None while they have not: then the turn may still be going on. `recorded`
    is what the agent itself recorded of it.
    """

    index: int
    prompt: str
    folder: str
    messages: tuple[Message, ...]
    answer: str
    reaction: str | None
    uses: tuple[Use, ...]
    recorded: SelfRecorded = NOTHING


@dataclass(slots=True)
class _OpenTurn:
    """A turn while its lines come in: both its ends are kept, in bounded memory."""

    index: int
    said: Said
    folder: str
    first: bytes
    head: list[bytes] = field(default_factory=list)
    tail: deque[bytes] = field(default_factory=deque)
    n_head: int = 0
    n_tail: int = 0
    n_left_out: int = 0
    marked: bool = False

    def add(self, line: bytes) -> None:
        self.marked = self.marked or marks(line)
        if not self.tail and self.n_head + len(line) <= PART_BYTES:
            self.head.append(line)
            self.n_head += len(line)
            return
        self.tail.append(line)
        self.n_tail += len(line)
        while self.n_tail > PART_BYTES:
            self.n_tail -= len(self.tail.popleft())
            self.n_left_out += 1


def attempts(lines: Iterable[bytes]) -> Iterator[SessionAttempt]:
    """Yield the attempts of a session, in order; a line that is unknown, torn or not JSON is passed over."""
    dialect: SessionFormat | None = None
    turn: _OpenTurn | None = None
    folder, n = "", 0
    for line in lines:
        dialect = dialect or (CodexSessions() if b'"payload"' in line else Claude())
        if not dialect.keeps(line):
            folder = dialect.folder(line) or folder
            continue
        said = dialect.said(line)
        if said is None:
            if turn:
                turn.add(line)
            continue
        if turn and said.text == turn.said.text and not turn.head:
            continue  # written twice, as an older and a newer event
        if turn:
            yield from _attempt(turn, dialect, said.text)
        turn = _OpenTurn(n, said, said.folder or folder, line, marked=marks(line))
        n += 1
    if turn and dialect:
        yield from _attempt(turn, dialect, None)


def _attempt(turn: _OpenTurn, dialect: SessionFormat, reaction: str | None) -> Iterator[SessionAttempt]:
    """Yield the attempt that a turn is, if a skill was opened in it."""
    if not turn.marked:
        return
    lines = b"".join((*turn.head, *turn.tail)).decode("utf-8", "replace")
    events = dialect.read(lines)
    messages = _foreign(events, torn=turn.n_left_out > 0)
    if turn.n_left_out:
        messages.insert(0, Message("system", f"[{turn.n_left_out} lines in the middle of this turn are left out]"))
    failed = {id(events.messages[place]) for place in events.failed}
    worked = [message for message in messages if id(message) not in failed]
    uses = tuple(uses_in((turn.first.decode("utf-8", "replace"), lines), worked))
    # Where a work item was opened, what is done is evidence, and may be held out.
    if not uses or any(message.role == TOOL_CALL and ORDER in message.content for message in messages):
        return
    answers = [message for message in messages if message.role == "assistant" and message.name is None]
    answer = answers[-1].content if answers else ""
    recorded = self_recorded(events.messages)
    yield SessionAttempt(turn.index, turn.said.text, turn.folder, tuple(messages), answer, reaction, uses, recorded)


def _foreign(events: AgentEvents, *, torn: bool) -> list[Message]:
    """Return the messages without the calls of our own tools: they speak about tasks, and may hold held-out ones.

    In a torn turn an answer whose call is left out may be one of theirs.
    """
    return [
        message
        for message in events.messages
        if message.role not in (TOOL_CALL, "tool") or not (OWN_TOOL.fullmatch(message.name) if message.name else torn)
    ]
