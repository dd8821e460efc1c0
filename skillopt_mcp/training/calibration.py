"""Calibration: the live version against itself on the held-out tasks, which shows what a test can find."""

from __future__ import annotations

import random
from dataclasses import dataclass

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.calibration import Calibration
from skillopt_mcp.gates.recompute import MEASURED, CalibrateInputs
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.candidates import Decision
from skillopt_mcp.records.evidence import Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Attempt
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.outage import rollout_with_retries, score
from skillopt_mcp.training.progress import Notify, Progress, silent

LAPS_AHEAD = 4
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
    """Scores of all arms per drawn task, None where missing, and the trials they were made of."""

    scores: tuple[Scores, ...]
    trials: tuple[Trial, ...]


def drawn_laps(contest: Contest, ask: Ask, numbers: range) -> Laps:
    """Return the laps of these numbers.

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
            places.append((lap, place))
            attempts.append(Attempt(contest.arms[place], task, f"{contest.name}/{n}/{place}"))
    trials = rollout_with_retries(ask, attempts)
    scores: list[list[float | None]] = [[None] * len(contest.arms) for _ in numbers]
    for (lap, place), trial in zip(places, trials, strict=True):
        scores[lap][place] = score(trial)
    return Laps(tuple(map(tuple, scores)), tuple(trials))


GATE = "calibrate"


def run_calibration(contest: Contest, n_pairs: int, store: Store, ask: Ask, notify: Notify = silent) -> Calibration:
    """Return how a version scores against itself; both arms of the contest are that version.

    Asked again with more pairs, only the further ones are paid. Raises BadInput when not one pair has both scores.
    """
    laps: list[tuple[float | None, float | None]] = []
    trials: list[Trial] = []
    while len(laps) < n_pairs:
        notify(Progress(GATE, 0, len(laps), n_pairs))
        drawn = drawn_laps(contest, ask, range(len(laps), min(len(laps) + LAPS_AHEAD, n_pairs)))
        laps += [(first, second) for first, second in drawn.scores]
        trials += drawn.trials
    inputs = CalibrateInputs(laps=laps)
    found = inputs.calibration
    reason = f"flips {found.flip_rate:.3f}, failures {found.failure_rate:.3f} over {found.n} pairs"
    decision = contest.decision(GATE, MEASURED, reason, inputs.model_dump_json())
    store.decisions.add_evidence(decision, trials)
    return found


def latest_calibration(store: Store, skill_id: int, files_digest: str) -> Calibration | None:
    """Return what was last measured of a version, None when nothing was."""
    last = store.decisions.latest(skill_id, GATE, files_digest, files_digest)
    if last is None:
        return None
    try:
        return CalibrateInputs.model_validate_json(last.inputs).calibration
    except BadInput:
        return None
