"""Twins: how many held-out tasks ask nearly what a train task asks: a text that repeats answers passes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from skillopt_mcp.judges.checking import asked_in_train
from skillopt_mcp.operations.finding import called
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.store.opening import Store


@dataclass(frozen=True, slots=True)
class _Known:
    """Tasks that are the same as others by what `key` says of them."""

    key: tuple[tuple[int, str, str], ...]
    tasks: tuple[Task, ...] = field(compare=False)


def told_twins(store: Store, skill_id: int, held_out: Sequence[Task], others: Iterable[Task] | None = None) -> str:
    """Return how many of these held-out tasks ask nearly what a train task among `others` asks; "" for none.

    The others are the tasks in use, if none are given. Of the tasks themselves nothing is told: whoever proposes an
    edit, or does the work, may read it.
    """
    tasks = {task.id: task for task in (*(store.tasks.list_in_use(skill_id) if others is None else others), *held_out)}
    key = tuple((task.id, task.split, task.digest) for task in tasks.values())
    twins = _twins(_Known(key, tuple(tasks.values())))
    n = sum(task.id in twins for task in held_out)
    if not n:
        return ""
    check = f"skillopt-mcp tasks check {called(store, store.skills.get_skill(skill_id))}"
    asks = "asks" if n == 1 else "ask"
    return f"{n} of {len(held_out)} held-out tasks {asks} nearly what a train task asks ({check} names them)"


# A test that goes on is asked after again and again, and its tasks stay.
@lru_cache(maxsize=4)
def _twins(known: _Known) -> frozenset[int]:
    return asked_in_train(known.tasks)
