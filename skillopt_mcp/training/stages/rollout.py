"""Rollout: the target model attempts tasks with one version of the skill, and the judges score what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt_mcp.core.calls import EVALUATION, LOST, OF_THE_TARGET, Ask, Call, Reply, Rollout
from skillopt_mcp.core.evidence import ROLLOUT, Attempted, Mean, Metric, Trajectory, Trial
from skillopt_mcp.core.judging import Score, Unscored
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.gates.search import EVEN, TaskScore, mean_score, metric_value
from skillopt_mcp.tasks.judges.judging import judge_all


@dataclass(frozen=True, slots=True)
class PlannedRollout:
    """One rollout to make: which files, which task, on whose draw."""

    files: SkillFiles
    task: Task
    draw: str


MAX_TRIES = 3


def rollout(ask: Ask, attempts: Sequence[PlannedRollout]) -> list[Trial]:
    """One judged trial per attempt, in order; what was lost on the way is asked again, three times in all.

    A reply that never came is asked for on a draw of its own, and without one the trial has no score. What the target
    itself brings about (an answer that is cut off, refused, empty or takes too long) is a failed attempt: to leave it
    out, or to draw again, would forgive it to the very version that does it.
    """
    trials = _rolled_out(ask, attempts)
    for again in range(1, MAX_TRIES):
        lost = [i for i, trial in enumerate(trials) if trial.reply.fault in LOST]
        if not lost or len(lost) == len(trials):  # where nothing came at all, it is an outage
            break
        retried = [replace(attempts[i], draw=f"{attempts[i].draw}/try{again}") for i in lost]
        for i, trial in zip(lost, _rolled_out(ask, retried), strict=True):
            trials[i] = trial
    return trials


def _rolled_out(ask: Ask, attempts: Sequence[PlannedRollout]) -> list[Trial]:
    calls = [Call("target", "rollout", Rollout(each.files, each.task), each.draw) for each in attempts]
    rolled = list(zip(attempts, ask(calls), strict=True))
    answered = [
        Attempted(each.task, reply.text, reply.messages, each.draw) for each, reply in rolled if not reply.missing
    ]
    outcomes = iter(judge_all(ask, answered))
    return [
        _scored(each.files.digest, each.task, each.draw, reply, _missing(reply) if reply.missing else next(outcomes))
        for each, reply in rolled
    ]


def judged_again(ask: Ask, trials: Sequence[Trial], chance: str) -> list[Trial]:
    """Return trials whose answers the judges look at once more, on draws that `chance` names; the answers stay."""
    attempted = [Attempted(each.task, each.reply.text, each.reply.messages, f"{each.draw}/{chance}") for each in trials]
    outcomes = judge_all(ask, attempted)
    return [_scored(*each[:4], outcome) for each, outcome in zip(trials, outcomes, strict=True)]


def trajectories(trials: Sequence[Trial]) -> list[Trajectory]:
    """Return what reflection reads of trials of train tasks, those that have a score."""
    return [
        Trajectory(
            id=f"{ROLLOUT}{trial.reply.id}",
            prompt=trial.task.prompt,
            answer="" if trial.reply.missing else trial.reply.text,
            messages=tuple(message for message in trial.reply.messages if message.role != EVALUATION),
            hard=trial.hard,
            soft=trial.soft,
            reason=trial.reason,
            source="rollout",
            task_id=trial.task.id,
        )
        for trial in trials
        if not trial.missing
    ]


def _missing(reply: Reply) -> Score | Unscored:
    reason = f"missing ({reply.fault}): {reply.text}"
    return Score(hard=False, soft=0.0, reason=reason) if reply.fault in OF_THE_TARGET else Unscored(reason)


def _scored(version: str, task: Task, draw: str, reply: Reply, outcome: Score | Unscored) -> Trial:
    if isinstance(outcome, Unscored):
        return Trial(version, task, draw, reply, None, None, outcome.reason)
    return Trial(version, task, draw, reply, outcome.hard, outcome.soft, outcome.reason)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A version's trials on the validation tasks, their mean, and the one score that gates compare."""

    trials: tuple[Trial, ...]
    mean: Mean
    score: float


def evaluate(
    ask: Ask, files: SkillFiles, tasks: Sequence[Task], metric: Metric, *, draw: str, mixed_weight: float = EVEN
) -> Evaluation:
    """Return a version's evaluation; under the same draw it is paid once and serves again."""
    trials = tuple(rollout(ask, [PlannedRollout(files, task, draw) for task in tasks]))
    mean = mean_score(trials)
    return Evaluation(trials, mean, metric_value(mean, metric, mixed_weight))


def task_scores(evaluation: Evaluation) -> list[TaskScore]:
    """Return what gates compare of an evaluation: one score per task."""
    return [TaskScore(trial.task.id, trial.hard, trial.soft) for trial in evaluation.trials]
