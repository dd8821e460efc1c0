"""Rows: JSON, JSON lines and CSV files of data sets, one by one or in the folders train, val and test."""

from __future__ import annotations

import csv
import difflib
import io
import stat
from pathlib import Path
from typing import BinaryIO, cast

from skillopt_mcp import limits
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.environments.decoding import decoded, whole
from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.tasks import SPLITS, Split

SUFFIXES = (".json", ".jsonl", ".csv")
# What SkillOpt's loaders call the splits.
ALIASES: dict[str, Split] = {
    "train": "train", "val": "val", "test": "test", "valid_seen": "val", "selection": "val", "valid_unseen": "test",
}  # fmt: skip
_OTHERS_CALL_VAL = ("dev", "eval", "valid", "validation")
SHOWN = 350
_BAD_SHOWN = 20
_WRITTEN_AS_JSON = frozenset({"judge", "tags", "files"})


def split_named(name: str) -> Split:
    """Return the split that SkillOpt or this program calls so. Raises BadInput naming the nearest."""
    if name in ALIASES:
        return ALIASES[name]
    near = "val" if name in _OTHERS_CALL_VAL else difflib.get_close_matches(name, SPLITS, n=1, cutoff=0.0)[0]
    raise BadInput(f"unknown split {quoted(name)}: did you mean {quoted(near)}? Use {', '.join(SPLITS)}")


def read_splits(folder: Path) -> dict[Split, list[object]]:
    """Return the rows of a folder that holds train, val and test, each a folder or a file of rows.

    Raises BadInput when a split is missing or unknown, comes twice, or cannot be read.
    """
    places: dict[Split, Path] = {}
    for path in _entries(folder):
        if path.name.startswith(".") or not (path.is_dir() or path.suffix in SUFFIXES):
            continue
        split = split_named(path.name if path.is_dir() else path.stem)
        if split in places:
            raise BadInput(f"{_shown(folder)} has the split '{split}' twice: '{places[split].name}' and '{path.name}'")
        places[split] = path
    missing = [split for split in SPLITS if split not in places]
    if missing:
        raise BadInput(f"{_shown(folder)} has no '{missing[0]}': a folder of splits holds train, val and test")
    return {split: _rows_at(places[split]) for split in SPLITS}


def read_rows(path: Path) -> list[object]:
    """Return the rows of a file: a JSON list, JSON lines, or CSV with a header. Raises BadInput naming the bad line."""
    text = _text(path)
    return _table(text, path) if path.suffix == ".csv" else _rows_in(text, _shown(path))


def read_stream(stream: BinaryIO) -> list[object]:
    """Return the rows of standard input: a JSON list, or JSON lines. Raises BadInput naming the bad line."""
    where = "the standard input"
    content = stream.read(limits.TASK_FILE_BYTES + 1)
    if len(content) > limits.TASK_FILE_BYTES:
        raise BadInput(f"{where} has more than {limits.TASK_FILE_BYTES:,} bytes: split it")
    try:
        return _rows_in(content.decode("utf-8-sig"), where)
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} is not UTF-8 at byte {error.start}: give it as UTF-8") from error


def _rows_in(text: str, where: str) -> list[object]:
    if text.lstrip().startswith("["):
        return cast(list[object], _decoded(text, where))
    rows, bad = list[object](), list[int]()
    first: Exception | None = None
    for n, line in enumerate(text.split("\n"), 1):
        try:
            rows += [decoded(line)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            first = first or error
            bad.append(n)
            if len(bad) > _BAD_SHOWN:
                break
    if first:
        more = " and more" if len(bad) > _BAD_SHOWN else ""
        others = f", nor line {', '.join(map(str, bad[1:_BAD_SHOWN]))}{more}" if len(bad) > 1 else ""
        raise _not_json(f"{where} line {bad[0]}", first, others) from first
    return rows


def _rows_at(path: Path) -> list[object]:
    if not path.is_dir():
        return read_rows(path)
    files = [each for each in _entries(path) if each.suffix in SUFFIXES and not each.name.startswith(".")]
    if not files:
        raise BadInput(f"{_shown(path)} holds no rows: put a {', '.join(SUFFIXES)} file into it")
    return [row for each in files for row in read_rows(each)]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise BadInput(f"{_shown(folder)} cannot be read ({error.strerror}): name a folder of splits") from error


def _text(path: Path) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{_shown(path)} is not a regular file: name a .json, .jsonl or .csv file")
        if status.st_size > limits.TASK_FILE_BYTES:
            raise BadInput(
                f"{_shown(path)} has {status.st_size:,} bytes, {limits.TASK_FILE_BYTES:,} are allowed: split it"
            )
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{_shown(path)} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can be called so"
        raise BadInput(f"{_shown(path)} cannot be read ({why}): check the path") from error


def _decoded(text: str, where: str) -> object:
    try:
        value = decoded(text)
    except (ValueError, RecursionError) as error:
        raise _not_json(where, error) from error
    return value


def _not_json(where: str, error: Exception, others: str = "") -> BadInput:
    return BadInput(
        f"{where} is not JSON ({error}){others}: a file is one list, or one object a line; nothing was added"
    )


def _table(text: str, path: Path) -> list[object]:
    """Return a CSV file's rows as objects; an empty cell is no field."""
    head = text.partition("\n")[0]
    for mark, called in ((";", "semicolons"), ("\t", "tabs")):
        if mark in head and "," not in head:
            raise BadInput(f"{_shown(path)} separates its columns by {called}: save it with commas; nothing was added")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise BadInput(f"{_shown(path)} line {reader.line_num} is not CSV ({error}); nothing was added") from error
    for n, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise BadInput(f"{_shown(path)} row {n} has not as many cells as the header; nothing was added")
    return [whole({name: _cell(name, text) for name, text in row.items() if text != ""}) for row in rows]


def _cell(name: str, text: str) -> object:
    """Return a cell's value: what is no text in a task is written as JSON."""
    if name not in _WRITTEN_AS_JSON:
        return text
    try:
        return decoded(text)
    except (ValueError, RecursionError):
        return text


def _shown(path: Path) -> str:
    text = str(path)
    return f"'{text if len(text) <= SHOWN else text[:SHOWN] + '...'}'"
