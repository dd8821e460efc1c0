"""Tasks at rest: in a split that stays; which were removed, and why; and the programs that judge them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from typing import NamedTuple

from pydantic_core import to_json

from skillopt_mcp.core.commands import Limits, RegisteredCommand
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Judge, judge_json, judge_of
from skillopt_mcp.core.mining import Draft
from skillopt_mcp.core.tasks import SPLITS, NewTask, Split, Task, TaskFile
from skillopt_mcp.store.events import append, now
from skillopt_mcp.store.pending import DRAFTED, OF_EPISODE
from skillopt_mcp.store.pool import Connection, Pool, Row
from skillopt_mcp.tasks.splits import Placed, StoredTask, default_name, files_json, place_tasks

_TASK = (
    "select id, skill_id, coalesce(retirement.name, task.name), prompt, judge, split, task.digest, tags, files,"
    " group_name, (select name from skill where skill.id = skill_id), waits, task.created_at, adoption.digest from task"
    " left join retirement on retirement.task_id = id left join adoption on adoption.task_id = id"
)


class Tasks:
    """Tables task, adoption, draft."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_tasks(
        self, skill_id: int, given: Sequence[NewTask | Draft], shares: Mapping[Split, float],
        *, login: str | None = None, waits: bool = False, corrects: int | None = None,
    ) -> list[Placed]:  # fmt: skip
        """Store the tasks that can be added, and return where each of them went, in order.

        Given by a person, whose `login` it is, they are marked as looked at, and so are those that are there already:
        where these waited, their split is drawn now. Others' tasks may have to wait for that in train (`waits`). With
        the task of a draft is kept what it was made from. The task of the id that one `corrects` is taken out of use
        in the same step, or gets its name, tags and group where all else is the same; where the new one cannot
        be added, nothing is stored, and BadInput raised.
        """
        tasks = [each.task if isinstance(each, Draft) else each for each in given]
        programs, at, marked = self._programs(), now(), list[tuple[int, str, str]]()
        with self._pool.write() as connection:
            sql = "select 1 from task where id = ? and digest = ? and id not in (select task_id from retirement)"
            is_same = corrects is not None and bool(connection.execute(sql, [corrects, tasks[0].digest]).fetchone())
            if is_same:
                values = [default_name(tasks[0]), json.dumps(tasks[0].tags), tasks[0].group, corrects]
                sql = "update or ignore task set name = ?, tags = ?, group_name = ? where id = ? and waits"
                if not connection.execute(sql, values).rowcount:
                    raise BadInput(
                        f'id "{values[0]}" is taken by another task, or this one keeps its id, tags and group'
                    )
            elif corrects is not None and not _retire(connection, skill_id, corrects, "corrected"):
                raise BadInput("it was removed meanwhile: nothing was stored")
            stored = [StoredTask(*row) for row in connection.execute(_PLACED, [skill_id, corrects])]
            if any(each.id == corrects and each.is_drawn for each in stored):
                tasks = [replace(task, split="train") for task in tasks]
            placed = place_tasks(tasks, stored, shares, waits=waits)
            if corrects is not None and not (placed[0].is_new or (is_same and placed[0].same)):
                raise BadInput(placed[0].fault or "another task is the same: drop this one")
            for source, task, each in zip(given, tasks, placed, strict=True):
                task_id = None if each.fault else each.same
                if each.is_new:
                    values = [
                        skill_id, default_name(task), task.digest, task.prompt, judge_json(task.judge), each.split,
                        json.dumps(task.tags), files_json(task), task.group, int(waits), at,
                    ]  # fmt: skip
                    task_id = int(connection.execute(_INSERT, values).lastrowid or 0)
                if isinstance(source, Draft) and (each.is_new or is_same):
                    facts = (source.source, source.origin, source.accepted, source.rejected, source.correction)
                    connection.execute("insert or replace into draft values (?, ?, ?, ?, ?, ?)", (task_id, *facts))
                if login is not None and task_id is not None:
                    drawn = "update task set split = ?, waits = 0 where id = ? and waits"
                    connection.execute(drawn, [each.split, task_id])
                    names = _parse(judge_json(task.judge))[1]
                    marked.append((task_id, _seen_digest(task.digest, task.group, names, programs), login))
            if marked:
                sql = "insert or replace into adoption(task_id, digest, login) values (?, ?, ?)"
                connection.executemany(sql, marked)
                append(connection, "tasks_adopted", skill_id)
        return placed

    def has_adopted(self, skill_id: int) -> bool:
        """Whether a person has looked at a task of a skill."""
        sql = "select 1 from adoption join task on id = task_id where skill_id = ? limit 1"
        return self._pool.row(sql, [skill_id]) is not None

    def count_tasks(self, skill_id: int) -> dict[Split, int]:
        """Return the number of tasks in use per split, zeros included."""
        counts = dict.fromkeys(SPLITS, 0)
        for split, n in self._pool.rows(_N_IN_SPLITS, [skill_id]):
            counts[split] = n
        return counts

    def list_tasks(self, skill_id: int) -> list[Task]:
        """Return every task of a skill, retired ones too, in the order they were added."""
        return self._tasks("where skill_id = ? order by id", skill_id)

    def list_in_use(self, skill_id: int) -> list[Task]:
        """Return the tasks of a skill that were not retired, in the order they were added."""
        return self._tasks("where skill_id = ? and retirement.task_id is null order by id", skill_id)

    def list_by_id(self, task_ids: Iterable[int]) -> list[Task]:
        """Return the tasks with these row ids, in the order they were added; ids without a row are left out."""
        return self._tasks("where id in (select value from json_each(?)) order by id", json.dumps([*task_ids]))

    def list_drafts(self, skill_id: int) -> dict[int, Draft]:
        """The drafts of a skill with their tasks, retired ones too, by task id, in the order they were added."""
        sql = (
            "select task_id, source, origin, accepted, rejected, correction from draft join task on id = task_id"
            " where skill_id = ? order by task_id"
        )
        facts = {row[0]: row[1:] for row in self._pool.rows(sql, [skill_id])}
        return {
            each.id: Draft(NewTask(each.prompt, each.judge, each.name, each.split, each.tags, each.files, each.group),
                           *facts[each.id]) for each in self.list_by_id(facts)
        }  # fmt: skip

    def _tasks(self, where: str, key: int | str) -> list[Task]:
        rows, programs = self._pool.rows(f"{_TASK} {where}", [key]), self._programs()
        return [_task(row, programs) for row in rows]

    def _programs(self) -> dict[str, str]:
        return {each.name: each.fingerprint for each in Commands(self._pool).list_commands()}


@lru_cache(maxsize=1024)  # a suite is read many times, and most of that is its judges
def _parse(judge: str) -> tuple[Judge, list[str]]:
    """A judge as it is stored, and the names of the programs that it needs."""
    # Loads every kind of judge, of which listing skills and rolling back need none.
    from skillopt_mcp.tasks.judges.judging import missing_programs  # noqa: PLC0415

    parsed = judge_of(json.loads(judge))
    return parsed, missing_programs(parsed, ())


def _seen_digest(digest: str, group: str, names: Iterable[str], programs: Mapping[str, str]) -> str:
    """The digest of what a person looks at: all of a task that can change a verdict."""
    used = [(name, programs.get(name)) for name in names]
    return hashlib.sha256(json.dumps([digest, group, used]).encode()).hexdigest()


_INSERT = (
    "insert into task(skill_id, name, digest, prompt, judge, split, tags, files, group_name, waits, created_at)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_N_IN_SPLITS = (
    "select split, count(*) from task where skill_id = ? and id not in (select task_id from retirement) group by split"
)
# Of one that waits, or that ?2 corrects: whether a run has drawn it, or has read the attempt that it was drafted from.
_PLACED = (
    "select id, coalesce(retirement.name, task.name), prompt, files, split, digest, group_name, task_id is not null,"
    " waits, (waits or id = ?2) and (exists (select 1 from run, json_each(run.tasks) drawn where"
    f" run.skill_id = ?1 and drawn.value = task.id) or exists (select 1 from {DRAFTED} join run on run.skill_id = ?1,"
    " json_each(run.sessions) held join trajectory t on t.id = held.value"
    f" where d.task_id = task.id and {OF_EPISODE})), tags"
    " from task left join retirement on task_id = id where skill_id = ?1 order by id"
)


def _task(row: Row, programs: Mapping[str, str]) -> Task:
    task_id, skill_id, name, prompt, judge, split, digest, tags, files, group, folder, waits, at, seen = row
    parsed, names = _parse(str(judge))
    return Task(
        id=task_id,
        skill_id=skill_id,
        name=str(name),
        prompt=str(prompt),
        judge=parsed,
        split=split,
        digest=str(digest),
        tags=tuple(json.loads(str(tags))),
        files=tuple(TaskFile(*file) for file in json.loads(str(files))),
        group=str(group),
        folder=str(folder),
        waits=bool(waits),
        looked_at=seen is not None and seen == _seen_digest(str(digest), str(group), names, programs),
        created_at=str(at),
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
            return [task_id for task_id in task_ids if _retire(connection, skill_id, task_id, reason)]

    def list_retired(self, skill_id: int) -> dict[int, Retirement]:
        """How tasks of a skill were taken out of use, by task id, in the order in which they were."""
        rows = self._pool.rows(
            "select task_id, retirement.name, split, reason, retirement.created_at from retirement"
            " join task on id = task_id where skill_id = ? order by retirement.created_at, task_id",
            [skill_id],
        )
        return {row[0]: Retirement(*row[1:]) for row in rows}


def _retire(connection: Connection, skill_id: int, task_id: int, reason: str) -> bool:
    """Take a task out of use, in the caller's transaction; whether it was in use."""
    sql = "insert into retirement(task_id, name, reason) select id, name, ? from task where id = ? and skill_id = ?"
    added = connection.execute(f"{sql} on conflict do nothing", [reason, task_id, skill_id]).rowcount
    if added:
        # A name longer than any that can be given is free, and so is the one it had.
        [digest] = connection.execute("select digest from task where id = ?", [task_id]).fetchone()
        connection.execute("update task set name = ? where id = ?", [f"retired {digest * 4}", task_id])
    return bool(added)


_COMMAND = "select name, argv, sha256, limits, reads, unconfined, created_at, unattended from command"


class Commands:
    """Table command."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def register(self, command: RegisteredCommand) -> bool:
        """Store a command, in place of the one that had its name; return whether there was one. Its time is ignored."""
        limits, argv, reads = (to_json(each).decode() for each in (asdict(command.limits), command.argv, command.reads))
        values = [command.name, argv, command.sha256, limits, reads, int(command.unconfined), int(command.unattended)]
        with self._pool.write() as connection:
            replaced = connection.execute("delete from command where name = ?", [command.name]).rowcount
            connection.execute(
                "insert into command(name, argv, sha256, limits, reads, unconfined, unattended)"
                " values (?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            append(connection, "command_registered", command.name)
        return bool(replaced)

    def remove(self, name: str) -> bool:
        """Forget a command; return whether there was one."""
        with self._pool.write() as connection:
            removed = bool(connection.execute("delete from command where name = ?", [name]).rowcount)
            if removed:
                append(connection, "command_removed", name)
        return removed

    def list_commands(self) -> list[RegisteredCommand]:
        """Return all commands by name."""
        return [_command(row) for row in self._pool.rows(f"{_COMMAND} order by name")]

    def find_named(self, names: Iterable[str]) -> dict[str, RegisteredCommand]:
        """Return those of the named commands that are registered, by name."""
        wanted = set(names)
        return {command.name: command for command in self.list_commands() if command.name in wanted}


def _command(row: Row) -> RegisteredCommand:
    name, argv, sha256, limits, reads, unconfined, created_at, unattended = row
    return RegisteredCommand(
        name=name,
        argv=tuple(json.loads(argv)),
        sha256=sha256,
        limits=Limits(**json.loads(limits)),
        reads=tuple(json.loads(reads)),
        unconfined=bool(unconfined),
        created_at=created_at,
        unattended=bool(unattended),
    )
