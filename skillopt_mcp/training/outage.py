"""Outages: attempts whose answers were lost are made again, and never stored as evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skillopt_mcp.errors import Outage
from skillopt_mcp.records.calls import Ask, Fault
from skillopt_mcp.records.evidence import Trial
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


_NO_ANSWERS = LOST | {"internal"}


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
