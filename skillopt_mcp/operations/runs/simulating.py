"""Simulating: whether the simulation can solve the tasks that it was put to, and the advice where it cannot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from skillopt_mcp.backends.world import right_answer
from skillopt_mcp.judges.scoring import score_leaf
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.judging import Exact, Numeric, Score
from skillopt_mcp.records.tasks import Task

REAL = "claude-code:haiku"
_WORLD = re.compile(r"simulated:\w+,seed=(\d+)")

Found = TypeVar("Found", bound=Result)


def foreign_world(workspace: Workspace, tasks: Sequence[Task]) -> str | None:
    """Return the simulation that is the target, where it made none of the tasks: it has no right answer to them."""
    world = _WORLD.match(workspace.backend("target").fingerprint)
    return world[0] if world and not any(_is_own(task, int(world[1])) for task in tasks) else None


def advised(workspace: Workspace, skill_id: int, found: Found) -> Found:
    """Return a result of the target's; a simulation of other tasks has the next step to name a real one."""
    world = foreign_world(workspace, workspace.store.tasks.list_tasks(skill_id))
    if world is None:
        return found
    step = (
        f"Name a real target, for instance --target {REAL}: '{world}' is a simulation that solves the tasks of its "
        "own world alone, and none of this skill's, so what it found says nothing about the skill."
    )
    return found.model_copy(update={"next_step": step})


def _is_own(task: Task, seed: int) -> bool:
    """Return whether the simulation of this seed made a task: it alone has the right answer to it."""
    if not isinstance(task.judge, Exact | Numeric):
        return False
    score = score_leaf(task.judge, right_answer(seed, task.prompt), ())
    return isinstance(score, Score) and score.hard
