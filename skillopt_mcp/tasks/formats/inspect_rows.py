"""inspect_ai's data sets: samples as JSON, JSON lines or CSV. The file does not say how they are scored."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.tasks import Task, TaskFile
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.tasks.formats.cases import Case, EvalOptions, Evals, Loss, eval_format, read_case_file
from skillopt_mcp.tasks.formats.registry import show_path
from skillopt_mcp.tasks.judges.kinds.scorer import SCORERS, Scorer, count_chosen, name_option, parse_scorer

_TABLES = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
# As the solver multiple_choice() asks: for one letter, and for several.
_ASKS = (
    "Answer the following multiple choice question. The entire content of your response should be of the following "
    "format: 'ANSWER: $LETTER' (without quotes) where LETTER is one of ",
    "Answer the following multiple choice question where multiple answers may be correct. The entire content of your "
    "response should be of the following format: 'ANSWER: $LETTERS' (without quotes) where LETTERS is one or more of ",
)


def _detect(path: Path, value: object) -> bool:
    rows: Sequence[object] = value if isinstance(value, list) else [value]
    if isinstance(value, str) and path.suffix.lower() in _TABLES:
        try:
            header = next(csv.reader([value.partition("\n")[0]], delimiter=_TABLES[path.suffix.lower()]), [])
        except csv.Error:
            return False
        rows = [dict.fromkeys(header)]
    has_input = any(isinstance(row, Mapping) and "input" in row for row in rows[:1])
    return has_input and any(isinstance(row, Mapping) and {"target", "choices"} & row.keys() for row in rows)


def write_inspect(tasks: Sequence[Task], path: Path) -> dict[Path, str]:
    """Write tasks that a scorer judges as samples, one JSON a line. Raises BadInput naming a task that is none."""
    lines = list[str]()
    for task in tasks:
        if not isinstance(task.judge, Scorer):
            raise BadInput(f"the task {quoted(task.name)} is judged by {task.judge.kind}: inspect has no such scorer")
        judge, row = task.judge, dict[str, Any](id=task.name, input=task.prompt, target=task.judge.target)
        if judge.choices:
            head, tail = _frame_question(judge.choices, multiple=judge.multiple)
            row |= {"input": task.prompt.removeprefix(head).removesuffix(tail), "choices": judge.choices}
        if task.files:
            row["files"] = {file.path: file.content for file in task.files}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return {path: "".join(lines)}


@eval_format("inspect", (), _detect, write_inspect)
def read_inspect(path: Path, value: Any, how: EvalOptions) -> Evals:
    """Read a data set. A row that is no sample, and an id that comes twice, refuse all of it, as its owner does."""
    if isinstance(value, str):
        value = _read_table(value, path)
    if how.scorer:
        parse_scorer(how.scorer)
    rows: list[Mapping[str, Any]] = value if isinstance(value, list) else [value]
    for n, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or not row.get("input") or row["input"] != row["input"]:
            raise BadInput(f"{show_path(path)} row {n} is no sample: it has no input")
    names = Counter(str(row["id"]) for row in rows if row.get("id") is not None)
    if twice := [name for name, n in names.items() if n > 1]:
        raise BadInput(f"{show_path(path)} has the id {', '.join(map(quoted, twice[:20]))} more than once")
    several = any(
        count_chosen(_read_texts(row.get("target")), len(_read_choices(row.get("choices")))) > 1 for row in rows
    )
    return Evals("inspect", [_read_sample(path, row, how.scorer, several=several) for row in rows])


def _read_table(text: str, path: Path) -> list[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=_TABLES[path.suffix.lower()])
    rows = list[dict[str, Any]]()
    try:
        for row in reader:
            if None in row or None in row.values():
                raise BadInput(f"{show_path(path)} line {reader.line_num} has not as many cells as the header")
            if any(cell.strip() for cell in row.values()):
                rows.append({name: cell for name, cell in row.items() if cell or name in ("input", "target")})
    except csv.Error as error:
        raise BadInput(f"{show_path(path)} line {reader.line_num} is not CSV ({error})") from error
    return rows


def _read_sample(path: Path, row: Mapping[str, Any], scorer: str, *, several: bool) -> Case:
    lost = list[Loss]()
    asked, head = _read_input(row["input"], lost)
    prompt = asked
    choices, target, judge = _read_choices(row.get("choices")), _read_texts(row.get("target")), None
    if not scorer:
        lost.append(Loss("scorer", "says nothing", f"the file names none; give one with --scorer: {SCORERS}"))
    elif (name := parse_scorer(scorer)[0]) == "choice" and not choices:
        lost.append(Loss(scorer, "cannot be expressed", "the sample has no choices"))
    elif not any(each.strip() for each in ([target] if isinstance(target, str) else target)):
        lost.append(Loss(scorer, "says nothing", "the sample has no target"))
    else:
        asks: dict[str, Any] = {"choices": choices, "multiple": several} if name == "choice" else {}
        try:
            judge = Scorer(scorer=scorer, target=target, **asks)
            judge.check()
        except BadInput as error:
            judge = None
            lost.append(Loss(scorer, "cannot be expressed", str(error)))
        if asks:
            before, after = _frame_question(choices, multiple=several)
            prompt = f"{before}{prompt}{after}"
        elif choices:
            lost.append(Loss("choices", "says nothing", f"{scorer} does not show them; choice does", decides=False))
    if row.get("setup"):
        lost.append(Loss("setup", "runs code"))
    if row.get("sandbox"):
        lost.append(Loss("sandbox", "runs code", "it says where the sample's tools run", decides=False))
    files = _read_files(path.parent, row.get("files"), lost)
    own, content = row.get("id"), json.dumps(row, sort_keys=True, default=str)
    name = f"case-{sha256(content.encode()).hexdigest()[:8]}" if own in (None, "") else str(own)
    return Case(name, f"{head}{prompt}", judge, files, lost=tuple(lost), asked=f"{head}{asked}")


def _frame_question(choices: Sequence[str], *, multiple: bool) -> tuple[str, str]:
    """What stands before and after a question with choices."""
    names = [name_option(at) for at in range(len(choices))]
    listed = "\n".join(f"{name}) {choice}" for name, choice in zip(names, choices, strict=True))
    return f"{_ASKS[multiple]}{','.join(names)}.\n\n", f"\n\n{listed}"


def _read_input(value: object, lost: list[Loss]) -> tuple[str, str]:
    """The question of a text or of messages, and what stands before it."""
    if isinstance(value, str):
        return value, ""
    asked, head = list[str](), list[str]()
    for message in value if isinstance(value, list) else [None]:
        role, content = (message.get("role"), message.get("content")) if isinstance(message, Mapping) else (None, None)
        for part in [content] if isinstance(content, str) else content if isinstance(content, list) else [None]:
            text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else part
            if not isinstance(text, str):
                what = str(part.get("type", "part")) if isinstance(part, Mapping) else "input"
                lost.append(Loss(what, "cannot be expressed", "only text is asked"))
            elif role in ("user", "system"):
                (asked if role == "user" else head).append(text)
            else:
                lost.append(Loss("input", "cannot be expressed", f"a message of the role {quoted(str(role))}"))
    if head:
        lost.append(Loss("system", "cannot be expressed", "the message stands before the prompt", decides=False))
    return "\n\n".join(asked), "".join(f"{text}\n\n" for text in head)


def _read_texts(value: object) -> str | list[str]:
    if value is None or value != value:
        return ""
    return [storable(str(each)) for each in value] if isinstance(value, list) else storable(str(value))


def _read_choices(value: object) -> list[str]:
    if value is None or value != value:
        return []
    parts: Iterable[object] = value if isinstance(value, list) else [value]
    if isinstance(value, str):
        parts = [each.strip() for each in (value.split(",") if "," in value else value.split())]
    return [storable(str(each)) for each in parts if str(each).strip()]


def _read_files(root: Path, value: object, lost: list[Loss]) -> tuple[TaskFile, ...]:
    """The files of {path there: content, or path of the file with it}, as JSON or decoded."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            lost.append(Loss("files", "cannot be expressed", "they are no object"))
    files = list[TaskFile]()
    for name, content in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(content, str) or content.startswith(("data:", "http://", "https://", "s3://")):
            lost.append(Loss(str(name), "needs files", "its content is not in the data set"))
            continue
        if {"", ".", "..", "~"} & set(name.split("/")) or "\\" in name:
            lost.append(Loss(name, "needs files", "its path leads out of the working folder"))
            continue
        found: TaskFile | Loss | None = TaskFile(storable(name), storable(content))
        with suppress(OSError, ValueError):  # of a text that is too long for a path
            if content and (root / content).exists():
                read = read_case_file(root, content, root)
                found = replace(read, path=storable(name)) if isinstance(read, TaskFile) else read
        if isinstance(found, Loss):
            lost.append(found)
        elif found:
            files.append(found)
    return tuple(files)
