"""Betting: how evidence against "the mean is at most 0" grows, one bounded value at a time.

Waudby-Smith and Ramdas (2024): a gambler who bets a fixed share on each value has a wealth that is a nonnegative
supermartingale while that mean is at most 0, so by Ville's inequality it ever reaches 1/alpha with a chance of at most
alpha, however often one looks. A mixture of gamblers is one too, as long as their first stakes add up to 1.
"""

from __future__ import annotations

import math

Bets = tuple[tuple[float, float], ...]
"""The gamblers of a mixture: (share that is bet, in (0, 1); first stake); the stakes add up to 1."""

BETS: dict[int, Bets] = {
    1: ((0.2, 0.25), (0.4, 0.25), (0.6, 0.2), (0.8, 0.15), (0.95, 0.15)),
    # Three gamblers lose less to each other than five; these are the shortest tests for gains of 0.16 to 0.3.
    2: ((0.2, 0.2), (0.45, 0.45), (0.85, 0.35)),
    # For credit, which looks for large effects within few pairs.
    3: ((0.3, 0.3), (0.55, 0.7)),
}
"""Every mixture that a stored verdict may rest on, by the number that the verdict keeps; never changed later."""

CURRENT_BETS = 2
CREDIT_BETS = 3
MIXTURE_COST = 0.6
"""What a mixture costs beside its best gambler, in log wealth; measured by benchmarks/gates.py."""


class Wealth:
    """The wealth of a mixture of gamblers; it starts at 1."""

    __slots__ = ("_parts", "_shares")

    def __init__(self, bets: int = CURRENT_BETS) -> None:
        self._shares = [share for share, _ in BETS[bets]]
        self._parts = [stake for _, stake in BETS[bets]]

    def take(self, value: float) -> None:
        """Bet on one value; it must be at least -1 for the wealth to stay above 0."""
        self._parts = [part * (1 + share * value) for part, share in zip(self._parts, self._shares, strict=True)]

    @property
    def total(self) -> float:
        """Return the wealth of all gamblers together."""
        return sum(self._parts)


def growth(mean: float, square: float, bets: int = CURRENT_BETS) -> float:
    """Return the log wealth that the best bet gains per value, for values of -1, 0 and 1 with these two moments."""
    square = min(1.0, max(square, mean))
    bet = min(mean / square, BETS[bets][-1][0])
    return (square + mean) / 2 * math.log(1 + bet) + (square - mean) / 2 * math.log(1 - bet)
