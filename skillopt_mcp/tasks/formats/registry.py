"""Registry: the formats of task files, and the file or stream that is read or written in one of them."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from skillopt_mcp.core import limits
from skillopt_mcp.core.errors import BadInput

MAX_PATH_SHOWN = 350
# A file of an unknown suffix, and standard input, are read and written as one of this suffix is.
_DEFAULT_SUFFIX = ".jsonl"

Read = Callable[[str, str], list[object]]
Write = Callable[[Sequence[Mapping[str, object]]], str]


@dataclass(frozen=True, slots=True)
class TaskFormat:
    """A format of task files: its name in help, its suffixes, and what reads and writes it."""

    name: str
    suffixes: tuple[str, ...]
    detect: Callable[[str], bool] | None
    read: Read
    write: Write | None


FORMATS: list[TaskFormat] = []


def task_format(
    name: str, suffixes: tuple[str, ...], *, detect: Callable[[str], bool] | None = None, write: Write | None = None
) -> Callable[[Read], Read]:
    """Register the decorated function as what reads a format: (text, where) -> rows; it raises BadInput naming `where`.

    A row is an object as `tasks add` takes it inline, or a NewTask. `detect` says whether a text is of this format,
    where others have the suffix too. `write` gives the text of stored tasks; None: they are written as JSON lines.
    """

    def register(read: Read) -> Read:
        FORMATS.append(TaskFormat(name, suffixes, detect, read, write))
        return read

    return register


def list_suffixes() -> tuple[str, ...]:
    """The suffixes of all formats, each once."""
    return tuple(dict.fromkeys(suffix for each in FORMATS for suffix in each.suffixes))


def join_names(names: Sequence[str]) -> str:
    """Names as "a, b or c"."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def read_rows(path: Path) -> list[object]:
    """Read the rows of a file in the format of its suffix and text. Raises BadInput naming the bad line."""
    text = _read_text(path)
    return _choose_format(path.suffix, text).read(text, show_path(path))


def read_stream(stream: BinaryIO) -> list[object]:
    """Read the rows of standard input: a JSON list, or JSON lines. Raises BadInput naming the bad line."""
    where = "the standard input"
    content = stream.read(limits.TASK_FILE_BYTES + 1)
    if len(content) > limits.TASK_FILE_BYTES:
        raise BadInput(f"{where} has more than {limits.TASK_FILE_BYTES:,} bytes: split it")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} is not UTF-8 at byte {error.start}: give it as UTF-8") from error
    return _choose_format("", text).read(text, where)


def write_rows(rows: Sequence[Mapping[str, object]], suffix: str = "") -> str:
    """Write stored tasks, as rows, in the format of a file's suffix; JSON lines where that writes none."""
    # Of those with one suffix, the one that is not detected is the common one.
    by_use = sorted(FORMATS, key=lambda each: each.detect is None)
    writers = {end: each.write for each in by_use if each.write for end in each.suffixes}
    return writers.get(suffix, writers[_DEFAULT_SUFFIX])(rows)


def show_path(path: Path) -> str:
    """A path in quotes, as errors name it, without its end where it is very long."""
    text = str(path)
    return f"'{text if len(text) <= MAX_PATH_SHOWN else text[:MAX_PATH_SHOWN] + '...'}'"


def _choose_format(suffix: str, text: str) -> TaskFormat:
    """Choose of the formats with the suffix the first that detects the text, else the first without `detect`."""
    suffix = suffix if suffix in list_suffixes() else _DEFAULT_SUFFIX
    named = [each for each in FORMATS if suffix in each.suffixes]
    detected = [each for each in named if each.detect and each.detect(text)]
    return [*detected, *(each for each in named if each.detect is None), *named][0]


def _read_text(path: Path) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{show_path(path)} is not a regular file: name a {join_names(list_suffixes())} file")
        if status.st_size > limits.TASK_FILE_BYTES:
            raise BadInput(
                f"{show_path(path)} has {status.st_size:,} bytes, {limits.TASK_FILE_BYTES:,} are allowed: split it"
            )
        return path.read_bytes().decode("utf-8-sig")  # with the line ends as they are in cells
    except UnicodeDecodeError as error:
        raise BadInput(f"{show_path(path)} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can be called so"
        raise BadInput(f"{show_path(path)} cannot be read ({why}): check the path") from error
