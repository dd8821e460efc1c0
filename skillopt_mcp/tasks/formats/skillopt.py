"""SkillOpt rows: questions with answers, and the folders of train, val and test that SkillOpt keeps them in."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.tasks import QUESTION, QUESTION_ENDING, SPLITS, NewTask, Split
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.tasks.formats.json_rows import Repeated
from skillopt_mcp.tasks.formats.registry import list_suffixes, read_rows, show_path
from skillopt_mcp.tasks.formats.rows import parse_group, parse_task
from skillopt_mcp.tasks.judges.judging import check_judge
from skillopt_mcp.tasks.judges.kinds.overlap import F1

# What SkillOpt's loaders call the splits.
ALIASES: dict[str, Split] = {
    "train": "train", "val": "val", "test": "test", "valid_seen": "val", "selection": "val", "valid_unseen": "test",
}  # fmt: skip
_OTHERS_CALL_VAL = ("dev", "eval", "valid", "validation")
DEFAULT_TYPE = "qa"
_ANSWERS = ("answers", "answer", "ground_truth")
_FIELDS = frozenset({"id", "question", "context", "task_type", "task_description", "split", "group", *_ANSWERS})


def parse_split(name: str) -> Split:
    """Find the split that SkillOpt or this program calls so. Raises BadInput naming the nearest."""
    if name in ALIASES:
        return ALIASES[name]
    near = "val" if name in _OTHERS_CALL_VAL else difflib.get_close_matches(name, SPLITS, n=1, cutoff=0.0)[0]
    raise BadInput(f"unknown split {quoted(name)}: did you mean {quoted(near)}? Use {', '.join(SPLITS)}")


def read_splits(folder: Path) -> dict[Split, list[object]]:
    """Read the rows of a folder that holds train, val and test, each a folder or a file of rows.

    Raises BadInput when a split is missing or unknown, comes twice, or cannot be read.
    """
    places: dict[Split, Path] = {}
    for path in _list_entries(folder):
        if path.name.startswith(".") or not (path.is_dir() or path.suffix in list_suffixes()):
            continue
        split = parse_split(path.name if path.is_dir() else path.stem)
        if split in places:
            raise BadInput(
                f"{show_path(folder)} has the split '{split}' twice: '{places[split].name}' and '{path.name}'"
            )
        places[split] = path
    missing = [split for split in SPLITS if split not in places]
    if missing:
        raise BadInput(f"{show_path(folder)} has no '{missing[0]}': a folder of splits holds train, val and test")
    rows = dict[Split, list[object]]()
    for split in SPLITS:
        files = [places[split]]
        if files[0].is_dir():
            inside = _list_entries(files[0])
            files = [each for each in inside if each.suffix in list_suffixes() and not each.name.startswith(".")]
        if not files:
            raise BadInput(f"{show_path(places[split])} holds no rows: put a {', '.join(list_suffixes())} file into it")
        rows[split] = [row for each in files for row in read_rows(each)]
    return rows


def _list_entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise BadInput(f"{show_path(folder)} cannot be read ({error.strerror}): name a folder of splits") from error


def is_question(item: object) -> bool:
    """Whether a row is one of a question answering data set. Raises BadInput where a key comes twice in it."""
    if isinstance(item, Repeated):
        raise BadInput(
            f"the key {quoted(item.key)} comes twice in one object, and JSON would keep the last: leave one out"
        )
    return isinstance(item, Mapping) and "question" in item and "judge" not in item


def parse_question(item: Mapping[str, object], split: Split | None = None) -> NewTask:
    """Make the task of a row {question, answers, context?, task_type?, id?}. Raises BadInput with what to change.

    Hard is exact match and soft the token F1, both as SQuAD normalises them. The prompt never holds an answer field.
    """
    unknown = sorted(str(name) for name in item if name not in _FIELDS)
    if unknown:
        raise BadInput(f"unknown field {quoted(unknown[0])}: a question has {', '.join(sorted(_FIELDS))}")
    question = _read_text(item, "question")
    if not question.strip():
        raise BadInput("the question is empty: say what is asked")
    context = _read_text(item, "context")
    parts = [f"Context:\n{context}"] if context.strip() else []
    given = next((item[name] for name in _ANSWERS if item.get(name) not in (None, "", [])), None)
    if isinstance(given, str) and given.lstrip().startswith("["):
        # A cell of a table holds a list as JSON, or it is the text itself.
        with suppress(ValueError, RecursionError):
            value = json.loads(given)
            given = value if isinstance(value, list) else given
    texts = [given] if isinstance(given, str | int | float) else given
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(each, str | int | float) for each in texts):
        raise BadInput("the question has no answers: give answers, a list of texts any one of which is right")
    answers = [storable(str(each)) for each in texts]
    judge = F1(expected=answers[0] if len(answers) == 1 else answers, exact=True)
    check_judge(judge)
    name = item.get("id")
    return NewTask(
        prompt=storable("\n\n".join([*parts, f"{QUESTION}{question}", QUESTION_ENDING])),
        judge=judge,
        name=storable(str(name)) if name not in (None, "") else None,
        split=split,
        tags=(storable(_read_text(item, "task_type")) or DEFAULT_TYPE,),
        group=parse_group(item.get("group")),
    )


def _read_text(item: Mapping[str, object], name: str) -> str:
    value = item.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"{name} must be a text")
    return value


def parse_row(value: object) -> NewTask:
    """Read the task of a decoded row: a task, or a question of a data set. Raises BadInput."""
    if is_question(value):
        row = cast(Mapping[str, object], value)
        split = row.get("split")
        return parse_question(row, parse_split(str(split)) if split is not None else None)
    return parse_task(value)


def read_data_set(path: Path, *, has_splits: bool = False) -> list[object]:
    """Read the rows of a file, or of a folder that holds a file or folder for each split, which the rows are given.

    Raises BadInput, also where a row names another split.
    """
    if not has_splits:
        return read_rows(path)
    found = list[object]()
    for split, rows in read_splits(path).items():
        for n, row in enumerate(rows, 1):
            own = row.get("split") if isinstance(row, Mapping) else None
            if own is not None and (not isinstance(own, str) or ALIASES.get(own) != split):
                raise BadInput(
                    f"row {n} in {split} has the split {quoted(str(own))}: leave its split out; nothing was added"
                )
            found.append({**row, "split": split} if isinstance(row, Mapping) else row)
    return found
