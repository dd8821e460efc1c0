"""Progress: what a run tells whoever watches it; the only way that news leaves the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands: `n_done` of `n_total` steps, its scores on val by its metric.

    The stage baseline has no score yet: `current` of the stage after it is what a new run sets out from. In the stage
    confirm it is pairs of the promotion test that are done, and the scores are means of `hard` on its tasks, whatever
    the metric: `current` that of the live version, `best` that of the candidate, `note` the verdict once there is one.
    `run_id` is the run's, None where it is told of no run that `train` works on.
    """

    stage: str
    epoch: int
    n_done: int
    n_total: int
    current: float | None = None
    best: float | None = None
    note: str = ""
    candidate: float | None = None
    run_id: str | None = None

    def at(self, stage: str) -> Progress:
        """Return the same standing at another stage."""
        return replace(self, stage=stage)


# Nothing can be asked for a while; the note says why.
WAIT = "wait"
Notify = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Tell nobody."""
