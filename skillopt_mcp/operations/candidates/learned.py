"""Learned: the tasks that a candidate of another store may have been made from, which prove nothing about it here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from skillopt_mcp.errors import Refused
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import IMPORTED, Candidate
from skillopt_mcp.records.tasks import SPLITS, Task, asked_digest
from skillopt_mcp.store.learned import LearnedTasks, note_nearest


def learned_tasks(workspace: Workspace, candidate: Candidate, tasks: Sequence[Task]) -> list[Task]:
    """Return those of the tasks that were nearer to training where an imported candidate was made than they are here.

    A task is the same by its digest, or by what it asks; what a train or val task here asks, a test task does not ask
    anew.
    """
    if IMPORTED not in candidate.findings:
        return []
    return further_held_out(workspace, candidate.skill_id, tasks)


def further_held_out(workspace: Workspace, skill_id: int, tasks: Sequence[Task]) -> list[Task]:
    """Return those of the tasks that an import, or another task here, holds nearer to training than they are."""
    nearest = workspace.store.room(LearnedTasks).nearest(skill_id)
    asked = {task.id: asked_digest(task.prompt, task.files) for task in tasks}
    own = workspace.store.tasks.list_tasks(skill_id)
    note_nearest(nearest, ((asked_digest(task.prompt, task.files), task.split) for task in own))
    last = len(SPLITS)
    return [
        task
        for task in tasks
        if min(nearest.get(task.digest, last), nearest.get(asked[task.id], last)) < SPLITS.index(task.split)
    ]


def check_some_left(candidate: Candidate, held: Collection[Task], left: Collection[Task]) -> None:
    """Raise Refused when a candidate was made from all that could test it."""
    if held and not left:
        raise Refused(
            f"all {len(held)} held-out tasks were train or val tasks where candidate '{candidate.id}' was made, and so "
            "say nothing about it: add test tasks that no store has trained on; nothing was spent"
        )


def told_learned(workspace: Workspace, candidate: Candidate, drawn: Collection[int]) -> str:
    """Return what a verdict must say of the tasks that a candidate may have been made from; empty when there are none.

    `drawn` are the ids of the tasks that its promotion test draws.
    """
    known = learned_tasks(workspace, candidate, workspace.store.tasks.list_in_use(candidate.skill_id))
    inside = sum(task.id in drawn for task in known)
    if inside:
        return f"; {inside} of its tasks were train or val where the candidate was made"
    return f"; without {len(known)} tasks that were train or val where the candidate was made" if known else ""
