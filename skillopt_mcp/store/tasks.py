"""Tasks and trajectories at rest."""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from skillopt_mcp.records.calls import parse_messages
from skillopt_mcp.records.evidence import Trajectory
from skillopt_mcp.records.judging import parse_spec_json, spec_json
from skillopt_mcp.records.tasks import SPLITS, NewTask, Split, Task, TaskFile
from skillopt_mcp.splits import assign_split
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.events import append, now
from skillopt_mcp.store.exposures import ASKS, expose_asked
from skillopt_mcp.store.pool import Pool, Row
from skillopt_mcp.store.sums import row_sum

_TASK = (
    "select id, skill_id, coalesce(retirement.name, task.name), prompt, judge, split, digest, tags, files from task"
    " left join retirement on task_id = id"
)


@dataclass(frozen=True, slots=True)
class NewTrajectory:
    """A trajectory before it is stored; `messages` is json as `records.calls.messages_json` writes it.

    Where a stored task of the skill is called `task_name`, that task's prompt is what was asked, and not `prompt`. The
    session `known_to` knows the tasks that ask the same: a `task_name` that is none is what was asked, unredacted.
    """

    prompt: str
    answer: str
    hard: bool | None
    soft: float | None
    reason: str
    messages: str
    session_id: str | None = None
    position: int | None = None
    task_name: str | None = None
    known_to: str | None = None


class Retirement(NamedTuple):
    """How a task was taken out of use: the skill had `n_tests` promotion tests, `n_looks` of which had drawn it."""

    name: str
    split: Split
    reason: str
    n_tests: int
    n_looks: int
    at: str


class _Old(NamedTuple):
    """A retired task, as far as it matters to the one that takes its place."""

    id: int
    split: Split


class _Counted(NamedTuple):
    """So many trajectories of a skill have ids above `n_seen` and up to `last_id`; none of them is ever removed."""

    n_seen: int
    last_id: int
    n: int


class Tasks:
    """Tables task, retirement and trajectory."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._counted: dict[int, _Counted] = {}

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
            asked, called = _old(connection, skill_id)
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

    def list_in_use(self, skill_id: int) -> list[Task]:
        """Return the tasks of a skill that were not retired, in the order they were added."""
        sql = f"{_TASK} where skill_id = ? and retirement.task_id is null order by id"
        return [_task(row) for row in self._pool.rows(sql, [skill_id])]

    def list_retired(self, skill_id: int) -> dict[int, Retirement]:
        """Return how tasks of a skill were taken out of use, by task id, in the order in which they were."""
        rows = self._pool.rows(
            "select task_id, retirement.name, split, reason, n_tests, n_looks, retirement.created_at from retirement"
            " join task on id = task_id where skill_id = ? order by retirement.created_at, task_id",
            [skill_id],
        )
        return {cast(int, row[0]): Retirement(*row[1:]) for row in rows}  # type: ignore[arg-type]

    def retire(self, skill_id: int, task_ids: Iterable[int], reason: str) -> list[int]:
        """Take tasks of a skill out of use, and return which were in use; the names of these are free from then on."""
        with self._pool.write() as connection:
            retired = [each for each in task_ids if retire_task(connection, skill_id, each, reason)]
            note_retired(connection, skill_id, retired)
        return retired

    def list_tasks(self, skill_id: int) -> list[Task]:
        """Return every task of a skill, retired ones too, in the order they were added."""
        return [_task(row) for row in self._pool.rows(f"{_TASK} where skill_id = ? order by id", [skill_id])]

    def get_task(self, task_id: int) -> Task | None:
        """Return a task by the id of its row, or None."""
        row = self._pool.row(f"{_TASK} where id = ?", [task_id])
        return _task(row) if row else None

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

    def add_trajectory(self, skill_id: int, version_id: str, new: NewTrajectory) -> tuple[int, bool, int]:
        """Store a trajectory once per (session_id, position).

        Returns its id, whether it is new, and the number of trajectories since the last proposal.
        """
        with self._pool.write() as connection:
            n_seen, n_new, prompt = self._look_up(connection, skill_id, new.task_name)
            values = (
                skill_id, version_id, new.session_id, new.position, new.prompt if prompt is None else prompt,
                new.answer, None if new.hard is None else int(new.hard), new.soft, new.reason, new.messages, now(),
                None,
            )  # fmt: skip
            cursor = connection.execute(
                "insert into trajectory(skill_id, version_id, session_id, position, prompt, answer, hard, soft, reason,"
                " messages, created_at, imported_id, sum) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " on conflict(skill_id, session_id, position)"
                " where session_id is not null and position is not null do nothing",
                (*values, row_sum(*values)),
            )
            added = bool(cursor.rowcount)
            if added:
                trajectory_id = int(cursor.lastrowid or 0)
            else:
                trajectory_id = connection.execute(
                    "select id from trajectory where skill_id = ? and session_id = ? and position = ?",
                    [skill_id, new.session_id, new.position],
                ).fetchone()[0]
            if new.known_to:
                expose_asked(connection, skill_id, prompt or new.task_name or new.prompt, new.known_to)
        if added:
            n_new = min(n_new + 1, _MOST_COUNTED)
            self._counted[skill_id] = _Counted(n_seen, trajectory_id, n_new)
        return trajectory_id, added, n_new

    def score_trajectory(
        self, skill_id: int, trajectory_id: int, score: tuple[bool | None, float | None], reason: str
    ) -> bool | None:
        """Say once how an attempt ended, by (hard, soft); what is known of why comes after what was known.

        Returns False when it had a score before, None when the skill has no such attempt.
        """
        with self._pool.write() as connection:
            row = connection.execute(_SUMMED_ROW, [trajectory_id, skill_id]).fetchone()
            if row is None or row[6] is not None:
                return None if row is None else False
            values = list(row)
            values[6:9] = [
                None if score[0] is None else int(score[0]),
                score[1],
                "\n".join(filter(None, [row[8], reason])),
            ]
            connection.execute(
                "update trajectory set hard = ?, soft = ?, reason = ?, sum = ? where id = ?",
                [*values[6:9], row_sum(*values), trajectory_id],
            )
        return True

    def list_unscored(self, skill_id: int, n: int) -> list[int]:
        """Return the ids of the `n` newest attempts of which nobody has said how they ended, among the last thousand.

        None has a held-out task's prompt: nothing is learned from those.
        """
        rows = self._pool.rows(
            "select id from (select id, hard, prompt from trajectory where skill_id = ?1 order by id desc limit 1000)"
            f" where hard is null and {_NOT_HELD_OUT} order by id desc limit ?2",
            [skill_id, n, string.whitespace],
        )
        return [cast(int, row[0]) for row in rows]

    def _look_up(self, connection: Connection, skill_id: int, task_name: str | None) -> tuple[int, int, str | None]:
        """Return what the last proposal of a skill had seen, how many came since, and the prompt of its task so named.

        They are counted on from the last record of this process, as long as there was no other proposal.
        """
        # Three statements: of one, SQLite makes the plan anew each time, which takes ten times as long.
        [n_seen] = connection.execute("select n_seen from skill where id = ?", [skill_id]).fetchone()
        known = self._counted.get(skill_id)
        if known is None or known.n_seen != n_seen:
            known = _Counted(n_seen, n_seen, 0)
        [n_more] = connection.execute(_N_AFTER, [skill_id, known.last_id, _MOST_COUNTED]).fetchone()
        named = connection.execute("select prompt from task where skill_id = ? and name = ?", [skill_id, task_name])
        [prompt] = named.fetchone() or [None]
        return n_seen, min(known.n + n_more, _MOST_COUNTED), prompt

    def list_positions(self, skill_id: int, session_id: str) -> set[int]:
        """Return the places in a session whose attempts are recorded."""
        rows = self._pool.rows(
            "select position from trajectory where skill_id = ? and session_id = ? and position is not null",
            [skill_id, session_id],
        )
        return {cast(int, row[0]) for row in rows}

    def is_held_out(self, skill_id: int, prompt: str) -> bool:
        """Return whether a val or test task has this prompt, whatever blanks surround it."""
        row = self._pool.row(f"select 1 from task where {ASKS} and split <> 'train' limit 1", [skill_id, prompt])
        return row is not None

    def count_trajectories(self, skill_id: int) -> tuple[int, int]:
        """Return how many trajectories a skill has, and how many of them came since its last proposal."""
        total = self._pool.row("select count(*) from trajectory where skill_id = ?", [skill_id])
        new = self._pool.row(_N_NEW, [skill_id, _MOST_COUNTED])
        return cast(int, total[0] if total else 0), cast(int, new[0] if new else 0)

    def get_trajectory(self, trajectory_id: int) -> tuple[int, Trajectory] | None:
        """Return the skill's id and the trajectory, or None."""
        row = self._pool.row(
            "select skill_id, id, prompt, answer, messages, hard, soft, reason, session_id from trajectory"
            " where id = ?",
            [trajectory_id],
        )
        return (cast(int, row[0]), _trajectory(row[1:])) if row else None

    def recent_trajectories(self, skill_id: int, n: int) -> list[int]:
        """Return the ids of the `n` newest scored trajectories, oldest first, none with a held-out task's prompt."""
        rows = self._pool.rows(
            f"select id from trajectory where skill_id = ?1 and hard is not null and {_NOT_HELD_OUT}"
            " order by id desc limit ?2",
            [skill_id, n, string.whitespace],
        )
        return [cast(int, row[0]) for row in reversed(rows)]

    def list_train_draws(self, skill_id: int, version_id: str, n: int) -> list[tuple[int, str]]:
        """Return the `n` newest scored trials of a version on train tasks in use as (task id, draw), oldest first."""
        rows = self._pool.rows(
            "select trial.task_id, trial.draw from trial join task on task.id = trial.task_id where task.skill_id = ?"
            " and task.split = 'train' and trial.version_id = ? and trial.hard is not null"
            " and task.id not in (select task_id from retirement)"
            " order by trial.id desc limit ?",
            [skill_id, version_id, n],
        )
        return [(cast(int, task_id), str(draw)) for task_id, draw in reversed(rows)]

    def mark_seen(self, skill_id: int) -> None:
        """Note that a proposal has seen every trajectory recorded so far."""
        with self._pool.write() as connection:
            connection.execute(
                "update skill set n_seen = coalesce((select max(id) from trajectory where skill_id = ?), 0)"
                " where id = ?",
                [skill_id, skill_id],
            )


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


def retired_name(digest: str) -> str:
    """Return what the row of a retired task is called: longer than any name that can be given, so that it is free."""
    return f"retired {digest * 4}"


def retire_task(connection: Connection, skill_id: int, task_id: int, reason: str, name: str | None = None) -> bool:
    """Take a task out of use within the caller's transaction, which `note_retired` then records.

    Returns False when it is not in use. `name` is what it was called where its row was stored under `retired_name`.
    """
    cursor = connection.execute(_RETIRE, [name, reason, task_id, skill_id])
    if cursor.rowcount and name is None:
        [digest] = connection.execute("select digest from task where id = ?", [task_id]).fetchone()
        connection.execute("update task set name = ? where id = ?", [retired_name(digest), task_id])
    return bool(cursor.rowcount)


def note_retired(connection: Connection, skill_id: int, task_ids: Sequence[int]) -> None:
    """Record that these tasks were retired within the caller's transaction, how many of each split beside it."""
    if task_ids:
        key = json.dumps(sorted(task_ids))
        counts = connection.execute(
            "select split, count(*) from task where id in (select value from json_each(?)) group by split", [key]
        ).fetchall()
        append(connection, "tasks_retired", key, skill=skill_id, n=len(task_ids), **dict(counts))


def note_added(connection: Connection, skill_id: int, n: int) -> None:
    """Record that the last `n` tasks of the store were added within the caller's transaction."""
    if n:
        [last] = connection.execute("select max(id) from task").fetchone()
        append(connection, "tasks_added", last - n + 1, last, skill=skill_id, n=n)


_NOT_HELD_OUT = "trim(prompt, ?3) not in (select trim(prompt, ?3) from task where skill_id = ?1 and split <> 'train')"
_N_IN_SPLITS = (
    "select split, count(*) from task where skill_id = ? and id not in (select task_id from retirement) group by split"
)
_SAME = (
    "select digest = ?, iif(id in (select task_id from retirement), 'retired', 'duplicate') from task"
    " where skill_id = ? and (digest = ? or name = ?) order by 1 desc"
)
_RETIRE = (
    "insert into retirement(task_id, name, reason, n_tests, n_looks) select id, coalesce(?, name), ?,"
    " (select count(*) from confirmation where skill_id = task.skill_id),"
    " (select count(distinct confirmation_id) from pair where task_id = task.id)"
    " from task where id = ? and skill_id = ? on conflict do nothing"
)
_OLD = (
    "select id, retirement.name, prompt, split from retirement join task on id = task_id where skill_id = ? order by id"
)
_KNOWN_TOO = (
    "insert into exposure(task_id, session) select ?, session from exposure where task_id = ? on conflict do nothing"
)
_BLANKS = "char(9, 10, 11, 12, 13, 32)"
_LOOKS = (
    f"with old(id, asked) as (select id, trim(prompt, {_BLANKS}) from retirement join task on id = task_id"
    " where skill_id = ?1)"
    " select id, (select count(distinct confirmation_id) from pair where task_id = task.id or task_id in"
    f" (select old.id from old where asked = trim(task.prompt, {_BLANKS})))"
    " from task where skill_id = ?1 and split = 'test' and id not in (select task_id from retirement) order by id"
)
_SUMMED_ROW = (
    "select skill_id, version_id, session_id, position, prompt, answer, hard, soft, reason, messages, created_at,"
    " imported_id from trajectory where id = ? and skill_id = ?"
)
# Bounded, so that a skill with a million unseen trajectories answers as fast as a new one.
_MOST_COUNTED = 10_000
_N_NEW = (
    "select count(*) from (select 1 from trajectory"
    " where skill_id = ?1 and id > (select n_seen from skill where id = ?1) limit ?2)"
)
_N_AFTER = "select count(*) from (select 1 from trajectory where skill_id = ? and id > ? limit ?)"


def _old(connection: Connection, skill_id: int) -> tuple[dict[str, _Old], dict[str, _Old]]:
    """Return the retired tasks of a skill by what they ask, and by what they were called."""
    rows = connection.execute(_OLD, [skill_id]).fetchall()
    asked = {str(prompt).strip(string.whitespace): _Old(task_id, split) for task_id, _, prompt, split in rows}
    return asked, {str(name): _Old(task_id, split) for task_id, name, _, split in rows}


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
        files=tuple(TaskFile(*file) for file in json.loads(str(files))),
    )


def _trajectory(row: Row) -> Trajectory:
    trajectory_id, prompt, answer, messages, hard, soft, reason, session = row
    return Trajectory(
        id=f"trajectory:{cast(int, trajectory_id)}",
        prompt=str(prompt),
        answer=str(answer),
        messages=parse_messages(str(messages)),
        hard=None if hard is None else bool(hard),
        soft=cast(float | None, soft),
        hint=str(reason),
        source="session",
        session=str(session or ""),
    )
