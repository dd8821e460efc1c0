"""Progress: what a run tells whoever watches it; the only way that news leaves the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands. `n_done` of `n_total` steps, or pairs in the stage confirm; scores are the run's metric.

    The stage baseline has no score yet: `current` of the stage after it is what a new run sets out from.
    """

    stage: str
    epoch: int
    n_done: int
    n_total: int
    current: float | None = None
    best: float | None = None
    note: str = ""
    candidate: float | None = None

    def at(self, stage: str) -> Progress:
        """Return the same standing at another stage."""
        return replace(self, stage=stage)


# Nothing can be asked for a while; the note says why.
WAIT = "wait"
Notify = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Tell nobody."""
