"""Comparing: contests between versions of one skill, under a lock and with a ledger of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from skillopt_mcp.calls.asking import Asker
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.errors import BadInput, Busy
from skillopt_mcp.gates.serving import listed
from skillopt_mcp.operations.judging import evidence_of
from skillopt_mcp.operations.skills.merging import check_merged
from skillopt_mcp.operations.spending.budgeting import check_caps
from skillopt_mcp.operations.spending.using import flying_in
from skillopt_mcp.operations.testing.choosing import target_tasks
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.arms import Contest
from skillopt_mcp.optimizer.sampling import held_out
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.skills import SkillFiles, short
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.store.serving import Servings

Found = TypeVar("Found")


def search_tasks(workspace: Workspace, skill_id: int) -> list[Task]:
    """Return the val tasks: what moves a choice between candidates is never seen on the tasks of a promotion test.

    Raises BadInput when there is none.
    """
    tasks = [task for task in target_tasks(workspace, skill_id) if task.split == "val"]
    if not tasks:
        raise BadInput("the skill has no val task: add tasks with add_tasks or 'skillopt-mcp tasks add'")
    return tasks


def promotion_tasks(workspace: Workspace, skill_id: int) -> list[Task]:
    """Return the tasks that a promotion test draws from. Raises BadInput when there is none."""
    tasks = list(held_out(target_tasks(workspace, skill_id)))
    if not tasks:
        raise BadInput("the skill has no held-out task (val or test): add tasks with add_tasks or 'tasks add'")
    return tasks


def new_contest(
    workspace: Workspace, kind: str, skill_id: int, arms: Sequence[SkillFiles], tasks: Sequence[Task]
) -> Contest:
    """Return the contest of these arms on these tasks; the same ones again have the same name, and so their replies.

    Raises Refused where git left a conflict in the first of them.
    """
    check_merged(arms[0])
    evidence = evidence_of(workspace.backends_for(tasks))
    parts = [kind, str(skill_id), evidence, *(arm.digest for arm in arms), *(str(task.id) for task in tasks)]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return Contest(f"{kind}-{digest[:12]}", skill_id, tuple(arms), tuple(tasks))


def told_apart(workspace: Workspace, contest: str) -> str:
    """Return a warning where the versions of a contest were answered by different models, empty where by the same."""
    models = workspace.store.room(Servings).models_of(contest)
    if len(set(map(frozenset, models.values()))) <= 1:
        return ""
    told = "; ".join(f"version {short(version)} by {listed(sorted(found))}" for version, found in models.items())
    return (
        f" Mind that not all were answered by the same models ({told}): where these differ, this compares models, not "
        "texts. Name a dated model as the target, and do it again."
    )


def carried_out(
    workspace: Workspace, contest: Contest, work: Callable[[Ask], Found], read: Sequence[Task] | None = None
) -> Found:
    """Return what `work` finds with the contest's own asker; with `read`, an optimizer reads rollouts of these tasks.

    Raises Busy when another process is at it. A KeyboardInterrupt has a note on what was under way.
    """
    lock = lock_run(workspace.store.locks_path, contest.name)
    if lock is None:
        raise Busy(f"another process is at '{contest.name}': wait for it, or stop it")
    try:
        backends = workspace.backends_for([*contest.tasks, *(read or ())])
        budget = Budget(contest.name, workspace.caps)
        if read is not None:
            backends["optimizer"] = workspace.backend("optimizer")
        check_caps(workspace.caps, backends)
        with Asker(
            workspace.store,
            backends,
            contest.name,
            n_slots=workspace.n_slots,
            budget=budget,
            on_reply=workspace.on_reply,
        ) as ask:
            return work(ask)
    except KeyboardInterrupt as stop:
        if under_way := flying_in(workspace.store, [contest.name]):
            stop.add_note(under_way)
        raise
    finally:
        lock.release()
