"""Choosing: which of a skill's tasks a run takes: those that its target can get a score for, within the limits."""

from __future__ import annotations

from skillopt_mcp.backends.base import environment_name
from skillopt_mcp.judges.scorers import attemptable
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.records.tasks import SPLITS, Split, Task
from skillopt_mcp.splits import stratified


def chosen_tasks(workspace: Workspace, skill: Skill, config: Config) -> list[Task]:
    """Return the tasks of a run, in the order they were added; a limit keeps each kind (the first tag) in its share.

    Raises BackendError when no target is set.
    """
    found = target_tasks(workspace, skill.id)
    kept = {task.id for split in SPLITS for task in _limited(found, split, config)}
    return [task for task in found if task.id in kept]


def target_tasks(workspace: Workspace, skill_id: int) -> list[Task]:
    """Return the tasks of a skill that its target can get a score for."""
    return attemptable(workspace.store.tasks.list_tasks(skill_id), environment_name(workspace.backend("target")))


def _limited(tasks: list[Task], split: Split, config: Config) -> list[Task]:
    own = [task for task in tasks if task.split == split]
    limit = {"train": config.limit_train, "val": config.limit_val, "test": config.limit_test}[split] or len(own)
    # By content, so that the same tasks are chosen in whatever order they were added.
    own.sort(key=lambda task: task.digest)
    kinds = [task.tags[0] if task.tags else "" for task in own]
    return [own[at] for at in stratified(kinds, limit, f"limit {split} {config.seed}")]
