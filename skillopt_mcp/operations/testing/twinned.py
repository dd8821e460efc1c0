"""Twinned: what to tell of held-out tasks that repeat train tasks, before a run or a test is paid for."""

from __future__ import annotations

from collections.abc import Collection

from skillopt_mcp.operations.judging import evidence_of
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.tasks.twins import told_twins
from skillopt_mcp.operations.testing.choosing import chosen_tasks, target_tasks, tasks_to_test
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.evidence import Claim
from skillopt_mcp.records.tasks import Task


def twins_in_run(workspace: Workspace, skill: str, config: Config, only: Collection[str] | None = None) -> str:
    """Return `told_twins` of a run of a skill, on the tasks of these digests `only`. Raises NotFound, BadSkill."""
    tracked = workspace.recorded(skill)
    tasks = chosen_tasks(workspace, tracked, config, only)
    return told_twins(workspace.store, tracked.id, [task for task in tasks if task.split != "train"], tasks)


def twins_in_test(workspace: Workspace, candidate_id: str, claim: Claim) -> str:
    """Return `told_twins` of the promotion test of a candidate, open or to be opened for a claim. Raises NotFound."""
    store, candidate = workspace.store, workspace.store.candidates.get_candidate(known(candidate_id))
    tasks, held = tasks_to_test(workspace, candidate, target_tasks(workspace, candidate.skill_id, retired=True))
    evidence = evidence_of(workspace.backends_for(held))
    rows = store.decisions.list_confirmations(candidate.skill_id, candidate.base_version, candidate.version_id)
    drawn: Collection[int] | None = next((row.tasks for row in rows if row.backend == evidence), None)
    if drawn is None:
        # Under the other claim a test draws no task that is like another one.
        drawn = {task.id for task in held} if claim == "these" else ()
    return told_twins(store, candidate.skill_id, _of(tasks, drawn))


def _of(tasks: Collection[Task], ids: Collection[int]) -> list[Task]:
    return [task for task in tasks if task.id in ids]
