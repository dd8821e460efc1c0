"""Redraws: attempts begun anew without an answer, and when a promotion test holds them against a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillopt_mcp.documents.counts import counted

PAIRS_AT_ONCE = 8
"""Of how many pairs attempts are on their way at once, and so how many one interruption can cut short."""
SPARE = 1
"""By how many redraws beyond that the candidate may be ahead: a little luck in what an interruption meets."""


@dataclass(frozen=True, slots=True)
class Anew:
    """How often the attempts of one pair were begun anew: their process was ended, or their lease ran out."""

    base: int = 0
    candidate: int = 0


@dataclass(slots=True)
class Redraws:
    """The redraws of a promotion test, taken in pair by pair in drawn order.

    Who ends a process whenever an attempt hangs, or lets leases run out, counts the best of several attempts, and what
    is on its way at a Ctrl-C is what takes long. One interruption is forgiven: the first redraw of each attempt among
    the pairs that were on their way with the first. Beyond it, what was redrawn more often for the candidate than for
    the live version is held against it: that pair is missing, and its redraws are paid for. The other way round,
    where what is ended is what fails, they only make an accept harder.
    """

    base: int = 0
    candidate: int = 0
    n_charged: int = 0
    _first: int | None = field(default=None, init=False)
    _surplus: int = field(default=0, init=False)

    def take(self, n: int, anew: Anew) -> bool:
        """Take in the n-th pair; return whether the candidate's attempt counts as missing for its redraws."""
        if not (anew.base or anew.candidate):
            return False
        self.base += anew.base
        self.candidate += anew.candidate
        if self._first is None:
            self._first = n
        forgiven = 1 if n < self._first + PAIRS_AT_ONCE else 0
        base, candidate = (max(0, times - forgiven) for times in (anew.base, anew.candidate))
        self._surplus += candidate - base
        if not candidate or self._surplus <= SPARE:
            return False
        self._surplus -= candidate
        self.n_charged += 1
        return True

    def __str__(self) -> str:
        """Return in words how many there were, and what that cost the candidate; empty where there were none."""
        if not (self.base or self.candidate):
            return ""
        told = f"{counted(self.candidate, 'attempt')} of the candidate and {self.base} of the live version"
        told = f"{told} were begun anew"
        if not self.n_charged:
            return told
        return f"{told}, more than an interruption explains: {counted(self.n_charged, 'pair')} of it counted as missing"


def redraws_of(taken: Mapping[int, Anew]) -> Redraws:
    """Return the redraws of pairs by their numbers."""
    redraws = Redraws()
    for n, anew in sorted(taken.items()):
        redraws.take(n, anew)
    return redraws
