"""Power: what a promotion test can find on the tasks at hand, and what it takes, by running the test in simulation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean
from typing import NamedTuple

from skillopt_mcp.gates.promotion import SCREEN_ALPHA, Plan, Walk, net_result
from skillopt_mcp.gates.rounds import read_rounds

GAINS = (0.08, 0.16, 0.30)
_WORDS_MATTER = 0.1
"""Of tasks whose answers repeat, the share that any other words change by chance."""
_WORK = 6_000  # units, or pairs of attempts in rounds, that are simulated at each gain


class Power(NamedTuple):
    """The chance that a test finds a gain, and the mean number of attempts that it makes."""

    gain: float
    chance: float
    runs: float


def power_of(plan: Plan, earlier: Sequence[Sequence[float]]) -> list[Power]:
    """Return the power at no gain and at gains of .08, .16 and .30, by the base's `earlier` scores at each unit.

    A gain fixes an equal share of all failures. A unit without an earlier attempt has a pass rate of Beta(.5, .5).
    """
    shape = tuple((sum(scores), len(scores)) for scores in earlier)
    return [Power(gain, *_simulated(plan, shape, gain)) for gain in (0.0, *GAINS)]


@lru_cache(maxsize=256)
def _simulated(plan: Plan, shape: tuple[tuple[float, int], ...], gain: float) -> tuple[float, float]:
    n_worlds = max(40, _WORK // (plan.max_pairs if plan.in_rounds else plan.n_units))
    ends = [_played(plan, shape, gain, random.Random(f"power {gain} {world}")) for world in range(n_worlds)]
    return fmean(is_found for is_found, _ in ends), fmean(runs for _, runs in ends)


def _played(plan: Plan, shape: Sequence[tuple[float, int]], gain: float, chance: random.Random) -> tuple[bool, float]:
    """Return whether one simulated test finds the gain, and its attempts."""
    repeats = plan.attempts == 1 and not plan.in_rounds
    before = [_rate(*each, chance, repeats=repeats) for each in shape]
    words = [float(chance.random() < 0.5) if repeats and chance.random() < _WORDS_MATTER else rate for rate in before]
    share = min(1.0, gain / max(1e-9, 1 - fmean(words)))
    after = [rate + (1 - rate) * share for rate in words]
    if repeats:  # a failure is fixed or not, for good
        after = [float(chance.random() < rate) for rate in after]

    def drawn(rates: Sequence[float]) -> list[list[float]]:
        return [[float(chance.random() < rate) for _ in range(plan.attempts)] for rate in rates]

    if plan.in_rounds:
        n_rounds = -(-plan.max_pairs // plan.n_units)
        rounds = (
            [new[0] - old[0] for new, old in zip(drawn(after), drawn(before), strict=True)] for _ in range(n_rounds)
        )
        verdict, n_read = read_rounds(rounds, plan.margin, plan.max_pairs)
        return verdict in ("better_here", "no_worse"), 2 * n_read * plan.n_units
    candidate, base = drawn(after), drawn(before)
    n_screened = 0
    if plan.known is not None:
        screen = _walk(plan, candidate, drawn(before), SCREEN_ALPHA)
        n_screened = screen.n_seen
        if screen.verdict != "better":
            return False, plan.attempts * n_screened
    walk = _walk(plan, candidate, base, plan.alpha)
    return walk.verdict == "better", plan.attempts * (walk.n_seen + max(walk.n_seen, n_screened))


def _rate(passed: float, n: int, chance: random.Random, *, repeats: bool) -> float:
    rate = chance.betavariate(0.5 + passed, 0.5 + n - passed)
    return round(passed / n) if repeats and n else rate


def _walk(plan: Plan, candidate: Sequence[Sequence[float]], base: Sequence[Sequence[float]], alpha: float) -> Walk:
    walk = Walk(plan.n_units, plan.attempts, alpha)
    for new, old in zip(candidate, base, strict=True):
        walk.take(net_result(new, old, graded=False))
        if walk.verdict:
            break
    return walk
