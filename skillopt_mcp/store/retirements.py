"""Retirements at rest: which tasks were taken out of use, why, and what they had served for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

from skillopt_mcp.records.tasks import Split
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.pool import Pool


class Retirement(NamedTuple):
    """How a task was taken out of use: the skill had `n_tests` promotion tests, `n_looks` of which had drawn it."""

    name: str
    split: Split
    reason: str
    n_tests: int
    n_looks: int
    at: str


class Retirements:
    """Table retirement."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def retire(self, skill_id: int, task_ids: Iterable[int], reason: str) -> list[int]:
        """Take tasks of a skill out of use, and return which were in use; the names of these are free from then on."""
        with self._pool.write() as connection:
            retired = [each for each in task_ids if retire_task(connection, skill_id, each, reason)]
        return retired

    def list_retired(self, skill_id: int) -> dict[int, Retirement]:
        """Return how tasks of a skill were taken out of use, by task id, in the order in which they were."""
        rows = self._pool.rows(
            "select task_id, retirement.name, split, reason, n_tests, n_looks, retirement.created_at from retirement"
            " join task on id = task_id where skill_id = ? order by retirement.created_at, task_id",
            [skill_id],
        )
        return {cast(int, row[0]): Retirement(*row[1:]) for row in rows}  # type: ignore[arg-type]


def retire_task(connection: Connection, skill_id: int, task_id: int, reason: str) -> bool:
    """Take a task out of use within the caller's transaction, which `note_retired` then records.

    Returns False when it is not in use.
    """
    cursor = connection.execute(_RETIRE, [reason, task_id, skill_id])
    if cursor.rowcount:
        # A name longer than any that can be given is free, and so is the one it had.
        [digest] = connection.execute("select digest from task where id = ?", [task_id]).fetchone()
        connection.execute("update task set name = ? where id = ?", [f"retired {digest * 4}", task_id])
    return bool(cursor.rowcount)


_RETIRE = (
    "insert into retirement(task_id, name, reason, n_tests, n_looks) select id, name, ?,"
    " (select coalesce(max(j), 0) from confirmation where skill_id = task.skill_id),"
    " (select count(distinct confirmation_id) from pair where task_id = task.id)"
    " from task where id = ? and skill_id = ? on conflict do nothing"
)
