"""SkillOpt rows: questions with answers, and the folders of train, val and test that SkillOpt keeps them in."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any, cast

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.tasks import QUESTION, QUESTION_ENDING, SPLITS, NewTask, Split, Task
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.tasks.formats.cases import Case, EvalOptions, Evals, Loss, decode, eval_format
from skillopt_mcp.tasks.formats.json_rows import Repeated
from skillopt_mcp.tasks.formats.registry import list_suffixes, read_rows, show_path
from skillopt_mcp.tasks.formats.rows import parse_group, parse_task
from skillopt_mcp.tasks.judges.judging import check_judge
from skillopt_mcp.tasks.judges.kinds.final_answer import FinalAnswer, as_label

# What SkillOpt's loaders call the splits.
ALIASES: dict[str, Split] = {
    "train": "train", "val": "val", "test": "test", "valid_seen": "val", "selection": "val", "valid_unseen": "test",
}  # fmt: skip
_OTHERS_CALL_VAL = ("dev", "eval", "valid", "validation")
DEFAULT_TYPE = "qa"
_CONTEXT = "Context:\n"
_ANSWERS = ("answers", "answer", "ground_truth")
_FIELDS = frozenset({
    "id", "question", "context", "task_type", "task_description", "split", "group", "choices", "correct_choice",
    *_ANSWERS,
})  # fmt: skip
# What SkillOpt's own environments need besides the rows.
_NEEDS: dict[str, Loss] = {
    "image_path": Loss("image_path", "needs files", "docvqa asks of an image"),
    "image": Loss("image", "needs files", "docvqa asks of an image"),
    "document_path:": Loss("document_path", "needs files", "docvqa asks of an image"),
    "source_files": Loss("source_files", "needs files", "officeqa searches documents"),
    "source_docs": Loss("source_docs", "needs files", "officeqa searches documents"),
    "answer_position": Loss("answer_position", "needs files", "spreadsheetbench compares workbooks"),
    "gamefile": Loss("gamefile", "runs code", "alfworld plays a game"),
}


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
        inside = _list_entries(places[split]) if places[split].is_dir() else [places[split]]
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
    """Make the task of a row {question, answers, choices?, context?, task_type?, id?}. Raises BadInput: what to change.

    Hard is exact match and soft the token F1, both as SQuAD normalises them, of the final answer. The prompt never
    holds an answer field.
    """
    unknown = sorted(str(name) for name in item if name not in _FIELDS)
    if unknown:
        raise BadInput(f"unknown field {quoted(unknown[0])}: a question has {', '.join(sorted(_FIELDS))}")
    question = _read_text(item, "question")
    if not question.strip():
        raise BadInput("the question is empty: say what is asked")
    context = _read_text(item, "context")
    parts = [f"{_CONTEXT}{context}"] if context.strip() else []
    choices = _read_choices(item.get("choices"))
    listed = [_list_choices(choices)] if choices else []
    given = next((item[name] for name in ("correct_choice", *_ANSWERS) if item.get(name) not in (None, "", [])), None)
    if isinstance(given, Mapping):
        given = given.get("label") or given.get("text")
    if isinstance(given, str) and given.lstrip().startswith("["):
        # A cell of a table holds a list as JSON, or it is the text itself.
        with suppress(ValueError, RecursionError):
            value = json.loads(given)
            given = value if isinstance(value, list) else given
    texts = [given] if isinstance(given, str | int | float) else given
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(each, str | int | float) for each in texts):
        raise BadInput("the question has no answers: give answers, a list of texts any one of which is right")
    answers = [storable(str(each)) for each in texts]
    if choices:
        # An answer is the text of a choice, or its label.
        labels = {text: label for label, text in choices.items()} | {as_label(label): label for label in choices}
        both = {text for label, text in choices.items() if labels.get(as_label(text), label) != label}
        found = [labels.get(text, labels.get(as_label(text))) for text in map(str.strip, answers)]
        if None in found or both.intersection(map(str.strip, answers)):
            raise BadInput(f"the answer {quoted(answers[0])} is not one of the choices: give its text or its label")
        answers = [label for label in found if label is not None]
    judge = FinalAnswer(expected=answers[0] if len(answers) == 1 else answers, choices=choices)
    check_judge(judge)
    name = item.get("id")
    return NewTask(
        prompt=storable("\n\n".join([*parts, f"{QUESTION}{question}", *listed, QUESTION_ENDING])),
        judge=judge,
        name=storable(str(name)) if name not in (None, "") else None,
        split=split,
        tags=(storable(_read_text(item, "task_type")) or DEFAULT_TYPE,),
        group=parse_group(item.get("group")),
    )


def _list_choices(choices: Mapping[str, str]) -> str:
    return "\n".join(f"{label}. {text}" for label, text in choices.items())


def _read_choices(value: object) -> dict[str, str]:
    """The texts of choices by their labels, which are A, B, ... where there are none. Raises BadInput."""
    if isinstance(value, Mapping):
        value = [{"label": label, "text": text} for label, text in value.items()]
    found = dict[str, str]()
    for each, letter in zip(value if isinstance(value, list) else [], ascii_uppercase, strict=False):
        label, text = (each.get("label") or letter, each.get("text")) if isinstance(each, Mapping) else (letter, each)
        found[storable(str(label)).strip()] = storable(str(text)).strip()
    if value and (not isinstance(value, list) or len(found) != len(value) or not all(found.values())):
        raise BadInput("choices must be up to 26 texts, each with a label of its own")
    return found


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


def _find_rows(folder: Path, split: Split) -> list[dict[str, Any]]:
    """The rows that SkillOpt loads of a split: of the first JSON file by name, else CSV. Raises BadInput."""
    entries = _list_entries(folder / split)
    files = [path for suffix in (".json", ".csv") for path in entries if path.suffix == suffix]
    if not files:
        raise BadInput(f"{show_path(folder / split)} holds no rows: put a .json file into it")
    rows = decode(files[0]) if files[0].suffix == ".json" else read_rows(files[0])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadInput(f"{show_path(files[0])} must be a list of objects")
    return cast(list[dict[str, Any]], rows)


def _detect(path: Path, value: object) -> bool:
    for split in SPLITS if value is None and path.is_dir() else ():
        with suppress(BadInput):
            for row in _find_rows(path, split)[:1]:
                return not {"question", "instruction", "gamefile", "mcq"}.isdisjoint(row)
    return False


def write_splits(tasks: Sequence[Task], path: Path) -> dict[Path, str]:
    """Write tasks with a final answer as SkillOpt's splits. Raises BadInput naming a task that is none."""
    rows: dict[Split, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for task in tasks:
        judge, asked = task.judge, task.prompt.removesuffix(f"\n\n{QUESTION_ENDING}")
        if not isinstance(judge, FinalAnswer) or asked == task.prompt or task.files:
            raise BadInput(f"the task {quoted(task.name)} is no question of SkillOpt's: leave it out")
        context, _, question = asked.partition(f"\n\n{QUESTION}") if asked.startswith(_CONTEXT) else ("", "", asked)
        question = question.removeprefix(QUESTION)
        row: dict[str, Any] = {"id": task.name, "question": question, "task_type": "".join(task.tags[:1])}
        if context:
            row["context"] = context.removeprefix(_CONTEXT)
        if judge.choices:
            row["question"] = question.removesuffix(f"\n\n{_list_choices(judge.choices)}")
            row["choices"] = [{"label": label, "text": text} for label, text in judge.choices.items()]
        rows[task.split].append(row | {"answers": judge.texts})
    return {
        path / split / "items.json": json.dumps(found, ensure_ascii=False, indent=2) for split, found in rows.items()
    }


@eval_format("skillopt", (".",), _detect, write_splits)
def read_skillopt(path: Path, _value: object, _how: EvalOptions) -> Evals:
    """Read SkillOpt's splits. A row that is there twice is one case; SkillOpt needs ids, which are made here."""
    rows = [(split, row) for split in SPLITS for row in _find_rows(path, split)]
    cases = list[Case]()
    for split, row in {json.dumps(each, sort_keys=True): each for each in rows}.values():
        row = row | row["mcq"] if isinstance(row.get("mcq"), Mapping) else row
        own = next((str(row[name]) for name in ("id", "uid", "questionId") if row.get(name) not in (None, "")), "")
        prompt = str(row.get("question") or row.get("instruction") or row.get("gamefile") or "")
        needed = [each for name, each in _NEEDS.items() if row.get(name) or (name in prompt and name[-1] == ":")]
        case = Case(own, prompt, split=split, lost=tuple(needed))
        try:
            task = parse_question({name: row[name] for name in _FIELDS & row.keys() - {"split", "group"}}, split)
            case = replace(case, prompt=task.prompt, judge=task.judge, tags=task.tags, asked=prompt)
        except BadInput as error:
            case = replace(case, lost=case.lost or (Loss("answers", "cannot be expressed", str(error)),))
        cases.append(case)
    return Evals("skillopt", cases)
