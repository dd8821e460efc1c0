"""Attempts: a session cut at what a person says; each turn in which a skill was opened is an attempt with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from skillopt_mcp.backends.agents.telling import Told
from skillopt_mcp.limits import MIB
from skillopt_mcp.records.calls import TOOL_CALL, Message
from skillopt_mcp.transcripts.dialects import Dialect, Said, dialect_of
from skillopt_mcp.transcripts.marks import marks
from skillopt_mcp.transcripts.records import NOTHING, OWN_TOOL, SelfRecorded, self_recorded
from skillopt_mcp.transcripts.uses import Use, is_own_work, uses_in

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
            continue  # told twice, as an older and a newer event
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
    told = dialect.read(lines)
    messages = _foreign(told, torn=turn.n_left_out > 0)
    if turn.n_left_out:
        messages.insert(0, Message("system", f"[{turn.n_left_out} lines in the middle of this turn are left out]"))
    uses = tuple(uses_in((turn.first.decode("utf-8", "replace"), lines), messages))
    if not uses or is_own_work(messages):
        return
    answers = [message for message in messages if message.role == "assistant" and message.name is None]
    answer = answers[-1].content if answers else ""
    recorded = self_recorded(told.messages)
    yield Attempt(turn.index, turn.said.text, turn.folder, tuple(messages), answer, reaction, uses, recorded)


def _foreign(told: Told, *, torn: bool) -> list[Message]:
    """Return the messages without the calls of our own tools: they speak about tasks, and may hold held-out ones.

    In a torn turn an answer whose call is left out may be one of theirs.
    """
    return [
        message
        for message in told.messages
        if message.role not in (TOOL_CALL, "tool") or not (OWN_TOOL.fullmatch(message.name) if message.name else torn)
    ]
