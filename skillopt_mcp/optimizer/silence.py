"""Silence: attempts that all came to nothing are no evidence; the run stops there, and goes on by asking them anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from skillopt_mcp.calls.pacing import MAX_FAILED, OF_THE_CALL
from skillopt_mcp.errors import Outage
from skillopt_mcp.optimizer.arms import LOST
from skillopt_mcp.records.evidence import Pair, Trial
from skillopt_mcp.store.opening import Store

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
