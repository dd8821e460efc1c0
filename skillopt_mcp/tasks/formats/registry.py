"""Registry: the formats of task files, and the file or stream that is read or written in one of them."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from skillopt_mcp.core import limits
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.text import on_line

MAX_PATH_SHOWN = 350
# A file of an unknown suffix, and standard input, are read as one of this suffix is.
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


def read_rows(source: Path | BinaryIO) -> list[object]:
    """Read the rows of a file in the format of its suffix and text, or of standard input as those of an unknown suffix.

    Raises BadInput naming the bad line.
    """
    where, suffix = (show_path(source), source.suffix) if isinstance(source, Path) else ("the standard input", "")
    text = read_text(source)

    # Of the formats with the suffix it is the first that detects the text, else the first without `detect`.
    suffix = suffix if suffix in list_suffixes() else _DEFAULT_SUFFIX
    named = [each for each in FORMATS if suffix in each.suffixes]
    detected = [each for each in named if each.detect and each.detect(text)]
    return [*detected, *(each for each in named if each.detect is None), *named][0].read(text, where)


def read_text(source: Path | BinaryIO) -> str:
    """Read the text of a file or stream. Raises BadInput where it is none, or larger than a file of tasks may be."""
    where = show_path(source) if isinstance(source, Path) else "the standard input"
    try:
        if isinstance(source, Path):
            status = source.stat()
            if not stat.S_ISREG(status.st_mode):
                raise BadInput(f"{where} is not a regular file: name a {join_names(list_suffixes())} file")
            is_yaml = source.suffix in (".yaml", ".yml")
            if status.st_size > (most := limits.YAML_BYTES if is_yaml else limits.TASK_FILE_BYTES):
                raise BadInput(
                    f"{where} has {status.st_size:,} bytes, {most:,} are allowed{' for YAML' * is_yaml}: split it"
                )
            content = source.read_bytes()
        else:
            content = source.read(limits.TASK_FILE_BYTES + 1)
            if len(content) > limits.TASK_FILE_BYTES:
                raise BadInput(f"{where} has more than {limits.TASK_FILE_BYTES:,} bytes: split it")
        return content.decode("utf-8-sig")  # with the line ends as they are in cells
    except UnicodeDecodeError as error:
        verb = "save" if isinstance(source, Path) else "give"
        raise BadInput(f"{where} is not UTF-8 at byte {error.start}: {verb} it as UTF-8") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can be called so"
        raise BadInput(f"{where} cannot be read ({why}): check the path") from error


def write_rows(rows: Sequence[Mapping[str, object]], suffix: str = "") -> str:
    """Write stored tasks, as rows, in the format of a file's suffix; JSON lines where that writes none."""
    # Of those with one suffix, the one that is not detected is the common one.
    by_use = sorted(FORMATS, key=lambda each: each.detect is None)
    write = next((each.write for each in reversed(by_use) if suffix in each.suffixes), None)
    return write(rows) if write else "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def show_path(path: Path) -> str:
    """A path in quotes, as errors name it, without its end where it is very long."""
    text = on_line(str(path))
    return f"'{text if len(text) <= MAX_PATH_SHOWN else text[:MAX_PATH_SHOWN] + '...'}'"
