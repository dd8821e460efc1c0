"""Checking: what is wrong with tasks, in a file before they are added or in the store."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.environments.rows import read_rows
from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.checking import check_task, check_tasks
from skillopt_mcp.operations.judging import without_command
from skillopt_mcp.operations.tasks import ENOUGH_HELD_OUT, parse_row
from skillopt_mcp.operations.trying import trivial_commands
from skillopt_mcp.operations.workspace import Workspace


class Checked(BaseModel):
    """What a check found: problems make a task useless or misleading, remarks are worth knowing."""

    model_config = ConfigDict(frozen=True)
    n_tasks: int
    problems: list[str]
    remarks: list[str]


def check_file(workspace: Workspace, path: Path) -> Checked:
    """Return what is wrong with the tasks of a file. Raises BadInput when it cannot be read."""
    values = read_rows(path)
    problems: list[str] = []
    first: dict[str, int] = {}
    for n, value in enumerate(values, 1):
        try:
            task = parse_row(value)
        except BadInput as error:
            problems.append(f"task {n}: {error}")
            continue
        before = first.setdefault(task.digest, n)
        if before != n:
            problems.append(f"task {n} is the same as task {before}: remove one")
        else:
            unregistered = without_command(workspace.store, [task.judge]).values()
            problems += [f"task {n}: {text}" for text in (*check_task(task), *unregistered)]
    return Checked(n_tasks=len(values), problems=problems, remarks=[])


def check_stored(workspace: Workspace, skill: str) -> Checked:
    """Return what is wrong with the stored tasks of a skill. Raises NotFound, BadSkill."""
    tracked = workspace.skill(skill)
    tasks = workspace.store.tasks.list_tasks(tracked.id)
    counts = workspace.store.tasks.count_tasks(tracked.id)
    remarks = [f"there is no {split} task" for split, n in counts.items() if not n]
    n_held_out = counts["val"] + counts["test"]
    if n_held_out < ENOUGH_HELD_OUT:
        remarks.append(f"{n_held_out} tasks are held out; with {ENOUGH_HELD_OUT} or more, small gains can be proven")
    lacking = without_command(workspace.store, [task.judge for task in tasks])
    problems = [f"task '{finding.task}': {finding.text}" for finding in check_tasks(tasks)]
    problems += [f"task '{tasks[n].name}': {text}" for n, text in lacking.items()]
    problems += trivial_commands(workspace.store, [task for n, task in enumerate(tasks) if n not in lacking])
    return Checked(n_tasks=len(tasks), problems=problems, remarks=remarks)
