"""Transcripts: the files in which hosts keep sessions, cut into turns. Pure: it is given the lines."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
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
# Commands of the program itself, which no model reads.
_LOCAL = re.findall(r"[\w-]+", """add-dir agents clear compact config context cost doctor exit export help hooks login
logout mcp memory model output-style permissions plugin quit resume rewind status theme usage""")  # fmt: skip
_ARGUMENTS = re.compile(r"<command-args>([^<]*)</command-args>", re.DOTALL)
# However the JSON is spaced. What all of a pattern begins with is searched for as fast as plain bytes are.
_MESSAGE = re.compile(rb'"type"\s*:\s*"(?:assistant|user)"')
_BY_THE_USER = re.compile(rb'"type"\s*:\s*"user"')
_RESULT = re.compile(rb'"type"\s*:\s*"tool_result"')
_SIDE = re.compile(rb'"isSidechain"\s*:\s*true')
_HEAD_BYTES = 240
# Only a command that failed writes there.
_COMMAND_FAILED = b"<local-command-stderr>"
_INTERRUPTED = "[Request interrupted by user"
# Where a session came from that no person types in: `claude -p`, an SDK, an action of GitHub's, `codex exec`.
_PROGRAMS = ("sdk", "mcp", "claude-code-github", "exec", "codex_exec", "codex_sdk", "subagent", "internal")


class Said(Event):
    """What begins a turn: `folder` is the working folder, where the line names it; `at`, when it was said.

    Not `by_person` is what a schedule or a program asked.
    """

    text: str
    folder: str = ""
    at: str = ""
    by_person: bool = True


class SessionFormat(Protocol):
    """How one host writes its sessions."""

    def keeps(self, line: bytes) -> bool:
        """Whether a line may hold a message; cheap, with false positives."""

    def said(self, line: bytes) -> Said | None:
        """What is said in a kept line that begins a turn, None for all others."""

    def folder(self, line: bytes) -> str | None:
        """Return the working folder that a line sets for what follows."""

    def read(self, lines: str) -> AgentEvents:
        """Return the messages of a turn."""


class _LineContent(Event):
    content: JsonValue = None


class _Origin(Event):
    kind: str = "human"


class _ClaudeLine(Event):
    message: _LineContent = _LineContent()
    cwd: str = ""
    at: str = Field(default="", alias="timestamp")
    meta: bool = Field(default=False, alias="isMeta")
    summary: bool = Field(default=False, alias="isCompactSummary")
    entrypoint: str = "cli"
    origin: _Origin = _Origin()
    schedule: str = Field(default="", alias="scheduledTaskId")
    wakeup: str = Field(default="", alias="wakeupSource")


class Claude:
    """Claude Code: a line is a message, and an answer of a tool is one of the user's."""

    def keeps(self, line: bytes) -> bool:
        head = line[:_HEAD_BYTES]
        # Attachments and requests are the longest lines.
        if b'"attachment":' in head or b'"type":"api-request' in head or _SIDE.search(head):
            return False
        return _MESSAGE.search(line) is not None or _COMMAND_FAILED in line

    def said(self, line: bytes) -> Said | None:
        if _RESULT.search(line) or not _BY_THE_USER.search(line):
            return None
        row = parse_event(line.decode("utf-8", "replace"), _ClaudeLine)
        if row is None or row.summary:
            return None
        is_scheduled = bool(row.schedule or row.wakeup)
        if (row.meta or row.origin.kind != "human") and not is_scheduled:
            return None
        text = text_of(row.message.content)
        command = _COMMAND.search(text)
        if command:
            if command[1].strip() in _LOCAL:
                return None
            arguments = _ARGUMENTS.search(text)
            text = f"/{command[1]} {arguments[1] if arguments else ''}".strip()
        elif not text.strip() or _BY_THE_HOST.match(text) or text.startswith(_INTERRUPTED):
            return None
        by_person = not is_scheduled and not row.entrypoint.startswith(_PROGRAMS)
        return Said(text=text, folder=row.cwd, at=row.at, by_person=by_person)

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
    originator: str = ""
    source: JsonValue = ""
    item: _SessionItem = _SessionItem()


class _CodexLine(Event):
    at: str = Field(default="", alias="timestamp")
    payload: _CodexPayload = _CodexPayload()


def _is_typed(line: bytes) -> bool:
    return b'"UserMessage"' in line or b'"user_message"' in line


class CodexSessions:
    """Codex: a line is an event with a payload; what a person typed is an event of its own."""

    def __init__(self) -> None:
        self._by_person = True

    def keeps(self, line: bytes) -> bool:
        head = line[:_HEAD_BYTES]
        # The state of the world is in the longest lines.
        return b'"response_item"' in head or (b'"event_msg"' in head and _is_typed(line))

    def said(self, line: bytes) -> Said | None:
        if b'"event_msg"' not in line[:_HEAD_BYTES] or not _is_typed(line):
            return None
        row = parse_event(line.decode("utf-8", "replace"), _CodexLine)
        if row is None or not (row.payload.type == "user_message" or row.payload.item.type == "UserMessage"):
            return None
        text = row.payload.message or text_of(row.payload.item.content)
        if not text.strip() or _BY_THE_HOST.match(text):
            return None
        return Said(text=text, at=row.at, by_person=self._by_person)

    def folder(self, line: bytes) -> str | None:
        head = line[:_HEAD_BYTES]
        if SESSION_META not in head and b'"turn_context"' not in head:
            return None
        row = parse_event(line.decode("utf-8", "replace"), _CodexLine)
        if row and SESSION_META in head:
            begun_by = (str(row.payload.source).lstrip("{'"), row.payload.originator)  # a name, or {name: more}
            self._by_person = not any(each.startswith(_PROGRAMS) for each in begun_by)
        return (row.payload.cwd or None) if row else None

    def read(self, lines: str) -> AgentEvents:
        return read_session(lines)


SESSION_META = b'"session_meta"'
"""The line of Codex that says who began a session; it is the first."""


_HOST_FIELD = re.compile(rb'"(?:type"\s*:\s*"|payload"\s*:\s*\{)')


def is_host_line(line: bytes) -> bool:
    """Whether a host may have written a line: an object of JSON that says what it is."""
    return line.startswith(b"{") and line.endswith((b"}\n", b"}\r\n", b"}")) and bool(_HOST_FIELD.search(line))


OWN_TOOL = re.compile(r"(?:mcp__)?(?:plugin_\w+_)?skillopt(?:__|\.)(\w+)")
_OUR_NAME = b"skillopt"
_OWN_WORK = frozenset(
    {"add_tasks", "propose_edits", "evaluate_candidate", "submit_work", "promote_skill", "rollback_skill"}
)
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
_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|(?:npm|pnpm|yarn|bun)(?: run)? test"
    r"|(?:go|cargo|mvn|gradle|dotnet|mix|swift) test|make (?:test|check))\b"
)
_TESTS_FAILED = re.compile(
    r"\b[1-9]\d* (?:failed|failing|failures?|errors?)\b|\[exit code -?[1-9]\d*\]|^(?:FAIL|FAILED)\b", re.M
)
_REVERTS = re.compile(r"\bgit (?:-C \S+ )?(?:restore|revert|reset --hard|checkout (?:\S+ )?--)\s")
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
    """What was done in one turn, and the skills that were opened in it; `answer` is empty where none was given.

    `recorded` is what the agent itself recorded of it; `is_own`: it was about our own work, which may show what is held
    out. `tested`: whether the first tests that ran passed; `reverted`: whether changes were taken back.
    """

    messages: tuple[Message, ...]
    answer: str
    uses: tuple[Use, ...]
    recorded: SelfRecorded = NOTHING
    is_own: bool = False
    tested: bool | None = None
    reverted: bool = False


@dataclass
class SessionTurn:
    """What was said (`index`: how many things before it in the session), and the lines up to what was said next.

    Both ends of a long turn are kept, in bounded memory. `offset` is where it begins in the file; `marked`: a skill may
    have been opened, or our own tools called.
    """

    index: int
    said: Said
    folder: str
    offset: int
    dialect: SessionFormat
    first: bytes
    head: list[bytes] = field(default_factory=list)
    tail: deque[bytes] = field(default_factory=deque)
    n_head: int = 0
    n_tail: int = 0
    n_left_out: int = 0
    marked: bool = False

    def add(self, line: bytes) -> None:
        """Take a line in."""
        self.marked = self.marked or marks(line) or _OUR_NAME in line
        if not self.tail and self.n_head + len(line) <= PART_BYTES:
            self.head.append(line)
            self.n_head += len(line)
            return
        self.tail.append(line)
        self.n_tail += len(line)
        while self.n_tail > PART_BYTES:
            self.n_tail -= len(self.tail.popleft())
            self.n_left_out += 1

    @cached_property
    def attempt(self) -> SessionAttempt:
        """What was done, read when it is first asked for."""
        lines = b"".join((*self.head, *self.tail)).decode("utf-8", "replace")
        events = self.dialect.read(lines)
        messages = _foreign(events, torn=self.n_left_out > 0)
        if self.n_left_out:
            messages.insert(0, Message("system", f"[{self.n_left_out} lines in the middle of this turn are left out]"))
        failed = {id(events.messages[place]) for place in events.failed}
        worked = [message for message in messages if id(message) not in failed]
        uses = uses_in((self.first.decode("utf-8", "replace"), lines), worked) if self.marked else ()
        answers = [message for message in messages if message.role == "assistant" and message.name is None]
        is_interrupted = any(text.startswith(_INTERRUPTED) for text in events.loaded)
        own = {OWN_TOOL.fullmatch(message.name) for message in events.messages if message.name}
        # Where a work item was opened, what is done is evidence, and may be held out.
        is_work = any(message.role == TOOL_CALL and ORDER in message.content for message in messages)
        tested, reverted = None, False
        for call, result in zip(messages, [*messages[1:], None], strict=False):
            if call.role == TOOL_CALL and _TESTS.search(call.content) and tested is None and result:
                tested = id(call) not in failed and not _TESTS_FAILED.search(result.content)
            reverted = reverted or (call.role == TOOL_CALL and bool(_REVERTS.search(call.content)))
        return SessionAttempt(
            messages=tuple(messages),
            answer=answers[-1].content if answers and not is_interrupted else "",
            uses=tuple(uses),
            recorded=self_recorded(events.messages),
            is_own=is_work or any(found and found[1] in _OWN_WORK for found in own),
            tested=tested,
            reverted=reverted,
        )


def split_turns(lines: Iterable[tuple[int, bytes]], index: int = 0, folder: str = "") -> Iterator[SessionTurn]:
    """Yield the turns of a session, in order, of its lines and where each begins; `index` is that of the first.

    A line that is unknown, torn or not JSON is passed over.
    """
    dialect: SessionFormat | None = None
    turn: SessionTurn | None = None
    for offset, line in lines:
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
            yield turn
        turn = SessionTurn(index, said, said.folder or folder, offset, dialect, line, marked=marks(line))
        index += 1
    if turn:
        yield turn


def read_side_chain(lines: Iterable[bytes]) -> tuple[str, tuple[Use, ...]]:
    """When a sub-agent began, and the skills that it opened, of the lines of its file."""
    turn, at = SessionTurn(0, Said(text=""), "", 0, Claude(), b""), ""
    for line in lines:
        if _MESSAGE.search(line):
            if not at and (row := parse_event(line.decode("utf-8", "replace"), _ClaudeLine)):
                at = row.at
            turn.add(line)
    return (at, turn.attempt.uses) if turn.marked and not turn.attempt.is_own else (at, ())


def _foreign(events: AgentEvents, *, torn: bool) -> list[Message]:
    """Return the messages without the calls of our own tools: they speak about tasks, and may hold held-out ones.

    In a torn turn an answer whose call is left out may be one of theirs.
    """
    return [
        message
        for message in events.messages
        if message.role not in (TOOL_CALL, "tool") or not (OWN_TOOL.fullmatch(message.name) if message.name else torn)
    ]
