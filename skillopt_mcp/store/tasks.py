"""Tasks and trajectories at rest."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from skillopt_mcp.records.calls import parse_messages
from skillopt_mcp.records.evidence import Trajectory
from skillopt_mcp.records.judging import parse_spec_json, spec_json
from skillopt_mcp.records.tasks import SPLITS, NewTask, Split, Task, TaskFile
from skillopt_mcp.splits import assign_split
from skillopt_mcp.store.pool import Pool, Row

_TASK = "select id, skill_id, name, prompt, judge, split, digest, tags, files from task"


@dataclass(frozen=True, slots=True)
class NewTrajectory:
    """A trajectory before it is stored; `messages` is json as `records.calls.messages_json` writes it.

    Where a stored task of the skill is called `task_name`, that task's prompt is what was asked, and not `prompt`.
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


class Tasks:
    """Tables task and trajectory."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_tasks(self, skill_id: int, tasks: Sequence[NewTask], shares: dict[Split, float]) -> list[str]:
        """Store tasks, each in its own split or the one furthest below its share.

        Returns what became of each, in order: "added", "duplicate" (same prompt, judge and files), or "name taken".
        """
        outcomes = []
        with self._pool.write() as connection:
            counts = dict.fromkeys(SPLITS, 0)
            for split, n in connection.execute(
                "select split, count(*) from task where skill_id = ? group by split", [skill_id]
            ):
                counts[split] = n
            for task in tasks:
                digest = task.digest
                split = task.split or assign_split(counts, shares, digest)
                found = connection.execute(
                    "select digest = ? from task where skill_id = ? and (digest = ? or name = ?) order by 1 desc",
                    [digest, skill_id, digest, task.name or f"task-{digest[:8]}"],
                ).fetchone()
                if found:
                    outcomes.append("duplicate" if found[0] else "name taken")
                    continue
                connection.execute(
                    "insert into task(skill_id, name, digest, prompt, judge, split, tags, files)"
                    " values (?, ?, ?, ?, ?, ?, ?, ?)",
                    [skill_id, task.name or f"task-{digest[:8]}", digest, task.prompt, spec_json(task.judge), split,
                     json.dumps(task.tags), json.dumps([[f.path, f.content] for f in task.files])],
                )  # fmt: skip
                counts[split] += 1
                outcomes.append("added")
        return outcomes

    def count_tasks(self, skill_id: int) -> dict[Split, int]:
        """Return the number of tasks per split, zeros included."""
        counts = dict.fromkeys(SPLITS, 0)
        for split, n in self._pool.rows(
            "select split, count(*) from task where skill_id = ? group by split", [skill_id]
        ):
            counts[cast(Split, split)] = cast(int, n)
        return counts

    def list_tasks(self, skill_id: int) -> list[Task]:
        """Return every task of a skill, in the order they were added."""
        return [_task(row) for row in self._pool.rows(f"{_TASK} where skill_id = ? order by id", [skill_id])]

    def list_looks(self, skill_id: int) -> dict[int, int]:
        """Return in how many promotion tests each test task was drawn, by task id; those never drawn are 0."""
        rows = self._pool.rows(
            "select id, (select count(distinct confirmation_id) from pair where task_id = task.id) from task"
            " where skill_id = ? and split = 'test' order by id",
            [skill_id],
        )
        return {cast(int, task_id): cast(int, n) for task_id, n in rows}

    def rotate(self, looks: Mapping[int, int]) -> None:
        """Move test tasks into train, each with the number of promotion tests that had drawn it on record."""
        with self._pool.write() as connection:
            for task_id, n in looks.items():
                connection.execute(
                    "insert into rotation(task_id, from_split, to_split, n_looks) values (?, 'test', 'train', ?)",
                    [task_id, n],
                )
                connection.execute("update task set split = 'train' where id = ?", [task_id])

    def add_trajectory(self, skill_id: int, version_id: str, new: NewTrajectory) -> tuple[int, bool, int]:
        """Store a trajectory once per (session_id, position).

        Returns its id, whether it is new, and the number of trajectories since the last proposal.
        """
        with self._pool.write() as connection:
            cursor = connection.execute(
                "insert into trajectory"
                "(skill_id, version_id, session_id, position, prompt, answer, hard, soft, reason, messages)"
                " values (?, ?, ?, ?, coalesce((select prompt from task where skill_id = ? and name = ?), ?),"
                " ?, ?, ?, ?, ?) on conflict(skill_id, session_id, position)"
                " where session_id is not null and position is not null do nothing",
                [skill_id, version_id, new.session_id, new.position, skill_id, new.task_name, new.prompt, new.answer,
                 None if new.hard is None else int(new.hard), new.soft, new.reason, new.messages],
            )  # fmt: skip
            added = bool(cursor.rowcount)
            if added:
                trajectory_id = int(cursor.lastrowid or 0)
            else:
                trajectory_id = connection.execute(
                    "select id from trajectory where skill_id = ? and session_id = ? and position = ?",
                    [skill_id, new.session_id, new.position],
                ).fetchone()[0]
            n_new = connection.execute(_N_NEW, [skill_id, skill_id]).fetchone()[0]
        return trajectory_id, added, n_new

    def is_held_out(self, skill_id: int, prompt: str) -> bool:
        """Return whether a val or test task has this prompt, whatever blanks surround it."""
        row = self._pool.row(
            "select 1 from task where skill_id = ?1 and split <> 'train' and trim(prompt, ?3) = trim(?2, ?3) limit 1",
            [skill_id, prompt, string.whitespace],
        )
        return row is not None

    def count_trajectories(self, skill_id: int) -> tuple[int, int]:
        """Return how many trajectories a skill has, and how many of them came since its last proposal."""
        total = self._pool.row("select count(*) from trajectory where skill_id = ?", [skill_id])
        new = self._pool.row(_N_NEW, [skill_id, skill_id])
        return cast(int, total[0] if total else 0), cast(int, new[0] if new else 0)

    def get_trajectory(self, trajectory_id: int) -> tuple[int, Trajectory] | None:
        """Return the skill's id and the trajectory, or None."""
        row = self._pool.row(
            "select skill_id, id, prompt, answer, messages, hard, soft, reason from trajectory where id = ?",
            [trajectory_id],
        )
        return (cast(int, row[0]), _trajectory(row[1:])) if row else None

    def recent_trajectories(self, skill_id: int, n: int) -> list[int]:
        """Return the ids of the `n` newest scored trajectories, oldest first, none with a held-out task's prompt."""
        rows = self._pool.rows(
            "select id from trajectory where skill_id = ?1 and hard is not null and trim(prompt, ?3) not in"
            " (select trim(prompt, ?3) from task where skill_id = ?1 and split <> 'train') order by id desc limit ?2",
            [skill_id, n, string.whitespace],
        )
        return [cast(int, row[0]) for row in reversed(rows)]

    def mark_seen(self, skill_id: int) -> None:
        """Note that a proposal has seen every trajectory recorded so far."""
        with self._pool.write() as connection:
            connection.execute(
                "update skill set n_seen = coalesce((select max(id) from trajectory where skill_id = ?), 0)"
                " where id = ?",
                [skill_id, skill_id],
            )


# Bounded, so that a skill with a million unseen trajectories answers as fast as a new one.
_N_NEW = (
    "select count(*) from (select 1 from trajectory"
    " where skill_id = ? and id > (select n_seen from skill where id = ?) limit 10000)"
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
        files=tuple(TaskFile(*file) for file in json.loads(str(files))),
    )


def _trajectory(row: Row) -> Trajectory:
    trajectory_id, prompt, answer, messages, hard, soft, reason = row
    return Trajectory(
        id=f"trajectory:{cast(int, trajectory_id)}",
        prompt=str(prompt),
        answer=str(answer),
        messages=parse_messages(str(messages)),
        hard=None if hard is None else bool(hard),
        soft=cast(float | None, soft),
        hint=str(reason),
        source="session",
    )
