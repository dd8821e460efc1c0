"""Outages: attempts whose answers were lost are made again, and never stored as evidence."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.core.calls import LOST, Ask
from skillopt_mcp.core.errors import Outage
from skillopt_mcp.core.evidence import Trial
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.stages.rollout import MAX_TRIES, PlannedRollout, judged_again, rollout


def rollout_with_retries(ask: Ask, attempts: Sequence[PlannedRollout]) -> list[Trial]:
    """One trial per attempt, as `rollout` makes them; an answer that no judge scored is judged again, the same answer,
    three times in all.
    """
    trials = rollout(ask, attempts)
    for again in range(1, MAX_TRIES):
        unjudged = [i for i, trial in enumerate(trials) if trial.missing and not trial.reply.missing]
        judged = judged_again(ask, [trials[i] for i in unjudged], f"judge{again}") if unjudged else ()
        for i, trial in zip(unjudged, judged, strict=True):
            trials[i] = trial
    return trials


_NO_ANSWERS = LOST | {"internal"}


def raise_if_unanswered(store: Store, scope: str, trials: Sequence[Trial]) -> None:
    """Raise Outage where no answer came at all. A candidate that makes the model refuse or the judge fail is rejected
    by the gate instead: asked again each time, it would hold up the run for ever.
    """
    if all(trial.reply.fault in _NO_ANSWERS for trial in trials):
        raise_if_all_failed(store, scope, trials, "the val tasks")


def raise_if_no_baseline(store: Store, scope: str, trials: Sequence[Trial]) -> None:
    """Raise Outage where the target answered none of the val tasks with the live version, whatever the cause."""
    if all(trial.missing or trial.reply.missing for trial in trials):
        _raise_outage(store, scope, trials, "the val tasks")


def raise_if_all_failed(store: Store, scope: str, trials: Sequence[Trial], what: str) -> None:
    """Raise Outage when there are trials, and none of them has a score: what is stored of them is forgotten then."""
    if all(trial.missing for trial in trials):
        _raise_outage(store, scope, trials, what)


def _raise_outage(store: Store, scope: str, trials: Sequence[Trial], what: str) -> None:
    if not trials:
        return
    store.calls.forget(scope, {trial.reply.id for trial in trials}, {trial.draw for trial in trials})
    reason = trials[-1].reason.strip().rstrip(".")
    raise Outage(
        f"none of the {len(trials)} attempts at {what} has an answer with a score, the last one because: {reason}. "
        "Fix that and resume: these attempts are made again, and no other answer is lost"
    )
