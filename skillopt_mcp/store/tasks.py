"""Tasks at rest: in a split that stays, but for a rotation; with the promotion tests that have drawn them."""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from skillopt_mcp.records.judging import parse_spec_json, spec_json
from skillopt_mcp.records.tasks import SPLITS, NewTask, Split, Task, TaskFile
from skillopt_mcp.splits import assign_split
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.events import append
from skillopt_mcp.store.exposures import ASKS
from skillopt_mcp.store.lineage import KIN
from skillopt_mcp.store.pool import Pool, Row
from skillopt_mcp.store.retirements import predecessors

_TASK = (
    "select id, skill_id, coalesce(retirement.name, task.name), prompt, judge, split, digest, tags, files from task"
    " left join retirement on task_id = id"
)


class Tasks:
    """Tables task and rotation."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_tasks(self, skill_id: int, tasks: Sequence[NewTask], shares: dict[Split, float]) -> list[str]:
        """Store tasks, each in its own split or the one furthest below its share.

        One that asks what a retired task asked, or has its name, takes the place of that, in its split. Returns what
        became of each, in order: "added", "duplicate" (same prompt, judge and files), "retired" (the same as one that
        was), "name taken", or the split of the retired task that asks the same where the task names another.
        """
        outcomes: list[str] = []
        with self._pool.write() as connection:
            counts = dict.fromkeys(SPLITS, 0)
            for split, n in connection.execute(_N_IN_SPLITS, [skill_id]):
                counts[split] = n
            asked, called = predecessors(connection, skill_id)
            for task in tasks:
                name = name_of(task)
                found = connection.execute(_SAME, [task.digest, skill_id, task.digest, name]).fetchone()
                same = asked.get(task.prompt.strip(string.whitespace))
                if found:
                    outcomes.append(found[1] if found[0] else "name taken")
                elif same and task.split not in (None, same.split):
                    outcomes.append(same.split)
                else:
                    place = same or called.get(name)
                    split = task.split or (place.split if place else assign_split(counts, shares, task.digest))
                    task_id = insert_task(connection, skill_id, task, split)
                    if same:
                        # Who knew the old one knows what this one asks.
                        connection.execute(_KNOWN_TOO, [task_id, same.id])
                    counts[split] += 1
                    outcomes.append("added")
            note_added(connection, skill_id, outcomes.count("added"))
        return outcomes

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

    def list_spent(self, skill_id: int) -> list[Task]:
        """Return what says nothing new of a skill when it is asked again, and is no task in use of it.

        These are train and val tasks, and test tasks that a promotion test has drawn: its own retired ones, and those
        of its kin (the skills that share a version with it, or with its kin).
        """
        return [_task(row) for row in self._pool.rows(_SPENT, [skill_id])]

    def get_task(self, task_id: int) -> Task | None:
        """Return a task by the id of its row, or None."""
        row = self._pool.row(f"{_TASK} where id = ?", [task_id])
        return _task(row) if row else None

    def is_held_out(self, skill_id: int, prompt: str) -> bool:
        """Return whether a val or test task has this prompt, whatever blanks surround it."""
        row = self._pool.row(f"select 1 from task where {ASKS} and split <> 'train' limit 1", [skill_id, prompt])
        return row is not None

    def list_looks(self, skill_id: int) -> dict[int, int]:
        """Return in how many promotion tests each test task in use was drawn, by task id; those never drawn are 0.

        What a retired task asked counts as drawn for the one in use that asks the same.
        """
        return {cast(int, task_id): cast(int, n) for task_id, n in self._pool.rows(_LOOKS, [skill_id])}

    def count_looks(self, task_ids: Iterable[int]) -> dict[int, int]:
        """Return how many promotion tests have drawn each of these tasks, by task id."""
        sql = "select count(distinct confirmation_id) from pair where task_id = ?"
        return {each: cast(int, row[0]) for each in task_ids if (row := self._pool.row(sql, [each]))}

    def rotate(self, looks: Mapping[int, int]) -> None:
        """Move test tasks into train, each with the number of promotion tests that had drawn it on record."""
        with self._pool.write() as connection:
            for task_id, n in looks.items():
                connection.execute(
                    "insert into rotation(task_id, from_split, to_split, n_looks) values (?, 'test', 'train', ?)",
                    [task_id, n],
                )
                connection.execute("update task set split = 'train' where id = ?", [task_id])
            if looks:
                append(connection, "tasks_rotated", json.dumps(sorted(looks)), n=len(looks))


def insert_task(connection: Connection, skill_id: int, task: NewTask, split: Split, name: str | None = None) -> int:
    """Store a task that is not there within the caller's transaction, which `note_added` then records; return its id.

    `name` is what the row has in the place of the task's own name.
    """
    cursor = connection.execute(
        "insert into task(skill_id, name, digest, prompt, judge, split, tags, files) values (?, ?, ?, ?, ?, ?, ?, ?)",
        [skill_id, name or name_of(task), task.digest, task.prompt, spec_json(task.judge), split,
         json.dumps(task.tags), json.dumps([[f.path, f.content] for f in task.files])],
    )  # fmt: skip
    return int(cursor.lastrowid or 0)


def name_of(task: NewTask) -> str:
    """Return the name of a task, made from its digest where its author gave none."""
    return task.name or f"task-{task.digest[:8]}"


def parse_files(files: str) -> tuple[TaskFile, ...]:
    """Return the files of a task from the json of its row."""
    return tuple(TaskFile(*file) for file in json.loads(files))


def note_added(connection: Connection, skill_id: int, n: int) -> None:
    """Record that the last `n` tasks of the store were added within the caller's transaction."""
    if n:
        [last] = connection.execute("select max(id) from task").fetchone()
        append(connection, "tasks_added", last - n + 1, last, skill=skill_id, n=n)


_N_IN_SPLITS = (
    "select split, count(*) from task where skill_id = ? and id not in (select task_id from retirement) group by split"
)
_SAME = (
    "select digest = ?, iif(id in (select task_id from retirement), 'retired', 'duplicate') from task"
    " where skill_id = ? and (digest = ? or name = ?) order by 1 desc"
)
_KNOWN_TOO = (
    "insert into exposure(task_id, session) select ?, session from exposure where task_id = ? on conflict do nothing"
)
_BLANKS = "char(9, 10, 11, 12, 13, 32)"
_SPENT = (
    f"{_TASK} where skill_id in ({KIN}) and (skill_id <> ?1 or retirement.task_id is not null)"
    " and (split <> 'test' or exists (select 1 from pair where pair.task_id = task.id)) order by id"
)
_LOOKS = (
    f"with old(id, asked) as (select id, trim(prompt, {_BLANKS}) from retirement join task on id = task_id"
    " where skill_id = ?1)"
    " select id, (select count(distinct confirmation_id) from pair where task_id = task.id or task_id in"
    f" (select old.id from old where asked = trim(task.prompt, {_BLANKS})))"
    " from task where skill_id = ?1 and split = 'test' and id not in (select task_id from retirement) order by id"
)


def _task(row: Row) -> Task:
    task_id, skill_id, name, prompt, judge, split, digest, tags, files = row
    return Task(
        id=cast(int, task_id),
        skill_id=cast(int, skill_id),
        name=str(name),
        prompt=str(prompt),
        judge=parse_spec_json(str(judge)),
        split=cast(Split, split),
        digest=str(digest),
        tags=tuple(json.loads(str(tags))),
        files=parse_files(str(files)),
    )
