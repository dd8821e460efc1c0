"""Events of hooks: which transcripts they are about, and whether one may hold a use; imports next to nothing."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.limits import MIB

LINE_BYTES = 16 * MIB
"""The longest line that is read; longer ones hold pictures, and are passed over."""

_CHUNK_BYTES = MIB


_CALLED = re.compile(rb'"name"\s*:\s*"Skill"')


def marks(line: bytes) -> bool:
    """Whether a line may show that a skill was opened; cheap, with false positives."""
    is_shown = b"SKILL.md" in line or b"Base directory for this skill" in line or b"<command-name>" in line
    return is_shown or _CALLED.search(line) is not None


def lines_of(path: Path, advance: Callable[[int], None], start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield where each line of a transcript begins, packed or plain, and the line; `start` is one of a plain file.

    `advance` hears how many bytes of the file were read. Raises BadInput when a packed file is damaged or cut, OSError
    when a file cannot be read.
    """
    with path.open("rb", buffering=_CHUNK_BYTES) as file:
        n_read = start
        file.seek(start)
        for n, line in enumerate(_packed_lines(file) if path.name.endswith(".zst") else _lines(file, start)):
            if n % 256 == 0:
                at = file.tell()
                advance(at - n_read)
                n_read = at
            yield line
        advance(file.tell() - n_read)


def _lines(file: BinaryIO, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines; of one that is too long, nothing."""
    too_long, at = False, start
    while line := file.readline(LINE_BYTES):
        ended = line.endswith(b"\n")
        if not too_long and (ended or len(line) < LINE_BYTES):
            yield at, line
        too_long = not ended
        at += len(line)


def _packed_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    # Loaded for a packed file only: a hook has to end in a moment.
    import zstandard  # noqa: PLC0415

    reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=False)
    line = b""
    try:
        for at, line in _lines(io.BufferedReader(reader, _CHUNK_BYTES)):
            yield at, line
    except zstandard.ZstdError as error:
        raise BadInput(f"the packed transcript is damaged ({error}): what came before the damage was read") from error
    # A frame that is cut ends as one that is whole does, without an error.
    if not line.endswith(b"\n"):
        read = "what came before that was read" if line else "no line of it can be read"
        raise BadInput(f"the packed transcript is cut: {read}")


START, END = "SessionStart", "SessionEnd"
EVENTS = (START, "Stop", END)
"""The events of Claude Code and Codex: at the first a notice is shown, at the others the session is read."""
_STORE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class HookEvent:
    """What a hook reads on its standard input; a missing field is empty."""

    transcript_path: str = ""
    cwd: str = ""
    hook_event_name: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether the session is over."""
        return self.hook_event_name == END


def parse_event(text: bytes) -> HookEvent:
    """Return the event of a hook. Raises BadInput when it is not an event of a hook."""
    try:
        # Not by pydantic, which takes longer to import than all that a hook mostly does.
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        decoded = None
    values = [decoded.get(name) for name in HookEvent.__slots__] if isinstance(decoded, dict) else []
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
    return [path, *(sorted((path.with_suffix("") / "subagents").glob("*.jsonl")) if event.has_ended else ())]


def may_record(store_path: Path, event: HookEvent) -> bool:
    """Whether a skill may have been opened in what an event is about, or there is a problem to report.

    That is a store that is none, and a transcript that cannot be read. Raises OSError when the store cannot be, and
    BadInput where there is no transcript.
    """
    transcripts = transcripts_of(event)
    if not store_path.exists():
        return False
    with store_path.open("rb") as file:
        if file.read(len(_STORE)) not in (_STORE, b""):
            return True
    try:
        return any(marks(line) for path in transcripts for _, line in lines_of(path, lambda _: None))
    except (BadInput, OSError):
        return True
