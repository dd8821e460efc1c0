"""Uses: by what a transcript shows that a skill was opened."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import JsonValue
from pydantic_core import from_json

from skillopt_mcp.backends.agents.events import AgentEvents
from skillopt_mcp.backends.work import ORDER
from skillopt_mcp.hook_events import marks
from skillopt_mcp.limits import MIB
from skillopt_mcp.records.calls import TOOL_CALL, Message
from skillopt_mcp.records.skills import MAIN_FILE
from skillopt_mcp.transcripts.dialects import NOTHING, OWN_TOOL, Dialect, Said, SelfRecorded, dialect_of, self_recorded

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


# Searched one by one: a pattern of alternatives takes ten times as long.
PART_BYTES = MIB
"""How much of the beginning, and of the end, of a turn is kept; what lies between is left out."""


@dataclass(frozen=True, slots=True)
class Attempt:
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
class _Turn:
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


def attempts(lines: Iterable[bytes]) -> Iterator[Attempt]:
    """Yield the attempts of a session, in order; a line that is unknown, torn or not JSON is passed over."""
    dialect: Dialect | None = None
    turn: _Turn | None = None
    folder, n = "", 0
    for line in lines:
        dialect = dialect or dialect_of(line)
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
        turn = _Turn(n, said, said.folder or folder, line, marked=marks(line))
        n += 1
    if turn and dialect:
        yield from _attempt(turn, dialect, None)


def _attempt(turn: _Turn, dialect: Dialect, reaction: str | None) -> Iterator[Attempt]:
    """Yield the attempt that a turn is, if a skill was opened in it."""
    if not turn.marked:
        return
    lines = b"".join((*turn.head, *turn.tail)).decode("utf-8", "replace")
    events = dialect.read(lines)
    messages = _foreign(events, torn=turn.n_left_out > 0)
    if turn.n_left_out:
        messages.insert(0, Message("system", f"[{turn.n_left_out} lines in the middle of this turn are left out]"))
    uses = tuple(uses_in((turn.first.decode("utf-8", "replace"), lines), messages))
    if not uses or is_own_work(messages):
        return
    answers = [message for message in messages if message.role == "assistant" and message.name is None]
    answer = answers[-1].content if answers else ""
    recorded = self_recorded(events.messages)
    yield Attempt(turn.index, turn.said.text, turn.folder, tuple(messages), answer, reaction, uses, recorded)


def _foreign(events: AgentEvents, *, torn: bool) -> list[Message]:
    """Return the messages without the calls of our own tools: they speak about tasks, and may hold held-out ones.

    In a torn turn an answer whose call is left out may be one of theirs.
    """
    return [
        message
        for message in events.messages
        if message.role not in (TOOL_CALL, "tool") or not (OWN_TOOL.fullmatch(message.name) if message.name else torn)
    ]
