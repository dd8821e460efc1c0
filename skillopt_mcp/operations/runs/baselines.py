"""Baselines: what the version that a run set out from scored on its val tasks, where no step holds that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.errors import Waiting
from skillopt_mcp.operations.answering import run_backends, tasks_of
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.gating import measured
from skillopt_mcp.records.calls import Call, Reply
from skillopt_mcp.records.evidence import Mean
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.tasks import Task


@dataclass(frozen=True, slots=True)
class _Search:
    run_id: str
    config: Config
    val: tuple[Task, ...]


def stored_baseline(workspace: Workspace, run: Run) -> Mean | None:
    """Return what the base version scored, by the replies in the store; None where it was not measured, or not whole.

    Nobody is asked.
    """
    store, backends = workspace.store, run_backends(workspace, run)

    def ask(calls: Sequence[Call], /) -> list[Reply]:
        keys = [call.key(backends[call.role].fingerprint) for call in calls]
        replies = store.calls.get_replies(keys)
        if len(replies) < len(set(keys)):
            raise Waiting(len(set(keys)) - len(replies))
        return [replies[key] for key in keys]

    val = tuple(task for task in tasks_of(workspace, run) if task.split == "val")
    base = store.skills.get_files(run.skill_id, run.base_version)
    try:
        mean = measured(_Search(run.id, Config.of_run(run.config), val), ask, base, is_current=True).mean
    except Waiting:
        return None
    return mean if mean.n else None
