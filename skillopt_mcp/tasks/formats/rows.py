"""Rows: task rows from JSON, JSON lines and CSV; a row in which a key comes twice is refused."""

from __future__ import annotations

import csv
import difflib
import io
import json
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from skillopt_mcp.core import limits
from skillopt_mcp.core.calls import storable
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.tasks import QUESTION, QUESTION_ENDING, SPLITS, NewTask, Split
from skillopt_mcp.core.text import quoted
from skillopt_mcp.tasks.judges.judging import check_judge
from skillopt_mcp.tasks.judges.kinds.overlap import F1


class Repeated(NamedTuple):
    """A row that is none: in it, or in what it holds, this key comes twice."""

    key: str


def decoded(text: str) -> object:
    """Return the value of a JSON text, each object with a key that comes twice as `Repeated`. Raises ValueError."""
    return json.loads(text, object_pairs_hook=_object)


def whole(row: Mapping[str, object]) -> Mapping[str, object] | Repeated:
    """Return a row, or what is wrong within one of its values."""
    return next((found for value in row.values() if (found := _repeated(value))), row)


def _object(pairs: list[tuple[str, object]]) -> Mapping[str, object] | Repeated:
    made = dict(pairs)
    if len(made) == len(pairs):
        return whole(made)
    [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
    return Repeated(name)


def _repeated(value: object) -> Repeated | None:
    # Not by recursion: what a decoder reads may nest deeper than that goes.
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, Repeated):
            return each
        if isinstance(each, list):
            left += each
    return None


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
    """Return a CSV file's rows as objects; an empty cell is left out."""
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
    """Return a cell's value: in a task, other types than text are written as JSON."""
    if name not in _WRITTEN_AS_JSON:
        return text
    try:
        return decoded(text)
    except (ValueError, RecursionError):
        return text


def _shown(path: Path) -> str:
    text = str(path)
    return f"'{text if len(text) <= SHOWN else text[:SHOWN] + '...'}'"


DEFAULT_TYPE = "qa"
_ANSWERS = ("answers", "answer", "ground_truth")
_FIELDS = frozenset({"id", "question", "context", "task_type", "task_description", "split", "group", *_ANSWERS})


def is_question(item: object) -> bool:
    """Return whether a row is one of a question answering data set. Raises BadInput where a key comes twice in it."""
    if isinstance(item, Repeated):
        raise BadInput(
            f"the key {quoted(item.key)} comes twice in one object, and JSON would keep the last: leave one out"
        )
    return isinstance(item, Mapping) and "question" in item and "judge" not in item


def question_task(item: Mapping[str, object], split: Split | None = None) -> NewTask:
    """Return the task of a row {question, answers, context?, task_type?, id?}. Raises BadInput with what to change.

    Hard is exact match and soft the token F1, both as SQuAD normalises them. The prompt never holds an answer field.
    """
    unknown = sorted(str(name) for name in item if name not in _FIELDS)
    if unknown:
        raise BadInput(f"unknown field {quoted(unknown[0])}: a question has {', '.join(sorted(_FIELDS))}")
    question = _text_items(item, "question")
    if not question.strip():
        raise BadInput("the question is empty: say what is asked")
    context = _text_items(item, "context")
    parts = [f"Context:\n{context}"] if context.strip() else []
    judge = F1(expected=_answers(item), exact=True)
    check_judge(judge)
    name = item.get("id")
    return NewTask(
        prompt=storable("\n\n".join([*parts, f"{QUESTION}{question}", QUESTION_ENDING])),
        judge=judge,
        name=storable(str(name)) if name not in (None, "") else None,
        split=split,
        tags=(storable(_text_items(item, "task_type")) or DEFAULT_TYPE,),
        group=parse_group(item.get("group")),
    )


def parse_group(value: object) -> str:
    """Return the group of a task, "" for none. Raises BadInput where it is no text, or too long."""
    if not isinstance(value, str | None) or len(value or "") > limits.GROUP_CHARACTERS:
        raise BadInput(f"group must be a text of up to {limits.GROUP_CHARACTERS} characters")
    return storable(value or "")


def _answers(item: Mapping[str, object]) -> str | list[str]:
    given = next((item[name] for name in _ANSWERS if item.get(name) not in (None, "", [])), None)
    if isinstance(given, str) and given.lstrip().startswith("["):
        given = _listed(given)
    texts = [given] if isinstance(given, str | int | float) else given
    if isinstance(texts, Sequence) and texts and all(isinstance(each, str | int | float) for each in texts):
        answers = [storable(str(each)) for each in texts]
        return answers[0] if len(answers) == 1 else answers
    raise BadInput("the question has no answers: give answers, a list of texts any one of which is right")


def _listed(text: str) -> object:
    """Return the list that a cell of a table holds as JSON, or the text itself when it is none."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, list) else text


def _text_items(item: Mapping[str, object], name: str) -> str:
    value = item.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"{name} must be a text")
    return value


def check_left(name: str, offered: Sequence[NewTask], left: Sequence[NewTask], stored: Mapping[str, Split]) -> None:
    """Raise BadInput when the tasks that are left of those that the environment offered cannot be trained on.

    `stored` is the split of each task that is there already, by its digest.
    """
    _check_names(name, left)
    splits = dict(stored)
    for task in left:
        splits.setdefault(task.digest, cast(Split, task.split))
    if "train" not in {splits[task.digest] for task in left}:
        n = sum(task.split == "train" for task in offered)
        elsewhere = [splits[task.digest] for task in left if task.split == "train"]
        why = [f"{n - len(elsewhere):,} were retired"] if n > len(elsewhere) else []
        if elsewhere:
            there = " and ".join(sorted(set(elsewhere)))
            why.append(f"{len(elsewhere):,} are {there} tasks already (the same prompt, judge and files)")
        raise BadInput(
            f"none of the {n:,} train tasks of the environment {quoted(name)} can be used: {', '.join(why)}. "
            "A run learns from train tasks: let the environment give others, which no other split has"
        )


def _check_names(name: str, tasks: Sequence[NewTask]) -> None:
    """Raise BadInput when two tasks have one name: the store could keep only the first."""
    first: dict[str, NewTask] = {}
    for task in tasks:
        if task.name and first.setdefault(task.name, task).digest != task.digest:
            other = first[task.name].split
            place = f"two {task.split} tasks" if other == task.split else f"a {other} task and a {task.split} task"
            way = "" if other == task.split else f", for instance {quoted(f'{task.split}-{task.name}')}"
            raise BadInput(
                f"the environment {quoted(name)} calls {place} {quoted(task.name)}: give each a name of its own{way}"
            )
