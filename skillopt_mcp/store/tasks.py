"""Tasks at rest: in a split that stays; which were removed, and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from skillopt_mcp.judges.judging import parse_judge_json
from skillopt_mcp.records.judging import judge_json
from skillopt_mcp.records.tasks import SPLITS, NewTask, Split, Task, TaskFile
from skillopt_mcp.splits import Placed, StoredTask, default_name, files_json, place
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.pool import Pool, Row

_ASKED, _GIVEN = (f"trim({text}, char(9, 10, 11, 12, 13, 32))" for text in ("prompt", "?2"))
ASKS = (
    f"skill_id = ?1 and length({_ASKED}) = length({_GIVEN}) and substr({_ASKED}, -32) = substr({_GIVEN}, -32)"
    f" and {_ASKED} = {_GIVEN}"
)
"""Whether a row of task is one of skill ?1 that asks ?2, whatever blanks surround it; for the index task_by_prompt."""
_TASK = (
    "select id, skill_id, coalesce(retirement.name, task.name), prompt, judge, split, digest, tags, files, group_name,"
    " (select name from skill where skill.id = skill_id) from task left join retirement on task_id = id"
)


class Tasks:
    """Table task."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_tasks(self, skill_id: int, tasks: Sequence[NewTask], shares: Mapping[Split, float]) -> list[Placed]:
        """Store the tasks that can be added, and return where each of them went, in order."""
        with self._pool.write() as connection:
            rows = connection.execute(_PLACED, [skill_id]).fetchall()
            placed = place(tasks, [StoredTask(*row) for row in rows], shares)
            for task, each in zip(tasks, placed, strict=True):
                if each.is_new:
                    insert_task(connection, skill_id, task, each.split)
        return placed

    def count_tasks(self, skill_id: int) -> dict[Split, int]:
        """Return the number of tasks in use per split, zeros included."""
        counts = dict.fromkeys(SPLITS, 0)
        for split, n in self._pool.rows(_N_IN_SPLITS, [skill_id]):
            counts[cast(Split, split)] = cast(int, n)
        return counts

    def list_tasks(self, skill_id: int) -> list[Task]:
        """Return every task of a skill, retired ones too, in the order they were added."""
        return [_task(row) for row in self._pool.rows(f"{_TASK} where skill_id = ? order by id", [skill_id])]

    def list_in_use(self, skill_id: int) -> list[Task]:
        """Return the tasks of a skill that were not retired, in the order they were added."""
        sql = f"{_TASK} where skill_id = ? and retirement.task_id is null order by id"
        return [_task(row) for row in self._pool.rows(sql, [skill_id])]

    def get_task(self, task_id: int) -> Task | None:
        """Return a task by the id of its row, or None."""
        row = self._pool.row(f"{_TASK} where id = ?", [task_id])
        return _task(row) if row else None

    def is_held_out(self, skill_id: int, prompt: str) -> bool:
        """Return whether a val or test task has this prompt, whatever blanks surround it."""
        row = self._pool.row(f"select 1 from task where {ASKS} and split <> 'train' limit 1", [skill_id, prompt])
        return row is not None


def insert_task(connection: Connection, skill_id: int, task: NewTask, split: Split) -> int:
    """Store a task that is not there within the caller's transaction, for `note_added` to record; return its id."""
    cursor = connection.execute(
        "insert into task(skill_id, name, digest, prompt, judge, split, tags, files, group_name)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [skill_id, default_name(task), task.digest, task.prompt, judge_json(task.judge), split,
         json.dumps(task.tags), files_json(task), task.group],
    )  # fmt: skip
    return int(cursor.lastrowid or 0)


def parse_files(files: str) -> tuple[TaskFile, ...]:
    """Return the files of a task from the json of its row."""
    return tuple(TaskFile(*file) for file in json.loads(files))


_N_IN_SPLITS = (
    "select split, count(*) from task where skill_id = ? and id not in (select task_id from retirement) group by split"
)
_PLACED = (
    "select id, coalesce(retirement.name, task.name), prompt, files, split, digest, group_name,"
    " task_id is not null from task left join retirement on task_id = id where skill_id = ? order by id"
)


def _task(row: Row) -> Task:
    task_id, skill_id, name, prompt, judge, split, digest, tags, files, group, folder = row
    return Task(
        id=cast(int, task_id),
        skill_id=cast(int, skill_id),
        name=str(name),
        prompt=str(prompt),
        judge=parse_judge_json(str(judge)),
        split=cast(Split, split),
        digest=str(digest),
        tags=tuple(json.loads(str(tags))),
        files=parse_files(str(files)),
        group=str(group),
        folder=str(folder),
    )


class Retirement(NamedTuple):
    """How a task was taken out of use."""

    name: str
    split: Split
    reason: str
    at: str


class Retirements:
    """Table retirement."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def retire(self, skill_id: int, task_ids: Iterable[int], reason: str) -> list[int]:
        """Take tasks of a skill out of use, and return which were in use; the names of these are free from then on."""
        with self._pool.write() as connection:
            return [each for each in task_ids if retire_task(connection, skill_id, each, reason)]

    def list_retired(self, skill_id: int) -> dict[int, Retirement]:
        """Return how tasks of a skill were taken out of use, by task id, in the order in which they were."""
        rows = self._pool.rows(
            "select task_id, retirement.name, split, reason, retirement.created_at from retirement"
            " join task on id = task_id where skill_id = ? order by retirement.created_at, task_id",
            [skill_id],
        )
        return {cast(int, row[0]): Retirement(*row[1:]) for row in rows}  # type: ignore[arg-type]


def retire_task(connection: Connection, skill_id: int, task_id: int, reason: str) -> bool:
    """Take a task out of use within the caller's transaction; return whether it was in use."""
    cursor = connection.execute(_RETIRE, [reason, task_id, skill_id])
    if cursor.rowcount:
        # A name longer than any that can be given is free, and so is the one it had.
        [digest] = connection.execute("select digest from task where id = ?", [task_id]).fetchone()
        connection.execute("update task set name = ? where id = ?", [f"retired {digest * 4}", task_id])
    return bool(cursor.rowcount)


_RETIRE = (
    "insert into retirement(task_id, name, reason) select id, name, ? from task where id = ? and skill_id = ?"
    " on conflict do nothing"
)
