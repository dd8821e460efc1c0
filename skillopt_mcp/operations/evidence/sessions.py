"""Sessions: the files in which hosts keep their transcripts: where they lie, what they are called, and their lines."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.limits import MIB

LINE_BYTES = 16 * MIB
"""The longest line that is read; longer ones hold pictures, and are passed over."""

_CHUNK_BYTES = MIB
_ENDINGS = (".jsonl", ".jsonl.zst")
_CODEX_NAME = re.compile(r"rollout-[\dT-]+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def session_folders(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders in which Claude Code and Codex keep their sessions; they need not exist."""
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    return [claude / "projects", codex / "sessions", codex / "archived_sessions"]


def session_files(paths: Iterable[Path]) -> list[Path]:
    """Return the transcripts at these paths, files or folders, in order. Raises BadInput for a path that is neither."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_file():
            found[path] = None
        elif path.is_dir():
            found |= dict.fromkeys(_below(path))
        else:
            raise BadInput(
                f"{quoted(str(path))} is neither a file nor a folder: name a transcript, or a folder of some"
            )
    return list(found)


def companions(path: Path) -> list[Path]:
    """Return the transcripts of the sub-agents that a session of Claude Code had."""
    return sorted((path.with_suffix("") / "subagents").glob("*.jsonl"))


def session_id(path: Path) -> str:
    """Return the id of the session that a transcript holds: that of its name, so that each reading finds the same."""
    name = path.name.removesuffix(".zst").removesuffix(".jsonl")
    codex = _CODEX_NAME.fullmatch(name)
    return codex[1] if codex else name


def lines_of(path: Path, advance: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the lines of a transcript, packed or plain; `advance` hears how many bytes of the file were read.

    Raises BadInput when a packed file is damaged, OSError when a file cannot be read.
    """
    with path.open("rb", buffering=_CHUNK_BYTES) as file:
        told = 0
        for n, line in enumerate(_packed_lines(file) if path.name.endswith(".zst") else _lines(file)):
            if n % 256 == 0:
                at = file.tell()
                advance(at - told)
                told = at
            yield line
        advance(file.tell() - told)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield whole lines; of one that is too long, nothing."""
    too_long = False
    while line := file.readline(LINE_BYTES):
        ended = line.endswith(b"\n")
        if not too_long and (ended or len(line) < LINE_BYTES):
            yield line
        too_long = not ended


def _packed_lines(file: BinaryIO) -> Iterator[bytes]:
    # Loaded for a packed file only: a hook has to end in a moment.
    import zstandard  # noqa: PLC0415

    reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=False)
    try:
        yield from _lines(io.BufferedReader(reader, _CHUNK_BYTES))
    except zstandard.ZstdError as error:
        raise BadInput(f"the packed transcript is damaged ({error}): what came before the damage was read") from error


def _below(folder: Path) -> Iterator[Path]:
    for inner, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(_ENDINGS):
                yield Path(inner) / name
