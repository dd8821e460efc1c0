"""Tasks: what a skill is trained and tested on, added inline or from a file, each with its judge."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from skillopt_mcp import limits
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.results import Rejected, SplitCounts, TasksAdded
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import storable
from skillopt_mcp.records.tasks import SPLITS, NewTask, Split, TaskFile
from skillopt_mcp.splits import EQUAL_SHARES

_FIELDS = frozenset({"prompt", "judge", "id", "split", "tags", "files"})
ENOUGH_HELD_OUT = 30
REASON_BYTES = 350


def add_tasks(
    workspace: Workspace, skill: str, tasks: Sequence[object] | None = None, file: str | None = None
) -> TasksAdded:
    """Add tasks given inline, or in a file as a JSON list or JSON lines; a bad one is rejected with its reason.

    Raises BadInput when neither or both are given, or the file cannot be read; then nothing is added.
    """
    if (tasks is None) == (file is None):
        raise BadInput("give either tasks or file: a list of {prompt, judge, id?, split?, tags?, files?}, or its path")
    given = read_tasks(Path(os.path.expanduser(file))) if file is not None else list(tasks or ())
    if not given:
        raise BadInput("no task was given: a task is {prompt, judge: {kind, ...}, id?, split?, tags?, files?}")
    if len(given) > limits.TASKS_PER_CALL:
        raise BadInput(f"{len(given):,} tasks at once, {limits.TASKS_PER_CALL:,} are allowed: add them in parts")
    tracked = workspace.skill(skill)
    good: list[tuple[int, NewTask]] = []
    rejected: list[Rejected] = []
    for index, value in enumerate(given):
        try:
            good.append((index, parse_task(value)))
        except BadInput as error:
            rejected.append(Rejected(index=index, reason=shortened(str(error), REASON_BYTES)))
    outcomes = workspace.store.tasks.add_tasks(tracked.id, [task for _, task in good], EQUAL_SHARES)
    for (index, task), outcome in zip(good, outcomes, strict=True):
        if outcome == "name taken":
            rejected.append(
                Rejected(
                    index=index, reason=f"the id {quoted(task.name or '')} is taken by another task: choose another"
                )
            )
    counts = workspace.store.tasks.count_tasks(tracked.id)
    return TasksAdded(
        skill=tracked.name,
        added=outcomes.count("added"),
        duplicates=outcomes.count("duplicate"),
        rejected=sorted(rejected, key=lambda each: each.index)[: limits.REJECTED_SHOWN],
        splits=SplitCounts(**counts),
        next_step=_told(rejected) + _next_step(counts),
    )


def _told(rejected: Sequence[Rejected]) -> str:
    if not rejected:
        return ""
    more = f" (the first {limits.REJECTED_SHOWN} are shown)" if len(rejected) > limits.REJECTED_SHOWN else ""
    return f"{len(rejected):,} were rejected{more}: correct them and add them again. "


def _next_step(counts: Mapping[Split, int]) -> str:
    held_out = counts["val"] + counts["test"]
    if not counts["train"] or not held_out:
        return "Add more tasks: train tasks to learn from, and val and test tasks that stay held out."
    if held_out < ENOUGH_HELD_OUT:
        return (
            f"{held_out} held-out tasks can prove a large gain on these tasks; {ENOUGH_HELD_OUT} or more are better. "
            "Then propose_edits, or 'skillopt-mcp replay' in a terminal."
        )
    return "Enough to start: propose_edits, or 'skillopt-mcp replay' in a terminal."


def read_tasks(path: Path) -> list[object]:
    """Return the values of a JSON list or JSON lines file. Raises BadInput naming the file and the bad line."""
    shown = f"'{shortened(str(path), REASON_BYTES)}'"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{shown} is not a regular file: name a .json or .jsonl file")
        if status.st_size > limits.TASK_FILE_BYTES:
            raise BadInput(f"{shown} has {status.st_size:,} bytes, {limits.TASK_FILE_BYTES:,} are allowed: split it")
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{shown} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can be called so"
        raise BadInput(f"{shown} cannot be read ({why}): check the path") from error
    if text.lstrip().startswith("["):
        value = _decoded(text, shown)
        return cast(list[object], value)
    return [_decoded(line, f"{shown} line {n}") for n, line in enumerate(text.split("\n"), 1) if line.strip()]


def _decoded(text: str, where: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{where} is not JSON ({error}): a file is one list, or one object a line; nothing was added"
        ) from error
    return value


def parse_task(value: object) -> NewTask:
    """Return the task of a decoded JSON object. Raises BadInput with what to change."""
    if not isinstance(value, Mapping):
        raise BadInput("a task is an object {prompt, judge, id?, split?, tags?, files?}")
    unknown = sorted(str(key) for key in value if key not in _FIELDS)
    if unknown:
        raise BadInput(f"unknown field {quoted(unknown[0])}: a task has {', '.join(sorted(_FIELDS))}")
    prompt = value.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise BadInput("the prompt is empty: say what the agent is asked to do")
    if len(prompt) > limits.PROMPT_CHARACTERS:
        raise BadInput(f"the prompt has {len(prompt):,} characters, {limits.PROMPT_CHARACTERS:,} are allowed")
    judge = parse_judge(value.get("judge"))
    split = value.get("split")
    if split is not None and split not in SPLITS:
        raise BadInput(f"unknown split {quoted(str(split))}: use one of {', '.join(SPLITS)}, or leave it out")
    return NewTask(
        prompt=storable(prompt),
        judge=judge,
        name=_name(value.get("id")),
        split=cast(Split | None, split),
        tags=tuple(_texts(value.get("tags") or (), "tags")),
        files=_files(value.get("files") or {}),
    )


def _name(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str | int) and 0 < len(str(value)) <= limits.NAME_CHARACTERS:
        return storable(str(value))
    raise BadInput(f"the id must be a text of 1 to {limits.NAME_CHARACTERS} characters")


def _texts(value: object, name: str) -> list[str]:
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(each, str) for each in value):
        return [storable(str(each)) for each in value]
    raise BadInput(f"{name} must be a list of texts")


def _files(value: object) -> tuple[TaskFile, ...]:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()):
        raise BadInput("files must be an object of {relative path: text}")
    for path in value:
        parts = path.split("/")
        if (
            path.startswith(("/", "~"))
            or "\\" in path
            or "\0" in path
            or any(part in ("", ".", "..") for part in parts)
        ):
            raise BadInput(f"the file path {quoted(path)} must be relative and stay inside the task's folder")
    if sum(map(len, value.values())) > limits.FILE_BYTES:
        raise BadInput(
            f"the files have more than {limits.FILE_BYTES:,} characters: leave out what the task does not need"
        )
    return tuple(TaskFile(storable(path), storable(text)) for path, text in sorted(value.items()))
