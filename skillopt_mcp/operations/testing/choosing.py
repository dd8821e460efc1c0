"""Choosing: which of a skill's tasks a run takes: those that its target can get a score for, within the limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from skillopt_mcp.backends.base import environment_name
from skillopt_mcp.judges.scorers import attemptable
from skillopt_mcp.operations.candidates.learned import check_some_left, learned_tasks
from skillopt_mcp.operations.judging import evidence_of, origins
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.sampling import held_out
from skillopt_mcp.records.candidates import Candidate
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.records.tasks import SPLITS, Split, Task
from skillopt_mcp.splits import stratified


def chosen_tasks(workspace: Workspace, skill: Skill, config: Config, only: Collection[str] | None = None) -> list[Task]:
    """Return the tasks of a run, in the order they were added; a limit keeps each kind (the first tag) in its share.

    With `only`, digests of tasks, it takes no others. Raises BackendError when no target is set.
    """
    found = [task for task in target_tasks(workspace, skill.id) if only is None or task.digest in only]
    kept = {task.id for split in SPLITS for task in _limited(found, split, config)}
    return [task for task in found if task.id in kept]


def target_tasks(workspace: Workspace, skill_id: int, *, retired: bool = False) -> list[Task]:
    """Return the tasks in use of a skill that its target can get a score for; with `retired`, those that were, too."""
    tasks = workspace.store.tasks
    found = tasks.list_tasks(skill_id) if retired else tasks.list_in_use(skill_id)
    return attemptable(found, environment_name(workspace.backend("target")))


def tasks_to_test(
    workspace: Workspace, candidate: Candidate, tasks: Sequence[Task]
) -> tuple[list[Task], tuple[Task, ...]]:
    """Return which of these tasks the promotion test of a candidate may draw, and the held-out ones that it rests on.

    Retired tasks are left out, and those that an imported candidate may have been made from, unless the test was opened
    before: what it draws is chosen before the evidence is seen. Raises Refused when none is left for that.
    """
    store, skill_id = workspace.store, candidate.skill_id
    retired = store.retirements.list_retired(skill_id)
    learned = {task.id for task in learned_tasks(workspace, candidate, tasks)}
    gone = retired.keys() | learned
    in_use = [task for task in tasks if task.id not in gone]
    by_id = {task.id: task for task in store.tasks.list_tasks(skill_id)} if gone else {}
    for row in store.decisions.list_confirmations(skill_id, candidate.base_version, candidate.version_id):
        if gone.isdisjoint(row.tasks) or origins(row.backend)[0] != workspace.backend("target").fingerprint:
            continue
        own = tuple(by_id[task_id] for task_id in row.tasks)
        if row.backend in {evidence_of(workspace.backends_for(held)) for held in (own, held_out(tasks))}:
            return [*own, *(task for task in in_use if task not in own)], own
    held = held_out(in_use)
    check_some_left(candidate, held_out([task for task in tasks if task.id not in retired]), held)
    return in_use, held


def _limited(tasks: list[Task], split: Split, config: Config) -> list[Task]:
    own = [task for task in tasks if task.split == split]
    limit = {"train": config.limit_train, "val": config.limit_val, "test": config.limit_test}[split] or len(own)
    # By content, so that the same tasks are chosen in whatever order they were added.
    own.sort(key=lambda task: task.digest)
    kinds = [task.tags[0] if task.tags else "" for task in own]
    return [own[at] for at in stratified(kinds, limit, f"limit {split} {config.seed}")]
