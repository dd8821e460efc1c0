"""Arms: several versions on the same drawn tasks, all rolled out afresh: what races, credit and calibration see."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from skillopt_mcp.records.calls import Ask, Fault
from skillopt_mcp.records.candidates import Decision
from skillopt_mcp.records.evidence import Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Attempt, judged_again, rollout

MAX_TRIES = 3
LAPS_AHEAD = 4
LOST: frozenset[Fault] = frozenset({"rate_limit", "overloaded", "server", "connection"})
"""The faults that say nothing of the answer: the target was not asked, or its vendor failed."""
Scores = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Contest:
    """Versions that are compared on drawn tasks; the name makes its draws its own."""

    name: str
    skill_id: int
    arms: tuple[SkillFiles, ...]
    tasks: tuple[Task, ...]

    def decision(self, gate: str, verdict: str, reason: str, inputs: str) -> Decision:
        """Return what a gate says of the first arm, the version that the others are compared with."""
        version = self.arms[0].digest
        return Decision(self.skill_id, gate, version, version, self.name, verdict, reason, inputs)


@dataclass(frozen=True, slots=True)
class Laps:
    """Scores of all arms per drawn task, None where missing or left out, and the trials they were made of."""

    scores: tuple[Scores, ...]
    trials: tuple[Trial, ...]


def drawn_laps(contest: Contest, ask: Ask, numbers: range, taking_part: Collection[int]) -> Laps:
    """Return the laps of these numbers, with the arms at these places.

    Every lap draws its task uniformly from all, and the order of its arms, from the contest's name and its own number:
    the same lap is drawn again after a crash, and no result can move a later draw.
    """
    attempts: list[Attempt] = []
    places: list[tuple[int, int]] = []
    for lap, n in enumerate(numbers):
        chance = random.Random(f"{contest.name}/{n}")
        task = contest.tasks[chance.randrange(len(contest.tasks))]
        order = list(range(len(contest.arms)))
        chance.shuffle(order)
        for place in order:
            if place in taking_part:
                places.append((lap, place))
                attempts.append(Attempt(contest.arms[place], task, f"{contest.name}/{n}/{place}"))
    trials = insistent_rollout(ask, attempts)
    scores: list[list[float | None]] = [[None] * len(contest.arms) for _ in numbers]
    for (lap, place), trial in zip(places, trials, strict=True):
        scores[lap][place] = score(trial)
    return Laps(tuple(map(tuple, scores)), tuple(trials))


def insistent_rollout(ask: Ask, attempts: Sequence[Attempt]) -> list[Trial]:
    """Return one trial per attempt; what was lost on the way is tried again, three times in all.

    A reply that never came is asked for on a draw of its own; an answer that no judge scored is judged again, the same
    answer. What the target itself brings about (a refusal, an answer that is cut off or empty or takes too long) stays
    missing: another draw would forgive it only to the version that does it, and count its best attempt.
    """
    trials = rollout(ask, attempts)
    for again in range(1, MAX_TRIES):
        lost = [i for i, trial in enumerate(trials) if trial.reply.fault in LOST]
        unjudged = [i for i, trial in enumerate(trials) if trial.missing and not trial.reply.missing]
        if lost:
            retried = [replace(attempts[i], draw=f"{attempts[i].draw}/try{again}") for i in lost]
            _put(trials, lost, rollout(ask, retried))
        if unjudged:
            _put(trials, unjudged, judged_again(ask, [trials[i] for i in unjudged], f"judge{again}"))
    return trials


def _put(trials: list[Trial], places: Sequence[int], better: Sequence[Trial]) -> None:
    for i, trial in zip(places, better, strict=True):
        trials[i] = trial


def score(trial: Trial) -> float | None:
    """Return the score that promotion and credit look at: passed or not."""
    return None if trial.hard is None else float(trial.hard)
