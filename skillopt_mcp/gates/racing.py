"""Racing: several candidates of one skill on the same drawn tasks, their base arm paid once; the hopeless drop out.

A race may only drop: whoever is left has earned no promotion, but a promotion test of its own on fresh pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.betting import CURRENT_BETS, Wealth


@dataclass(frozen=True, slots=True)
class RaceRule:
    """When an arm drops out.

    `beta` bounds the chance that an arm which gains `min_effect` or more is ever dropped for being hopeless, and the
    chance that the best arm is ever dropped for being behind; the race is over after `max_laps` drawn tasks.
    """

    beta: float = 0.1
    min_effect: float = 0.05
    max_laps: int = 60
    bets: int = CURRENT_BETS

    def __post_init__(self) -> None:
        if not 0 < self.beta < 1:
            raise BadInput(f'beta "{self.beta}" is no error rate; use a number between 0 and 1, such as 0.1')
        if not 0 <= self.min_effect < 1:
            raise BadInput(f'min_effect "{self.min_effect}" is not possible; use 0 or more and less than 1')
        if self.max_laps < 1:
            raise BadInput(f'max_laps "{self.max_laps}" is not possible; use 1 or more')


@dataclass(frozen=True, slots=True)
class Lap:
    """Scores in [0, 1] on one drawn task: the base's, and each arm's; None where missing or dropped before."""

    base: float | None
    arms: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an arm stands: its mean gain over `n` laps, and why it dropped out ("" while it is in)."""

    n: int
    gain: float
    dropped: str = ""


@dataclass(slots=True)
class _Arm:
    """An arm under way, with the evidence that it is hopeless."""

    hopeless: Wealth
    n: int = 0
    sum: float = 0.0
    dropped: str = ""
    behind: dict[int, Wealth] = field(default_factory=dict)


def race(laps: Sequence[Lap], rule: RaceRule) -> list[Standing]:
    """Return the standing of every arm after `laps`, walked in the order in which they were drawn.

    Tasks must be drawn uniformly with replacement, every arm rolled out afresh (see betting). An arm drops out when a
    gain of `min_effect` or more is excluded, or when some arm is better than it beyond doubt (Bonferroni over its
    rivals); the last arm is never dropped for being behind.
    """
    n_arms = len(laps[0].arms) if laps else 0
    arms = [_Arm(Wealth(rule.bets)) for _ in range(n_arms)]
    for lap in laps[: rule.max_laps]:
        if len(lap.arms) != n_arms:
            raise BadInput(f"a lap has {len(lap.arms)} arms where others have {n_arms}: give every arm a place")
        _run(arms, lap, rule)
    return [Standing(arm.n, arm.sum / max(1, arm.n), arm.dropped) for arm in arms]


def running(standings: Sequence[Standing]) -> list[int]:
    """Return the places of the arms that are still in."""
    return [place for place, standing in enumerate(standings) if not standing.dropped]


def leader(standings: Sequence[Standing]) -> int | None:
    """Return the place of the arm that is in and gains most, when that is a gain: who goes on to a promotion test."""
    ahead = [place for place in running(standings) if standings[place].gain > 0]
    return max(ahead, key=lambda place: (standings[place].gain, -place), default=None)


def _run(arms: list[_Arm], lap: Lap, rule: RaceRule) -> None:
    scores = {place: score for place, score in enumerate(lap.arms) if score is not None and not arms[place].dropped}
    for place, score in scores.items():
        arm = arms[place]
        if lap.base is not None:
            gain = score - lap.base
            arm.n += 1
            arm.sum += gain
            arm.hopeless.take(rule.min_effect - gain)
        for rival, other in scores.items():
            if rival != place:
                arm.behind.setdefault(rival, Wealth(rule.bets)).take(other - score)
    for place in scores:
        if arms[place].hopeless.total >= 1 / rule.beta:
            arms[place].dropped = f"a gain of {rule.min_effect:g} or more is excluded"
    n_rivals = max(1, len(arms) - 1)
    for place in scores:
        arm = arms[place]
        ahead = [rival for rival, wealth in arm.behind.items() if wealth.total >= n_rivals / rule.beta]
        if not arm.dropped and any(not arms[rival].dropped for rival in ahead):
            arm.dropped = "another candidate is better"
