"""Arms: several versions on the same drawn tasks, all rolled out afresh: what races, credit and calibration see."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.evidence import Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Attempt, rollout

MAX_TRIES = 3
LAPS_AHEAD = 4
Scores = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Contest:
    """Versions that are compared on drawn tasks; the name makes its draws its own."""

    name: str
    skill_id: int
    arms: tuple[SkillFiles, ...]
    tasks: tuple[Task, ...]


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
    """Return one trial per attempt; what is missing is tried again on draws of its own, three times in all."""
    trials = rollout(ask, attempts)
    for again in range(1, MAX_TRIES):
        missing = [i for i, trial in enumerate(trials) if trial.missing]
        if not missing:
            break
        retried = [replace(attempts[i], draw=f"{attempts[i].draw}/try{again}") for i in missing]
        for i, trial in zip(missing, rollout(ask, retried), strict=True):
            trials[i] = trial
    return trials


def score(trial: Trial) -> float | None:
    """Return the score that promotion and credit look at: passed or not."""
    return None if trial.hard is None else float(trial.hard)
