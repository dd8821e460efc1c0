"""Arms: several versions on the same drawn tasks, all rolled out afresh: what a calibration sees."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from skillopt_mcp.calls.rounds import MAX_FAILED, OF_THE_CALL
from skillopt_mcp.errors import Outage
from skillopt_mcp.records.calls import Ask, Fault
from skillopt_mcp.records.candidates import Decision
from skillopt_mcp.records.evidence import Pair, Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Attempt, judged_again, rollout
from skillopt_mcp.store.opening import Store

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
    """Return the score that a promotion test looks at: passed or not."""
    return None if trial.hard is None else float(trial.hard)


_NO_ANSWERS = LOST | {"internal"}


class Draw(NamedTuple):
    """Pairs of a promotion test that were asked at once, from the `first` on, each with its task's id."""

    first: int
    pairs: Sequence[tuple[int, Pair]]
    trials: Sequence[Trial]

    @property
    def is_silent(self) -> bool:
        """Return whether nothing of it has a score, and none of its attempts is to blame."""
        return all(map(_is_lost, self.trials))


@contextmanager
def kept_when_sure(store: Store, scope: str) -> Iterator[Callable[[Draw], None]]:
    """Enter with what keeps the draws of a test, each once a later one was answered where something of it is lost.

    What leads to an outage is no evidence, whatever its fault: it is forgotten then, and asked anew when the test goes
    on. So it is where the last draws are silent, and more than a few attempts. At a regular end all are kept.
    """
    draws: list[Draw] = []

    def keep(draw: Draw) -> None:
        draws.append(draw)
        _keep(store, scope, draws, _n_sure(draws))

    try:
        yield keep
        silent = [trial for draw in draws if draw.is_silent for trial in draw.trials]
        if len(silent) > MAX_FAILED:
            heard(store, scope, silent, "the held-out tasks")
    except Outage:
        lost = [trial for draw in draws for trial in draw.trials if _is_lost(trial)]
        unjudged = {trial.draw for trial in lost if not trial.reply.missing}
        store.calls.forget(scope, {trial.reply.id for trial in lost}, unjudged)
        raise
    _keep(store, scope, draws, len(draws))


def _keep(store: Store, scope: str, draws: list[Draw], n: int) -> None:
    for draw in draws[:n]:
        store.decisions.add_pairs(scope, *draw)
    del draws[:n]


def _n_sure(draws: Sequence[Draw]) -> int:
    """Return of how many draws is known whether what they lack is their own: something was answered after them."""
    heard = [n for n, draw in enumerate(draws) if not draw.is_silent]
    return heard[-1] + (not any(map(_is_lost, draws[heard[-1]].trials))) if heard else 0


def _is_lost(trial: Trial) -> bool:
    return trial.missing and trial.reply.fault not in OF_THE_CALL


def heard_candidate(store: Store, scope: str, trials: Sequence[Trial]) -> None:
    """Raise Outage as `heard` does, where that says nothing of the candidate: its answers never came.

    One that makes the model refuse, or run on, or the judge fail, is the gate's to reject: asked anew each time, it
    would hold the run up for ever.
    """
    if all(trial.reply.fault in _NO_ANSWERS for trial in trials):
        heard(store, scope, trials, "the val tasks")


def heard(store: Store, scope: str, trials: Sequence[Trial], what: str) -> None:
    """Raise Outage when there are trials, and none of them has a score: what is stored of them is forgotten then."""
    if not trials or not all(trial.missing for trial in trials):
        return
    store.calls.forget(scope, {trial.reply.id for trial in trials}, {trial.draw for trial in trials})
    reason = trials[-1].reason.strip().rstrip(".")
    raise Outage(
        f"none of the {len(trials)} attempts at {what} came to a score, the last one so: {reason}. Nothing else that "
        "was answered is lost: mend that, and go on where it stopped; they are asked anew then"
    )
