"""Rows: tasks as people write them, one object a task, and as they are written back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from skillopt_mcp.core import limits
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import judge_json
from skillopt_mcp.core.redacting import redact
from skillopt_mcp.core.tasks import SHAPE, SPLITS, NewTask, Split, Task, TaskFile
from skillopt_mcp.core.text import escaped, quoted, storable
from skillopt_mcp.tasks.judges.judging import parse_judge

_FIELDS = ("prompt", "judge", "id", "split", "group", "tags", "files")


def parse_task(value: object) -> NewTask:
    """Make the task of a decoded JSON object. Raises BadInput."""
    if not isinstance(value, Mapping):
        raise BadInput(f"a task is an object {SHAPE}")
    if "expected" in value and "judge" not in value:  # the usual table of questions
        answer = value["expected"]
        is_number = isinstance(answer, int | float) and not isinstance(answer, bool)
        value = {**value, "judge": {"kind": "exact", "expected": str(answer) if is_number else answer}}
        del value["expected"]
    if unknown := sorted(str(key) for key in value if key not in _FIELDS):
        raise BadInput(f"unknown field {quoted(unknown[0])}: a task has {', '.join(sorted(_FIELDS))}")
    prompt, name, split = value.get("prompt"), value.get("id"), value.get("split")
    if not isinstance(prompt, str) or not prompt.strip():
        raise BadInput(f"prompt must be a text that is not empty, got {escaped(redact(json.dumps(prompt))[:80])}")
    if len(prompt) > limits.PROMPT_CHARACTERS:
        raise BadInput(f"prompt has {len(prompt):,} characters, at most {limits.PROMPT_CHARACTERS:,}")
    if name is not None and not (isinstance(name, str | int) and 0 < len(str(name)) <= limits.NAME_CHARACTERS):
        raise BadInput(f"id must be a text of 1 to {limits.NAME_CHARACTERS} characters")
    if split is not None and split not in SPLITS:
        raise BadInput(f"split must be one of {', '.join(SPLITS)}, got {quoted(str(split))}")
    judge, tags = parse_judge(value.get("judge")), value.get("tags") or ()
    if not isinstance(tags, Sequence) or isinstance(tags, str) or not all(isinstance(each, str) for each in tags):
        raise BadInput("tags must be a list of texts")
    files = value.get("files") or {}
    if not isinstance(files, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in files.items()):
        raise BadInput("files must be an object of {relative path: text}")
    for path in files:
        if path.startswith("~") or "\\" in path or "\0" in path or {"", ".", ".."} & set(path.split("/")):
            raise BadInput(f"the file path {quoted(path)} must be relative and stay inside the task's folder")
    if sum(map(len, files.values())) > limits.FILE_BYTES:
        raise BadInput(f"the files have more than {limits.FILE_BYTES:,} characters")
    return NewTask(
        prompt=storable(prompt),
        judge=judge,
        name=None if name is None else storable(str(name)),
        split=cast(Split | None, split),
        tags=tuple(map(storable, tags)),
        files=tuple(TaskFile(storable(path), storable(text)) for path, text in sorted(files.items())),
        group=parse_group(value.get("group")),
    )


def parse_group(value: object) -> str:
    """Read the group of a task, "" for none. Raises BadInput where it is no text, or too long."""
    if not isinstance(value, str | None) or len(value or "") > limits.GROUP_CHARACTERS:
        raise BadInput(f"group must be a text of up to {limits.GROUP_CHARACTERS} characters")
    return storable(value or "")


def make_row(task: Task) -> dict[str, Any]:
    """Write a task as `tasks add` reads it."""
    row = {
        "id": task.name, "prompt": task.prompt, "judge": json.loads(judge_json(task.judge)), "split": task.split,
        "group": task.group, "tags": list(task.tags), "files": {file.path: file.content for file in task.files},
    }  # fmt: skip
    return {name: value for name, value in row.items() if value}
