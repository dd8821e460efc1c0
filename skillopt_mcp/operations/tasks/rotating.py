"""Rotating: test tasks that many promotion tests have looked at become train tasks, and the move is on record."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from skillopt_mcp.errors import BadInput, Refused
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.results import Result, SplitCounts
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import Skill

WORN_LOOKS = 10


class RotatingRow(BaseModel):
    """A test task to move; `n_tests` promotion tests have drawn it."""

    id: str
    n_tests: int
    prompt: str


class Rotating(BaseModel):
    """What rotating would move into train, of how many test tasks."""

    skill: str
    rows: list[RotatingRow]
    n_test: int


class Rotated(Result):
    """The tasks that moved from test into train, by name; `most_looks` is what the most used test task had before."""

    skill: str
    rotated: list[str]
    most_looks: int
    splits: SplitCounts


def review_rotation(workspace: Workspace, skill: str, n_looks: int = WORN_LOOKS) -> Rotating:
    """Return what `rotate_worn_tasks` would move; nothing is written. Raises as it does."""
    tracked = workspace.recorded(skill)
    looks = workspace.store.tasks.list_looks(tracked.id)
    worn = _worn(workspace, tracked, looks, n_looks)
    tasks = [task for task in workspace.store.tasks.list_tasks(tracked.id) if task.id in worn]
    rows = [RotatingRow(id=task.name, n_tests=worn[task.id], prompt=task.prompt) for task in tasks]
    return Rotating(skill=tracked.name, rows=rows, n_test=len(looks))


def rotate_worn_tasks(workspace: Workspace, skill: str, n_looks: int = WORN_LOOKS) -> Rotated:
    """Move the test tasks that `n_looks` promotion tests or more have drawn into train, where they go on being of use.

    Each verdict tells whoever proposes the next edit a little of the tasks it rests on. Raises BadInput when `n_looks`
    is below 1, Refused when no test task would be left or a run of the skill is unfinished: its tasks are frozen.
    """
    tracked = workspace.recorded(skill)
    store = workspace.store
    looks = store.tasks.list_looks(tracked.id)
    worn = _worn(workspace, tracked, looks, n_looks)
    store.tasks.rotate(worn)
    names = {task.id: task.name for task in store.tasks.list_tasks(tracked.id)}
    return Rotated(
        skill=tracked.name,
        rotated=[names[task_id] for task_id in worn],
        most_looks=max(looks.values(), default=0),
        splits=SplitCounts(**store.tasks.count_tasks(tracked.id)),
        next_step="Add fresh test tasks: new ones join the split that is furthest below its share."
        if worn
        else f"No test task has been drawn by {n_looks} promotion tests: nothing moved.",
    )


def _worn(workspace: Workspace, skill: Skill, looks: Mapping[int, int], n_looks: int) -> dict[int, int]:
    """Return the test tasks that may move, and how many promotion tests have drawn each."""
    if n_looks < 1:
        raise BadInput(f"looks '{n_looks}' is not possible: use 1 or more")
    worn = {task_id: n for task_id, n in looks.items() if n >= n_looks}
    if worn and len(worn) == len(looks):
        raise Refused(
            f"all {len(looks)} test tasks of '{skill.name}' were drawn by {n_looks} promotion tests or more: add "
            "fresh test tasks first, then rotate"
        )
    unfinished = [run.id for run in workspace.store.runs.list_runs(skill.id) if run.status != "finished"]
    if worn and unfinished:
        raise Refused(
            f"run '{unfinished[-1]}' of '{skill.name}' is unfinished and its tasks are frozen: finish it with "
            f"'skillopt-mcp replay {called(workspace.store, skill)} --resume', then rotate"
        )
    return worn
