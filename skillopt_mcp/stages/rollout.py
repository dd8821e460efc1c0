"""Rollout: the target model attempts tasks with one version of the skill, and the judges score what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.judges.scoring import score
from skillopt_mcp.records.calls import Ask, Call, Reply, Rollout
from skillopt_mcp.records.evidence import Trajectory, Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rollout to make: which files, which task, on whose draw."""

    files: SkillFiles
    task: Task
    draw: str


def rollout(ask: Ask, attempts: Sequence[Attempt]) -> list[Trial]:
    """Return one judged trial per attempt, in order; a missing reply is a trial without a score."""
    calls = [Call("target", "rollout", Rollout(each.files, each.task), each.draw) for each in attempts]
    return [_judged(attempt, reply) for attempt, reply in zip(attempts, ask(calls), strict=True)]


def trajectories(trials: Sequence[Trial]) -> list[Trajectory]:
    """Return what reflection may read of the trials that have a score: the hint, never the reason."""
    return [
        Trajectory(
            id=f"trial:{trial.reply.id}",
            prompt=trial.task.prompt,
            answer=trial.reply.text,
            messages=trial.reply.messages,
            hard=trial.hard,
            soft=trial.soft,
            hint=trial.hint,
            source="rollout",
        )
        for trial in trials
        if not trial.missing
    ]


def _judged(attempt: Attempt, reply: Reply) -> Trial:
    version = attempt.files.digest
    if reply.missing:
        return Trial(version, attempt.task, attempt.draw, reply, None, None, f"missing ({reply.fault}): {reply.text}")
    result = score(attempt.task.judge, reply.text)
    return Trial(version, attempt.task, attempt.draw, reply, result.hard, result.soft, result.reason, result.hint)
