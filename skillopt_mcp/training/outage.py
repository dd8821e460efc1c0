"""Outages: attempts whose answers were lost are made again, and never stored as evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from skillopt_mcp.calls.rounds import MAX_FAILED, OF_THE_CALL
from skillopt_mcp.errors import Outage
from skillopt_mcp.records.calls import Ask, Fault
from skillopt_mcp.records.evidence import Pair, Trial
from skillopt_mcp.stages.rollout import Attempt, judged_again, rollout
from skillopt_mcp.store.opening import Store

MAX_TRIES = 3
# The faults that say nothing of the answer: the target was not asked, or its vendor failed.
LOST: frozenset[Fault] = frozenset({"rate_limit", "overloaded", "server", "connection"})


def rollout_with_retries(ask: Ask, attempts: Sequence[Attempt]) -> list[Trial]:
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
def buffer_pairs(store: Store, scope: str) -> Iterator[Callable[[Draw], None]]:
    """Yield a function that stores the draws of a test; one that lacks answers waits until a later draw has some.

    What leads to an outage is not evidence, whatever its fault: it is forgotten, and asked again when the test resumes.
    So are the last draws where more than a few attempts have no answer. At a regular end all are stored.
    """
    draws: list[Draw] = []

    def keep(draw: Draw) -> None:
        draws.append(draw)
        _keep(store, scope, draws, _n_sure(draws))

    try:
        yield keep
        silent = [trial for draw in draws if draw.is_silent for trial in draw.trials]
        if len(silent) > MAX_FAILED:
            raise_if_all_failed(store, scope, silent, "the held-out tasks")
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
    """Return how many draws are known to lack only what is their own fault: something was answered after them."""
    answered = [n for n, draw in enumerate(draws) if not draw.is_silent]
    return answered[-1] + (not any(map(_is_lost, draws[answered[-1]].trials))) if answered else 0


def _is_lost(trial: Trial) -> bool:
    return trial.missing and trial.reply.fault not in OF_THE_CALL


def raise_if_unanswered(store: Store, scope: str, trials: Sequence[Trial]) -> None:
    """Raise Outage where no answer came at all. A candidate that makes the model refuse or the judge fail is rejected
    by the gate instead: asked again each time, it would hold up the run for ever.
    """
    if all(trial.reply.fault in _NO_ANSWERS for trial in trials):
        raise_if_all_failed(store, scope, trials, "the val tasks")


def raise_if_all_failed(store: Store, scope: str, trials: Sequence[Trial], what: str) -> None:
    """Raise Outage when there are trials, and none of them has a score: what is stored of them is forgotten then."""
    if not trials or not all(trial.missing for trial in trials):
        return
    store.calls.forget(scope, {trial.reply.id for trial in trials}, {trial.draw for trial in trials})
    reason = trials[-1].reason.strip().rstrip(".")
    raise Outage(
        f"none of the {len(trials)} attempts at {what} has a score, the last one because: {reason}. Fix that and "
        "resume: these attempts are made again, and no other answer is lost"
    )
