"""Rollout: the target model attempts tasks with one version of the skill, and the judges score what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from skillopt_mcp.core.calls import EVALUATION, LOST, OF_THE_TARGET, Ask, Call, Reply, Rollout, lends_threads
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
IsOver = Callable[[Sequence[Trial]], bool]
"""Whether what is left of an evaluation could change nothing, by the trials that have landed."""


class Rollouts:
    """Attempts that are under way: a judged trial of each, as it lands; what was lost on the way is asked again.

    That is three times in all. A reply that never came is asked for on a draw of its own, and without one the trial has
    no score. What the target itself brings about (an answer that is cut off, refused, empty or takes too long) is a
    failed attempt: to leave it out, or to draw again, would forgive it to the very version that does it.
    """

    def __init__(self, ask: Ask, attempts: Sequence[PlannedRollout]) -> None:
        self.attempts = tuple(attempts)
        self._ask = ask
        self._trials: list[Trial | None] = [None] * len(attempts)
        self._jobs: dict[Future[list[Trial]], int] = {}
        if lends_threads(ask) and len(attempts) > 1:
            self._jobs = {ask.submit(partial(_rolled_out, ask, [each])): n for n, each in enumerate(attempts)}
        else:
            self._trials[:] = _rolled_out(ask, attempts)
            self._ask_again()

    def wait(self) -> bool:
        """Wait until another attempt has landed; False where all have."""
        if not self._jobs:
            return False
        assert lends_threads(self._ask)
        for done in self._ask.wait_for(self._jobs):
            [self._trials[self._jobs.pop(done)]] = done.result()
        if not self._jobs:
            self._ask_again()
        return True

    @property
    def landed(self) -> list[Trial]:
        """The trials that are there and stay as they are, in order."""
        return [each for each in self._trials if each and not (self._jobs and each.reply.fault in LOST)]

    def get(self, n: int) -> Trial:
        """The trial of an attempt, once it has landed."""
        while (trial := self._trials[n]) is None or (self._jobs and trial.reply.fault in LOST):
            self.wait()
        return trial

    def get_all(self) -> list[Trial]:
        """All trials, once they have landed."""
        return [self.get(n) for n in range(len(self.attempts))]

    def drop(self) -> None:
        """Ask for no more; what is under way is kept in the store when it lands."""
        if lends_threads(self._ask):
            self._ask.drop([_call(self.attempts[n]) for n in self._jobs.values()])
        self._jobs = {}

    def _ask_again(self) -> None:
        for again in range(1, MAX_TRIES):
            lost = [n for n, trial in enumerate(self._trials) if trial and trial.reply.fault in LOST]
            if not lost or len(lost) == len(self._trials):  # where nothing came at all, it is an outage
                break
            retried = [replace(self.attempts[n], draw=f"{self.attempts[n].draw}/try{again}") for n in lost]
            for n, trial in zip(lost, _rolled_out(self._ask, retried), strict=True):
                self._trials[n] = trial


def rollout(ask: Ask, attempts: Sequence[PlannedRollout]) -> list[Trial]:
    """One judged trial per attempt, in order; see `Rollouts`."""
    return Rollouts(ask, attempts).get_all()


def _call(attempt: PlannedRollout) -> Call:
    return Call("target", "rollout", Rollout(attempt.files, attempt.task), attempt.draw)


def _rolled_out(ask: Ask, attempts: Sequence[PlannedRollout]) -> list[Trial]:
    rolled = list(zip(attempts, ask([_call(each) for each in attempts]), strict=True))
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
    return [found for trial in trials if (found := trajectory_of(trial))]


def trajectory_of(trial: Trial) -> Trajectory | None:
    """What reflection reads of a trial; None where it has no score."""
    if trial.missing:
        return None
    return Trajectory(
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


def _missing(reply: Reply) -> Score | Unscored:
    reason = f"missing ({reply.fault}): {reply.text}"
    return Score(hard=False, soft=0.0, reason=reason) if reply.fault in OF_THE_TARGET else Unscored(reason)


def _scored(version: str, task: Task, draw: str, reply: Reply, outcome: Score | Unscored) -> Trial:
    if isinstance(outcome, Unscored):
        return Trial(version, task, draw, reply, None, None, outcome.reason)
    return Trial(version, task, draw, reply, outcome.hard, outcome.soft, outcome.reason)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A version's trials on the validation tasks, their mean, and the one score that gates compare.

    One that ended early, as its version could no longer be accepted, has a score of at most `score`.
    """

    trials: tuple[Trial, ...]
    mean: Mean
    score: float
    at_most: bool = False


def evaluate(
    ask: Ask, files: SkillFiles, tasks: Sequence[Task], metric: Metric, *, draw: str, mixed_weight: float = EVEN,
    is_over: IsOver | None = None,
) -> Evaluation:  # fmt: skip
    """Return a version's evaluation; under the same draw it is paid once and serves again.

    It ends where it `is_over` by the trials that have landed.
    """
    rollouts = Rollouts(ask, [PlannedRollout(files, task, draw) for task in tasks])
    while rollouts.wait() and not (is_over and is_over(rollouts.landed)):
        continue
    trials = tuple(rollouts.landed)
    rollouts.drop()
    mean = mean_score(trials)
    return Evaluation(trials, mean, metric_value(mean, metric, mixed_weight))


def task_scores(evaluation: Evaluation) -> list[TaskScore]:
    """Return what gates compare of an evaluation: one score per task."""
    return [TaskScore(trial.task.id, trial.hard, trial.soft) for trial in evaluation.trials]
