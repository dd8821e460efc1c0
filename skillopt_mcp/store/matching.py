"""Matching: what of a history is new in a store, what it knows, and which tasks contradict those that are there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from skillopt_mcp.records.tasks import NewTask, asked_digest
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.tasks import name_of, parse_files

_GROWS = {"run": ("status", "result", "conclusion", "served"), "test": ("rule", "pairs", "served")}
_TASKS = (
    "select digest, coalesce(retirement.name, task.name), split, task_id is not null from task"
    " left join retirement on task_id = id where skill_id = ?"
)
_ASKED = (
    "select prompt, files, split, coalesce(retirement.name, task.name) from task left join retirement on task_id = id"
    " where skill_id = ? order by id"
)


def new_tasks(connection: Connection, skill_id: int, tasks: Sequence[NewTask], conflicts: list[str]) -> list[NewTask]:
    """Return the tasks that are not here, and tell of those that contradict one that is: by id, split or question."""
    rows = connection.execute(_TASKS, [skill_id]).fetchall()
    splits = {digest: (name, split) for digest, name, split, _ in rows}
    names = {name for _, name, _, is_retired in rows if not is_retired}
    gone = {digest for digest, _, _, is_retired in rows if is_retired}
    asked = {digest: (name, split) for digest, split, name in asked_here(connection, skill_id)}
    found = []
    for task in tasks:
        name = name_of(task)
        held, same = splits.get(task.digest), asked.get(asked_digest(task.prompt, task.files))
        if held is None and name in names:
            conflicts.append(f"task '{name}': another task has that id here")
        elif held is None and same is not None and same[1] != task.split:
            conflicts.append(
                f"task '{name}': what it asks is in {same[1]} here (task '{same[0]}'), in {task.split} in the file"
            )
        elif held is None:
            found.append(task)
            splits[task.digest] = (name, task.split)
            names.add(name)
        elif task.digest in gone:
            conflicts.append(f"task '{held[0]}': it is retired here, in use in the file")
        elif held[1] != task.split:
            conflicts.append(f"task '{held[0]}': its split is {held[1]} here, {task.split} in the file")
    return found


def new_retired(
    connection: Connection, skill_id: int, retired: Sequence[tuple[NewTask, str]], conflicts: list[str]
) -> list[tuple[NewTask, str]]:
    """Return the retired tasks that are not here; what is in use here stays so, for no import decides on that."""
    here = {digest: is_retired for digest, _, _, is_retired in connection.execute(_TASKS, [skill_id])}
    found = {}
    for task, reason in retired:
        if task.digest not in here:
            found[task.digest] = (task, reason)
        elif not here[task.digest]:
            conflicts.append(f"task '{name_of(task)}': it is in use here, retired in the file")
    return list(found.values())


def asked_here(connection: Connection, skill_id: int) -> list[tuple[str, str, str]]:
    """Return what each task of a skill asks, as (digest of that, split, name), in the order they were added."""
    rows = connection.execute(_ASKED, [skill_id]).fetchall()
    return [(asked_digest(prompt, parse_files(files)), split, name) for prompt, files, split, name in rows]


def beginning(what: str, row: Mapping[str, object]) -> Iterator[str]:
    """Yield what of a row is the same at every time, if the row is of a kind that goes on."""
    if grows := _GROWS.get(what):
        yield json.dumps([what, *sorted((name, value) for name, value in row.items() if name not in grows)])


def is_earlier(told: Mapping[str, object], own: Mapping[str, object] | None) -> bool:
    """Return whether a line tells of a row of this store as it was once: no further on than it is here."""
    if own is None:
        return False
    if "result" in own:
        return told.get("result") is None
    return str(own["pairs"]).startswith(str(told.get("pairs"))[:-1])
