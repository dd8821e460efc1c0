"""Pacing: how many pairs a promotion test asks ahead; what lies beyond the deciding one is done in vain."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.gates.redraws import PAIRS_AT_ONCE

MOST = 16
FEW = 6


@dataclass(frozen=True, slots=True)
class Pace:
    """How many pairs are asked ahead at `most`; where it is said that no verdict takes less than `sure`, often fewer.

    `besides` are asked for those that may never come back. It follows from how many pairs are done and not from their
    scores: whoever makes the attempts sees what is asked.
    """

    most: int = PAIRS_AT_ONCE
    sure: int | None = None
    besides: int = 0

    def ahead(self, n_done: int) -> int:
        """Return how many pairs to ask ahead of so many that are done: what is surely used, or half as many, or few."""
        if self.sure is None:
            return self.most
        serving = max(self.sure - n_done, n_done // 2, FEW)
        return max(1, min(min(self.most, serving) + self.besides, MOST))


USUAL = Pace()
