"""Gate worlds: tasks with known pass rates, edits with known effects, and a rollout that is a draw of chance.

It also names all of the package that the benchmarks of the gates measure.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from skillopt_mcp.gates.calibration import calibrated, predicted_power
from skillopt_mcp.gates.confirm import ConfirmRule, alike, alpha_for, confirm, next_alpha, refund

from skillopt_mcp.gates.search import strict
from skillopt_mcp.judges.judging import score
from skillopt_mcp.judges.kinds.combined import All
from skillopt_mcp.judges.kinds.numeric import Numeric
from skillopt_mcp.judges.kinds.text import Contains
from skillopt_mcp.records.evidence import Confirmation, Pair
from skillopt_mcp.records.judging import Judge, Score

__all__ = [
    "KINDS",
    "PASS_OR_FAIL",
    "All",
    "Chance",
    "ConfirmRule",
    "Confirmation",
    "Contains",
    "Judge",
    "Numeric",
    "Pair",
    "Rates",
    "Score",
    "World",
    "alike",
    "alpha_for",
    "arms",
    "calibrated",
    "confirm",
    "fixed_pairs",
    "next_alpha",
    "normal_pairs",
    "pair_rates",
    "predicted_power",
    "proposed_effect",
    "refund",
    "score",
    "strict",
    "wald_pairs",
]

Chance = random.Random
Rates = list[float]

KINDS = ("beta55", "beta96", "half", "graded")
PASS_OR_FAIL = ("beta55", "beta96", "half")
NOISE = 0.2
# Proposals of an optimizer, by effect on the mean score and how many of a hundred have it.
PROPOSALS = ((0.08, 20), (0.0, 50), (-0.06, 15), (0.16, 10), (-0.15, 5))
_PATCH = 3


@dataclass(frozen=True)
class World:
    """Kinds: pass rates from Beta(0.5, 0.5), from Beta(0.9, 0.6), all 0.5; or graded scores around 0.5.

    In a patchy world an edit acts on a third of the tasks alone, with three times the effect.
    """

    kind: str
    n_tasks: int
    patchy: bool = False

    def rates(self, chance: Chance) -> Rates:
        """Return the pass rates (the mean scores) of the tasks."""
        if self.kind == "beta55":
            return [chance.betavariate(0.5, 0.5) for _ in range(self.n_tasks)]
        if self.kind == "beta96":
            return [chance.betavariate(0.9, 0.6) for _ in range(self.n_tasks)]
        return [0.5] * self.n_tasks

    def score(self, rate: float, chance: Chance) -> float:
        """Return the score of one rollout."""
        if self.kind == "graded":
            return min(1.0, max(0.0, chance.gauss(rate, NOISE)))
        return 1.0 if chance.random() < rate else 0.0

    def edited(self, rates: Rates, effect: float, chance: Chance) -> Rates:
        """Return the rates after an edit that moves their mean by `effect`, as far as there is room.

        A helpful edit fixes a share of what fails, a harmful one breaks a share of what passes; graded scores shift.
        """
        if effect == 0:
            return rates
        if self.kind == "graded":
            return [min(1.0, max(0.0, rate + effect)) for rate in rates]
        room = fmean(1 - rate if effect > 0 else rate for rate in rates)
        share = abs(effect) / room if room > 1e-9 else 1.0
        moved = []
        for rate in rates:
            mine = share if not self.patchy else share * _PATCH if chance.randrange(_PATCH) == 0 else 0.0
            mine = min(1.0, mine)
            moved.append(rate + mine * (1 - rate) if effect > 0 else rate * (1 - mine))
        return moved

    def measured(self, rates: Rates, chance: Chance) -> float:
        """Return the mean score of one rollout per task."""
        if self.kind == "graded":
            return fmean(self.score(rate, chance) for rate in rates)
        draw = chance.random
        return sum(draw() < rate for rate in rates) / len(rates)

    def pairs(self, base: Rates, candidate: Rates, chance: Chance) -> Iterator[Pair]:
        """Yield pairs of fresh rollouts on tasks drawn uniformly with replacement, without end."""
        while True:
            task = int(chance.random() * len(base))
            yield Pair(self.score(base[task], chance), self.score(candidate[task], chance))


def proposed_effect(chance: Chance) -> float:
    """Return the effect of the next proposal."""
    at = chance.random() * 100
    for effect, share in PROPOSALS:
        at -= share
        if at < 0:
            return effect
    return 0.0


def pair_rates(world: World, effect: float, n_worlds: int = 400) -> tuple[float, float]:
    """Return how often a candidate of this effect wins and loses a pair, over many worlds of pass or fail."""
    wins = losses = 0.0
    for seed in range(n_worlds):
        base, candidate = arms(world, effect, Chance(f"rates {world} {seed}"))
        wins += fmean(ours * (1 - theirs) for ours, theirs in zip(candidate, base, strict=True)) / n_worlds
        losses += fmean(theirs * (1 - ours) for ours, theirs in zip(candidate, base, strict=True)) / n_worlds
    return wins, losses


def arms(world: World, effect: float, chance: Chance) -> tuple[Rates, Rates]:
    """Return rates of base and candidate, `effect` apart; where all rates are 0.5 they lie around it."""
    rates = world.rates(chance)
    if world.kind in ("half", "graded"):
        return [rate - effect / 2 for rate in rates], [rate + effect / 2 for rate in rates]
    return rates, world.edited(rates, effect, chance)


def fixed_pairs(wins: float, losses: float, alpha: float, power: float) -> int:
    """Return how many pairs the exact one-sided sign test takes: the fixed-size test of paired passes and fails."""
    differing = wins + losses
    n = 5
    while True:
        reached = math.fsum(
            _binomial(n, m, differing) * _sign_power(m, wins / differing, alpha) for m in range(1, n + 1)
        )
        if reached >= power:
            return n
        n += 1


def normal_pairs(wins: float, losses: float) -> float:
    """Return how many pairs a z-test takes at an alpha of 0.05 and a power of 0.9, if its normal tails held."""
    effect = wins - losses
    return (1.644854 + 1.281552) ** 2 * (wins + losses - effect**2) / effect**2


def wald_pairs(wins: float, losses: float, alpha: float, power: float) -> float:
    """Return the mean pairs of Wald's sequential test that knows the effect: no test of this power needs fewer."""
    effect, differing = wins - losses, wins + losses
    bet = effect / differing
    growth = wins * math.log(1 + bet) + losses * math.log(1 - bet)
    return (power * math.log(power / alpha) + (1 - power) * math.log((1 - power) / (1 - alpha))) / growth


_POWERS: dict[tuple[int, float, float], float] = {}


def _sign_power(m: int, chance: float, alpha: float) -> float:
    key = (m, chance, alpha)
    if key not in _POWERS:
        tail, least = 0.0, m + 1
        while least > 0 and tail + _binomial(m, least - 1, 0.5) <= alpha:
            least -= 1
            tail += _binomial(m, least, 0.5)
        _POWERS[key] = math.fsum(_binomial(m, k, chance) for k in range(least, m + 1))
    return _POWERS[key]


def _binomial(n: int, k: int, chance: float) -> float:
    if chance in (0.0, 1.0):
        return float(k == n * chance)
    logs = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(logs + k * math.log(chance) + (n - k) * math.log(1 - chance))
