"""Controls: what candidates are raced beside on request: no skill at all, or the skill rewritten once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

from skillopt_mcp.errors import BadInput
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.operations.candidates.proposing import kept
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.candidates import Candidate, candidate_id
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Attempt, rollout, trajectories
from skillopt_mcp.stages.update import rewrite_once

Control = Literal["none", "rewrite"]
CONTROLS: tuple[Control, ...] = get_args(Control)
MOST_ATTEMPTS = 40
NAMES: dict[Control, str] = {"none": "no skill", "rewrite": "one-shot rewrite"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a one-shot rewrite of a version reads: recorded trajectories by id, and rollouts of train tasks by draw."""

    skill_id: int
    version: str
    sessions: tuple[int, ...]
    rollouts: tuple[tuple[Task, str], ...]

    @property
    def tasks(self) -> list[Task]:
        """Return the tasks of the rollouts."""
        return [task for task, _ in self.rollouts]

    def named(self, optimizer: str) -> str:
        """Return what names the rewrite of this evidence by an optimizer (its fingerprint): more is another rewrite."""
        draws = [(task.id, draw) for task, draw in self.rollouts]
        parts = (optimizer, self.skill_id, self.version, self.sessions, draws)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def evidence_for(workspace: Workspace, skill_id: int, version: str) -> Evidence:
    """Return the newest attempts that candidates of a version could learn from, at most 40 of either kind.

    Raises BadInput when there is none.
    """
    store = workspace.store
    by_id = {task.id: task for task in store.tasks.list_tasks(skill_id)}
    sessions = store.trajectories.recent_trajectories(skill_id, MOST_ATTEMPTS)
    draws = store.trajectories.list_train_draws(skill_id, version, MOST_ATTEMPTS)
    if not sessions and not draws:
        raise BadInput(
            "there is nothing to rewrite the skill from: record attempts with record_trajectory, or run "
            "'skillopt-mcp replay' first; the control 'none' needs nothing"
        )
    rollouts = tuple((by_id[task_id], draw) for task_id, draw in draws)
    return Evidence(skill_id, version, tuple(sessions), rollouts)


def rewrite(workspace: Workspace, ask: Ask, base: SkillFiles, evidence: Evidence) -> Candidate:
    """Return the candidate that one optimizer call makes of all the evidence; stored rollouts are not paid again.

    Raises BadInput when the optimizer gives no usable text, or changes nothing.
    """
    store = workspace.store
    trials = rollout(ask, [Attempt(base, task, draw) for task, draw in evidence.rollouts])
    sessions = (store.trajectories.find_sound(each) for each in evidence.sessions)
    attempts = [*trajectories(trials), *(each[1] for each in sessions if each)]
    made = rewrite_once(ask, base, attempts, f"one-shot/{base.digest}")
    if made.applied.files == base:
        why = made.unusable[0] if made.unusable else "the new text is the old one"
        raise BadInput(f"the optimizer gave no rewrite to race ({why}): race without the control 'rewrite'")
    version = made.applied.files.digest
    new = Candidate(
        id=candidate_id(evidence.skill_id, base.digest, version),
        skill_id=evidence.skill_id,
        base_version=base.digest,
        version_id=version,
        origin="host",
        reasoning=f"one-shot rewrite, a control: {made.patch.reasoning}",
        findings=findings(base, made.applied.files, workspace.known),
    )
    return kept(workspace, new, made.patch, made.applied)
