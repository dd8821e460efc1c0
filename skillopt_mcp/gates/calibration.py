"""Calibration: what a promotion test can find on the tasks at hand, before anything is spent on it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.confirm import ConfirmRule, confirm
from skillopt_mcp.records.evidence import Confirmation, Pair

_BETTER, _SAME, _WORSE, _MISSING = Pair(0.0, 1.0), Pair(0.0, 0.0), Pair(1.0, 0.0), Pair(None, None)
_GAIN_STEPS, _FEW_WORLDS = 7, 300
GOOD_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Calibration:
    """How the live skill scores against itself: `n` pairs of fresh rollouts of the same version on the same task.

    `flip_rate` is the share of pairs in which the two differ, `failure_rate` the mean of 1 - score: no candidate can
    gain more than that; `missing_rate` is the share of pairs that stayed without a score in either arm.
    """

    n: int
    flip_rate: float
    failure_rate: float
    missing_rate: float = 0.0


WORST = Calibration(n=0, flip_rate=0.5, failure_rate=0.5)
"""What is assumed where nothing was measured: every task a coin flip, the noisiest there is."""


@dataclass(frozen=True, slots=True)
class Power:
    """The chance of an accept, and the mean number of pairs until a verdict or the pause."""

    power: float
    n_pairs: float


def calibrated(pairs: Sequence[Pair]) -> Calibration:
    """Return the calibration from pairs of one version against itself; each flip weighs as much as it moves a score.

    Raises BadInput when not one pair has both scores.
    """
    scored = [(pair.base, pair.candidate) for pair in pairs if pair.base is not None and pair.candidate is not None]
    if not scored:
        raise BadInput("not one pair of rollouts has both scores: see that the target answers, then calibrate again")
    n = len(scored)
    flips = sum((first - second) ** 2 for first, second in scored) / n
    failing = sum(1 - (first + second) / 2 for first, second in scored) / n
    return Calibration(n, flips, failing, (len(pairs) - n) / len(pairs))


def expected_pair_rates(calibration: Calibration, gain: float) -> tuple[float, float]:
    """Return the chances that a candidate of this gain wins and loses a pair, were it to fix a share of all failures.

    With pass rates p of the tasks and q = p + s (1 - p), s = gain / mean(1 - p), the two differ in
    mean(p (1 - q) + q (1 - p)) = F + s (mean(1 - p) - F) of all pairs, where F = 2 mean(p (1 - p)) is the flip rate.
    A loss mirrors it, a share of what passed being broken.
    """
    room = calibration.failure_rate if gain >= 0 else 1 - calibration.failure_rate
    share = min(1.0, abs(gain) / room) if room > 0 else 1.0
    differing = min(1.0, max(abs(gain), calibration.flip_rate + share * (room - calibration.flip_rate)))
    return (differing + gain) / 2, (differing - gain) / 2


def predicted_power(calibration: Calibration, gain: float, rule: ConfirmRule, n_worlds: int = 1000) -> Power:
    """Return what the promotion test does with a candidate of this gain, by running the test itself in seeded worlds.

    Raises BadInput when gain is outside [-1, 1].
    """
    ends = _ends(calibration, gain, rule, n_worlds)
    accepts = sum(end.verdict == "accept" for end in ends)
    return Power(accepts / n_worlds, sum(end.n_pairs for end in ends) / n_worlds)


def smallest_gain(calibration: Calibration, rule: ConfirmRule) -> float | None:
    """Return the smallest gain that four of five tests accept (to 1/128 of the room), None when there is none.

    No gain is larger than the failure rate: a skill that fails one task in fifty can be improved by 0.02 at most.
    """
    low, high = 0.0, calibration.failure_rate
    if high <= 0 or predicted_power(calibration, high, rule, _FEW_WORLDS).power < GOOD_POWER:
        return None
    for _ in range(_GAIN_STEPS):
        middle = (low + high) / 2
        if predicted_power(calibration, middle, rule, _FEW_WORLDS).power < GOOD_POWER:
            low = middle
        else:
            high = middle
    return high


def pairs_for(calibration: Calibration, gain: float, rule: ConfirmRule, limit: int = 2000) -> int | None:
    """Return after how many pairs four of five tests have accepted this gain; None when not within `limit`."""
    ends = _ends(calibration, gain, replace(rule, max_pairs=limit), _FEW_WORLDS)
    accepted = sorted(end.n_pairs for end in ends if end.verdict == "accept")
    wanted = math.ceil(GOOD_POWER * _FEW_WORLDS)
    return accepted[wanted - 1] if len(accepted) >= wanted else None


def _ends(calibration: Calibration, gain: float, rule: ConfirmRule, n_worlds: int) -> list[Confirmation]:
    if not -1 <= gain <= 1:
        raise BadInput(f'gain "{gain}" is no difference of mean scores; use a number from -1 to 1')
    wins, losses = expected_pair_rates(calibration, gain)
    missing = calibration.missing_rate
    # Worlds come in mirrored pairs, luck against no luck, which halves the chance in the mean over them.
    worlds = ((random.Random(f"calibration {world // 2}"), world % 2 == 1) for world in range(n_worlds))
    return [confirm(_drawn(chance, (wins, losses, missing), mirrored=mirrored), rule) for chance, mirrored in worlds]


def _drawn(chance: random.Random, rates: tuple[float, float, float], *, mirrored: bool) -> Iterator[Pair]:
    wins, losses, missing = rates
    while True:
        at = chance.random()
        at = 1 - at if mirrored else at
        if missing and chance.random() < missing:
            yield _MISSING
        else:
            yield _BETTER if at < wins else _WORSE if at > 1 - losses else _SAME
