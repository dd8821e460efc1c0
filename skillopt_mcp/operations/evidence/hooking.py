"""Hooking: what a host's hook tells of a session, and whether that may be worth recording; light, for hosts wait."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.evidence.sessions import companions, lines_of
from skillopt_mcp.transcripts.marks import marks

END = "SessionEnd"
EVENTS = ("Stop", END)
"""The events of Claude Code and Codex on which a session is read."""
_STORE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class HookEvent:
    """What a hook is told on its standard input; what it is not told is empty."""

    transcript_path: str = ""
    cwd: str = ""
    hook_event_name: str = ""

    @property
    def has_ended(self) -> bool:
        """Return whether the session is over."""
        return self.hook_event_name == END


def parse_event(text: bytes) -> HookEvent:
    """Return what the hook was told. Raises BadInput when it is not an event of a hook."""
    try:
        # Not by pydantic, which takes longer to import than all that a hook mostly does.
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    values = [told.get(name) for name in HookEvent.__slots__] if isinstance(told, dict) else []
    if not values or not all(value is None or isinstance(value, str) for value in values):
        raise BadInput("standard input holds no event of a hook: a host runs this command, see --help")
    return HookEvent(*(value or "" for value in values))


def transcripts_of(event: HookEvent) -> list[Path]:
    """Return the transcripts that an event is about: that of the session, at its end those of its sub-agents, too.

    Raises BadInput where there is none to read.
    """
    if not event.transcript_path:
        raise BadInput("the hook names no transcript_path: nothing of this session is recorded")
    path = Path(os.path.expanduser(event.transcript_path))
    if not path.is_file():
        raise BadInput(f"the transcript '{path}' is not there: nothing of this session is recorded")
    return [path, *(companions(path) if event.has_ended else ())]


def may_record(store_path: Path, event: HookEvent) -> bool:
    """Return whether a skill may have been opened in what an event is about, or there is a problem that has to be told.

    That is a store that is none, and a transcript that cannot be read. Raises OSError when the store cannot be, and
    BadInput where there is no transcript.
    """
    transcripts = transcripts_of(event)
    if not store_path.exists():
        return False
    return not _is_database(store_path) or any(map(_may_hold_a_use, transcripts))


def _may_hold_a_use(path: Path) -> bool:
    try:
        return any(map(marks, lines_of(path, lambda _: None)))
    except (BadInput, OSError):
        return True


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_STORE)) in (_STORE, b"")
