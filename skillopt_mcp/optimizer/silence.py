"""Silence: attempts that all came to nothing are no evidence; the run stops there, and goes on by asking them anew."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.errors import Outage
from skillopt_mcp.optimizer.arms import LOST
from skillopt_mcp.records.evidence import Trial
from skillopt_mcp.store.opening import Store

_NO_ANSWERS = LOST | {"internal"}


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
