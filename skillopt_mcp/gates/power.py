"""Power: what a promotion test can find on the tasks at hand, and what it takes, by running the test in simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from functools import lru_cache
from statistics import fmean, variance
from typing import NamedTuple

from skillopt_mcp.core.evidence import Decides
from skillopt_mcp.gates.promotion import MAX_PASSES, Plan, SignTest, least_of_kind, passes_for, read_pilot
from skillopt_mcp.gates.rounds import read_rounds

GAINS = (0.08, 0.16, 0.30)
_N_TESTS = 400
_N_PAIRS = 6_000  # in rounds, that are simulated at each gain
_N_CHOICES = 1 << 12  # of signs: enough for a forecast
_WORDS = 1.0  # how far other words move the logit of a unit (standard deviation)
_WORDS_MATTER = 0.1  # of units whose answers repeat, the share that other words draw anew
MOST_OF_KIND = 60
_KIND = (0.05, 0.95)  # the share that units of a kind solve before and after an edit that is about them


class Power(NamedTuple):
    """The chance that a test finds a gain, and the mean number of attempts that it makes."""

    gain: float
    chance: float
    runs: float


def power_of(plan: Plan, earlier: Sequence[Sequence[float]]) -> list[Power]:
    """Power at no gain and at gains of .08, .16 and .30, by the base's `earlier` scores at each unit.

    A gain is even: it fixes an equal share of all failures. In a test of a kind its units alone gain.
    """
    shape = tuple((sum(scores), len(scores)) for scores in earlier)
    return [_simulated(plan, shape, gain, _N_TESTS) for gain in (0.0, *GAINS)]


def smallest_gain_found(plan: Plan, earlier: Sequence[Sequence[float]]) -> Power | None:
    """The even gain that half of the tests find, to a hundredth, and the attempts that they make; None without one."""
    shape = tuple((sum(scores), len(scores)) for scores in earlier)
    low, found = 0.02, _simulated(plan, shape, 0.60, _N_TESTS // 2)  # between which it is sought
    if found.chance < 0.5:
        return None
    while found.gain - low > 0.01:
        middle = _simulated(plan, shape, (low + found.gain) / 2, _N_TESTS // 2)
        low, found = (low, middle) if middle.chance >= 0.5 else (middle.gain, found)
    return found._replace(gain=round(found.gain, 2))


# By units, the gain that half of the first tests of a skill find and their attempts: see `smallest_gain_found`.
_FIRST_TESTS = {
    7: (0.17, 95), 8: (0.39, 88), 9: (0.27, 96), 10: (0.25, 93), 12: (0.24, 109), 14: (0.18, 124), 16: (0.17, 141),
    20: (0.16, 150), 24: (0.15, 152), 30: (0.15, 167), 40: (0.13, 189), 60: (0.12, 262), 100: (0.09, 365),
    150: (0.07, 527), 250: (0.06, 803),
}  # fmt: skip


def foresee_first_test(n_units: int) -> tuple[float, int]:
    """The gain that half of the first tests of so many units find, and their attempts; nothing is simulated."""
    n = min(max(n_units, min(_FIRST_TESTS)), max(_FIRST_TESTS))
    low, high = max(each for each in _FIRST_TESTS if each <= n), min(each for each in _FIRST_TESTS if each >= n)
    share = (n - low) / max(1, high - low)
    gain, runs = (a + (b - a) * share for a, b in zip(_FIRST_TESTS[low], _FIRST_TESTS[high], strict=True))
    return round(gain, 2), round(runs)


def _simulated(plan: Plan, shape: tuple[tuple[float, int], ...], gain: float, n_tests: int) -> Power:
    names = tuple(map(str, range(plan.n_units)))  # a test of other tasks that is planned alike is not played again
    return _played(plan.model_copy(update={"salt": "", "units": names, "tag": ""}), shape, gain, n_tests)


@lru_cache(maxsize=256)
def _played(plan: Plan, shape: tuple[tuple[float, int], ...], gain: float, n_tests: int) -> Power:
    if plan.in_rounds:
        n_tests = max(40, _N_PAIRS // (plan.max_pairs or plan.n_units))
    # The same chances at every gain.
    ends = [_play(plan, shape, gain, random.Random(f"power {world}")) for world in range(n_tests)]
    return Power(gain, fmean(is_found for is_found, _ in ends), fmean(runs for _, runs in ends))


def _rates(plan: Plan, shape: Sequence[tuple[float, int]], gain: float, chance: random.Random) -> list[list[float]]:
    """The pass rates of the units with the old and with the new text in one possible world."""
    if plan.passes == 1 and not plan.in_rounds:  # answers repeat
        before = [float(round(passed / n if n else chance.betavariate(0.5, 0.5))) for passed, n in shape]
        words = [float(chance.random() < 0.5) if chance.random() < _WORDS_MATTER else float(rate) for rate in before]
        share = min(1.0, gain / max(1e-9, 1 - fmean(words)))
        return [before, [float(chance.random() < rate + (1 - rate) * share) for rate in words]]
    mean, spread = _prior(shape)
    rates = [chance.betavariate(mean * spread + passed, (1 - mean) * spread + n - passed) for passed, n in shape]
    clipped = [min(max(rate, 1e-9), 1 - 1e-9) for rate in rates]
    moved = [1 / (1 + (1 - rate) / rate * math.exp(-chance.gauss(0, _WORDS))) for rate in clipped]
    share = (gain + fmean(rates) - fmean(moved)) / max(1e-9, 1 - fmean(moved))
    after = [rate + (1 - rate) * min(1.0, max(0.0, share)) for rate in moved]
    if plan.kind and gain:
        rates, after = [[_KIND[at] if u in plan.kind else rate for u, rate in enumerate(arm)]
                        for at, arm in enumerate((rates, moved))]  # fmt: skip
    return [rates, after]


def _prior(shape: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Mean and concentration of the pass rates of units, by their earlier attempts (passed, made)."""
    mean = (sum(passed for passed, _ in shape) + 2) / (sum(n for _, n in shape) + 4)
    seen = [(passed, n) for passed, n in shape if n >= 2]
    if len(seen) < 8:
        return mean, 1.0
    means = [passed / n for passed, n in seen]
    between = max(0.0001, variance(means) - fmean(s * (n - s) / (n * n * (n - 1)) for s, n in seen))
    spread = min(8.0, max(0.3, fmean(means) * (1 - fmean(means)) / between - 1))
    return mean, spread ** (len(seen) / (len(seen) + 10))


def _play(plan: Plan, shape: Sequence[tuple[float, int]], gain: float, chance: random.Random) -> tuple[bool, float]:
    """Whether one simulated test finds the gain, and its attempts."""
    before, after = _rates(plan, shape, gain, chance)
    if plan.in_rounds:
        rounds = (
            [(chance.random() < new) - float(chance.random() < old) for new, old in zip(after, before, strict=True)]
            for _ in range(-(-plan.max_pairs // plan.n_units))
        )
        verdict, n_read = read_rounds(rounds, plan.margin, plan.max_pairs)
        return verdict in ("better_here", "no_worse"), 2 * n_read * plan.n_units
    pilot = [float(chance.random() < rate) for rate in after[: plan.n_pilot]]
    if n_vain := read_pilot(plan, pilot):
        return False, n_vain
    turned = [chance.getrandbits(_N_CHOICES) & ~1 for _ in before]
    test = SignTest(plan, (_N_CHOICES, turned))
    while test.verdict is None:
        n_pass, unit = divmod(test.n_pairs, plan.n_units)
        is_there = n_pass == 0 and unit < len(pilot)
        test.take(
            pilot[unit] if is_there else float(chance.random() < after[unit]), float(chance.random() < before[unit])
        )
    return test.verdict == "better", 2 * test.n_pairs + max(0, len(pilot) - test.n_pairs)


def find_what_decides(plan: Plan, nets: Sequence[Sequence[int]], tags: Sequence[Collection[str]]) -> Decides | None:
    """What would probably show the gain that a test did not prove, by the nets of its units seen and the tags of all.

    The tag in which the gain lies, and how many tasks of it the next test lacks; or how many passes, or tasks of any
    kind, would show it. None where that is out of reach.
    """
    if not nets:
        return None
    found = {tag: [sum(own) for own, of in zip(nets, tags, strict=False) if tag in of] for tag in set().union(*tags)}
    moved = {tag: sums for tag, sums in found.items() if len(sums) >= 2 and sum(sums) > 0 and not plan.live}
    if moved:
        tag = max(sorted(moved), key=lambda each: sum(moved[each]))
        up, down = (sum(sign * each > 0 for each in moved[tag]) for sign in (1, -1))
        share = (up - down + 1) / (len(moved[tag]) + 2)
        n_needed = math.ceil((least_of_kind(plan.number + 1) + 1) / share) if share > 0 else MOST_OF_KIND + 1
        n_there = sum(tag in each for each in tags)
        if max(n_needed, n_there) > MOST_OF_KIND:
            return None
        add = max(0, n_needed - n_there)
        if 2 * n_there + add <= plan.n_units:  # else it would be no kind: more than half of all
            return Decides(tag=tag, add=add)
    means = [sum(own) / len(own) / plan.largest for own in nets]
    gain = math.fsum(means) / (len(means) + 4)  # two +1 and two -1 added, as in the interval
    if gain <= 0:
        return None
    shape = ((0.0, 0),) * plan.n_units
    n_more = -(-plan.n_units // 2)
    again = plan.model_copy(update={"number": plan.number + 1, "kind": (), "earlier": (), "passes": MAX_PASSES})
    if plan.passes < MAX_PASSES and _simulated(again, shape, gain, _N_TESTS // 2).chance >= 0.5:
        return Decides(passes=MAX_PASSES)
    n_units = plan.n_units + n_more
    larger = again.model_copy(update={"units": ("",) * n_units, "passes": passes_for([()] * n_units)})
    if _simulated(larger, ((0.0, 0),) * n_units, gain, _N_TESTS // 2).chance >= 0.5:
        return Decides(add=n_more)
    return None
