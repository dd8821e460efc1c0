"""Gates: how often the promotion test is wrong, what it finds and what it costs, in worlds with a known truth.

    python benchmarks/gates.py [--short] [--json] [--reps N]

Simulation: no model is asked. The test is the one that ships; a sample of its cells is run through `next_wave` and
`stand`, attempt by attempt. `--short` has fewer cells and repetitions, and wider bounds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import zip_longest
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from skillopt_mcp.core.evidence import TestAttempt
from skillopt_mcp.gates.promotion import (  # fmt: skip
    MAX_AGAIN,
    SCREEN_ALPHA,
    WAVE,
    Plan,
    Walk,
    alpha_of,
    attempts_per_arm,
    next_wave,
    stand,
)
from skillopt_mcp.gates.rounds import MAX_PAIRS, SMALL_SUITE_PAIRS, read_rounds

Chance = random.Random
Rates = list[float]
Passes = list[int]

WORLDS = ("agent", "half", "determ")
SIZES = (12, 16, 24, 30, 60)
GAINS = (0.0, 0.08, 0.16, 0.30)
# % better with a known base (docs/evidence.md), at the gains of GAINS.
EXPECTED = {
    "agent": {12: (0.2, 7, 28, 71), 16: (1.0, 12, 41, 89), 24: (0.7, 12, 42, 92), 30: (0.8, 15, 53, 97),
              60: (1.0, 33, 88, 100)},
    "half": {12: (0.6, 7, 21, 63), 16: (1.1, 10, 32, 80), 24: (1.0, 11, 37, 87), 30: (1.1, 13, 48, 95),
             60: (1.2, 28, 82, 100)},
    "determ": {12: (0, 0, 1, 13), 16: (0, 1, 5, 33), 24: (0, 2, 16, 62), 30: (0, 5, 30, 76), 60: (0.2, 24, 68, 98)},
}  # fmt: skip
AUTHORS = ("one bit", "resubmits one text", "three verdicts", "means", "each task after 3", "each task after 7")
N_TESTS = 12
WORDS = 1.5
"""How far mere words move the logit of a task (standard deviation)."""


class Outcome(NamedTuple):
    """A test: its verdict, attempts to the deciding unit and in whole waves, and the net results that it read."""

    verdict: str | None
    runs: int
    runs_with_waves: int
    nets: list[int]


def base_rates(world: str, n: int, chance: Chance) -> Rates:
    """Return the pass rates of n tasks; in the world `determ` an answer is always the same."""
    if world == "determ":
        return [float(chance.random() < 0.5) for _ in range(n)]
    shape = 0.5 if world == "agent" else 0.4
    return [chance.betavariate(shape, shape) for _ in range(n)]


def edited(world: str, rates: Rates, gain: float, chance: Chance) -> Rates:
    """Return the rates after an edit: what mere words do, then a share of the failures is fixed.

    In the world `determ` words draw a task in ten by lot, and what failed before and after is fixed or not.
    """
    if world == "agent":
        return fixed(rates, gain / 0.5)
    if world == "half":
        return fixed(moved(rates, words(len(rates), chance)), gain / 0.5)
    drawn = [float(chance.random() < 0.5) if chance.random() < 0.1 else rate for rate in rates]
    return [new or float(not old and chance.random() < gain / 0.475) for old, new in zip(rates, drawn, strict=True)]


def words(n: int, chance: Chance) -> list[float]:
    """Return how far a worthless edit moves the logit of each task."""
    return [chance.gauss(0, WORDS) for _ in range(n)]


def moved(rates: Rates, shifts: Sequence[float]) -> Rates:
    """Return rates with their logits shifted."""
    clipped = [min(max(rate, 1e-9), 1 - 1e-9) for rate in rates]
    return [1 / (1 + (1 - p) / p * math.exp(-shift)) for p, shift in zip(clipped, shifts, strict=True)]


def fixed(rates: Rates, share: float) -> Rates:
    """Return rates with this share of the failures fixed."""
    return [rate + (1 - rate) * share for rate in rates]


def passes(rates: Rates, k: int, chance: Chance) -> Passes:
    """Return how many of k attempts pass at each task."""
    draw = chance.random
    return [sum([draw() < rate for _ in range(k)]) for rate in rates]


def walked(n_units: int, k: int, alpha: float, candidate: Passes, base: Passes) -> Walk:
    """Return the test over units in order, up to its verdict."""
    walk = Walk(n_units, k, alpha)
    for ours, theirs in zip(candidate, base, strict=True):
        walk.take(ours - theirs)
        if walk.verdict:
            break
    return walk


def tested(k: int, alpha: float, known: Passes | None, candidate: Passes, fresh: Passes) -> Outcome:
    """Return what the shipped test does with these passes: it screens against the known base, the fresh one decides."""
    n, n_candidate, n_base = len(fresh), 0, 0
    if known is not None:
        walk = walked(n, k, SCREEN_ALPHA, candidate, known)
        n_candidate = walk.n_seen
    if known is None or walk.verdict == "better":
        walk = walked(n, k, alpha, candidate, fresh)
        n_candidate, n_base = max(n_candidate, walk.n_seen), walk.n_seen
    in_waves = sum(min(n, math.ceil(seen / WAVE) * WAVE) for seen in (n_candidate, n_base))
    return Outcome(walk.verdict, k * (n_candidate + n_base), k * in_waves, walk.nets)


def fresh_test(number: int, text: Rates, live: Rates, chance: Chance, k: int | None = None) -> Outcome:
    """Return the test of a text with both arms fresh: without a screen, which only closes."""
    k = k or attempts_per_arm([()] * len(live))
    return tested(k, alpha_of(number), None, passes(text, k, chance), passes(live, k, chance))


def check(k: int, alpha: float, known: Passes | None, candidate: Passes, fresh: Passes) -> None:
    """Raise AssertionError unless `next_wave` and `stand` do the same with every attempt on its own."""
    n = len(fresh)
    rows = None if known is None else tuple(tuple(float(i < passed) for i in range(k)) for passed in known)
    plan = Plan(n_units=n, attempts=k, alpha=alpha, known=rows)
    done: dict[tuple[str, int, int], TestAttempt] = {}
    while wave := next_wave(plan, list(done.values())):
        for arm, unit, i in wave:
            passed = (candidate if arm == "candidate" else fresh)[unit]
            done[arm, unit, i] = TestAttempt(arm, unit, i, float(i < passed))
    end, outcome = stand(plan, list(done.values())), tested(k, alpha, known, candidate, fresh)
    assert (end.verdict, end.units.seen, len(done)) == (outcome.verdict, len(outcome.nets), outcome.runs_with_waves)


def one_look(nets: Sequence[int], alpha: float) -> bool:
    """Return whether the sum of all net results is significant when their signs are flipped in all ways."""
    ways: list[int] = [1]  # how many choices of signs have each sum of the positive sizes
    for net in map(abs, nets):
        ways = [a + b for a, b in zip([*ways, *[0] * net], [*[0] * net, *ways], strict=True)]
    n_ways: int = sum(ways[sum(net for net in nets if net > 0) :])
    return n_ways <= alpha * math.pow(2, len(nets))


def interval(n_hits: int, n: int) -> list[float]:
    """Return a share with its 95 % Clopper-Pearson interval."""

    def bound(n_least: int, chance: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(40):
            p = (low + high) / 2
            logs = [
                math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)
                + i * math.log(p) + (n - i) * math.log1p(-p)
                for i in range(n_least)
            ]  # fmt: skip
            low, high = (p, high) if 1 - math.fsum(map(math.exp, logs)) < chance else (low, p)
        return low

    lowest = bound(n_hits, 0.025) if n_hits else 0.0
    highest = bound(n_hits + 1, 0.975) if n_hits < n else 1.0
    return [round(each, 4) for each in (n_hits / n, lowest, highest)]


def power(world: str, n: int, gain: float, reps: int) -> dict[str, float]:
    """Return how often an edit is found by the test and by an oracle that sees all units, and the mean attempts."""
    ends, n_oracle = [], 0
    for rep in range(reps):
        chance = Chance(f"power {world} {n} {gain} {rep}")
        rates = base_rates(world, n, chance)
        edit = edited(world, rates, gain, chance)
        earlier = [passes(rates, 1, chance) for _ in range(attempts_per_arm([()] * n))]
        k = attempts_per_arm(list(zip(*earlier, strict=True)))
        known = [sum(scores) for scores in zip(*earlier[:k], strict=True)]
        case = (k, alpha_of(1), known, passes(edit, k, chance), passes(rates, k, chance))
        ends.append(tested(*case))
        n_oracle += one_look([ours - theirs for ours, theirs in zip(*case[3:], strict=True)], alpha_of(1))
        if rep < 5:
            check(*case)
    return {
        "better": fmean(end.verdict == "better" for end in ends),
        "runs": round(fmean(end.runs for end in ends), 1),
        "runs_with_waves": round(fmean(end.runs_with_waves for end in ends), 1),
        "oracle": n_oracle / reps,
    }


def release(author: str, n: int, reps: int, world: str = "half") -> list[float]:
    """Return how often one of 12 tests of worthless edits promotes, by what their author sees of earlier ones."""
    return interval(sum(lucky(author, world, n, Chance(f"{author} {world} {n} {i}")) for i in range(reps)), reps)


def lucky(author: str, world: str, n: int, chance: Chance) -> bool:
    """Return whether an author of worthless edits gets one promoted in 12 tests."""
    rates, k = base_rates(world, n, chance), 1 if world == "determ" else attempts_per_arm([()] * n)
    text, kept, good, after = edited(world, rates, 0, chance), [0.0] * n, [0.0] * n, author[-1]
    for number in range(1, N_TESTS + 1):
        shifts = words(n, chance)
        if author == "one bit":
            text = edited(world, rates, 0, chance)
        elif after.isdigit():  # what helped each task, after that many tests of one edit each
            text = moved(rates, shifts if number <= int(after) else good)
        elif author != "resubmits one text":
            shifts = [a + b for a, b in zip(kept, shifts, strict=True)]
            text = moved(rates, shifts)
        end = fresh_test(number, text, rates, chance, k)
        if end.verdict == "better":
            return True
        if author == "three verdicts" and end.verdict == "cant_tell":
            kept = shifts
        if author == "means" and fmean(end.nets) >= 0.005 * k:
            kept = shifts
        if after.isdigit() and number <= int(after):
            good = [a + b * (net > 0) for a, b, net in zip_longest(good, shifts, end.nets, fillvalue=0)]
    return False


def tenth_release(n: int, reps: int) -> list[float]:
    """Return how often 15 worthless tests promote after 9 true promotions on the same tasks.

    The skill solves few tasks at first, and each true edit fixes 15 % of the failures, so that there is still some to
    find. Every second worthless edit is more of what was accepted.
    """

    def is_better(number: int, text: Rates) -> bool:
        return fresh_test(number, text, live, chance).verdict == "better"

    n_promoted = 0
    for rep in range(reps):
        chance, accepted = Chance(f"tenth {n} {rep}"), list[list[float]]()
        live = moved(base_rates("half", n, chance), [-4.0] * n)
        for _ in range(9):
            for number in range(1, N_TESTS + 1):
                shifts = words(n, chance)
                text = fixed(moved(live, shifts), 0.15)
                if is_better(number, text):
                    break  # after the last one a person promotes it all the same
            live, accepted = text, [*accepted, shifts]
        duds = [accepted[j % 9] if j % 2 else words(n, chance) for j in range(15)]
        n_promoted += any(is_better(j, moved(live, dud)) for j, dud in enumerate(duds, start=1))
    return interval(n_promoted, reps)


def missing(cause: str, rate: float, gain: float, reps: int) -> float:
    """Return how often an edit is found when attempts are lost: by the target itself, or for an unverified cause.

    Of the latter all are counted against the candidate (`bound`), or all but those that are repeated (`repeated`).
    """
    n, k, n_better = 30, 3, 0
    for rep in range(reps):
        chance = Chance(f"missing {rate} {gain} {rep}")
        rates = base_rates("agent", n, chance)
        edit, again = edited("agent", rates, gain, chance), MAX_AGAIN if cause == "repeated" else 0
        if cause == "own arm":
            rates, edit = ([p * (1 - rate) for p in arm] for arm in (rates, edit))
        arms: tuple[Passes, Passes] = ([], [])
        for at_unit in zip(edit, rates, strict=True):
            for arm, at in enumerate(at_unit):
                n_lost = sum(chance.random() < rate for _ in range(k)) if cause != "own arm" else 0
                n_bounded, again = max(0, n_lost - again), max(0, again - n_lost)
                arms[arm].append(passes([at], k - n_bounded, chance)[0] + arm * n_bounded)
        n_better += tested(k, alpha_of(1), passes(rates, k, chance), *arms).verdict == "better"
    return n_better / reps


def order(salt: bytes, n: int) -> list[int]:
    """Return the units in the order of a test: by SHA-256(salt/unit)."""
    return sorted(range(n), key=lambda unit: hashlib.sha256(salt + f"/{unit}".encode()).digest())


def grind(n_edits: int, n_spellings: int) -> int:
    """Return how many worthless edits are accepted when their author picks one of many spellings for the best order.

    It knows on which of 16 tasks mere words help, and the hash of each spelling; not the salt, which is drawn later.
    """
    n_accepted, n = 0, 16
    for i in range(n_edits):
        chance = Chance(f"grind {i}")
        rates = base_rates("half", n, chance)
        gains = [b - a for a, b in zip(rates, edited("half", rates, 0, chance), strict=True)]
        hashes = [hashlib.sha256(f"{i} {spelling}".encode()).digest() for spelling in range(n_spellings)]
        best = max(hashes, key=lambda salt: sum(gains[u] / at for at, u in enumerate(order(salt, n), start=1)))
        units = order(chance.randbytes(16), n)
        assert units != order(best, n)
        live = [rates[unit] for unit in units]
        text = [rates[unit] + gains[unit] for unit in units]
        n_accepted += fresh_test(1, text, live, chance).verdict == "better"
    return n_accepted


def rounds(base: Rates, candidate: Rates, n_pairs: int, chance: Chance) -> list[list[float]]:
    """Return the differences of rounds of all tasks."""
    pairs, draw = list(zip(base, candidate, strict=True)), chance.random
    return [[float((draw() < q) - (draw() < p)) for p, q in pairs] for _ in range(n_pairs // len(pairs))]


def no_worse(margin: float, n: int, reps: int) -> dict[str, object]:
    """Return the median pairs until a loss of the margin is excluded for equal texts, and how often at a true one."""
    pairs, n_false = [], 0
    for rep in range(reps):
        chance = Chance(f"no worse {margin} {n} {rep}")
        rates = base_rates("agent", n, chance)
        verdict, n_read = read_rounds(rounds(rates, rates, MAX_PAIRS, chance), margin)
        pairs.append(n_read * n if verdict == "no_worse" else math.inf)
        share = margin / fmean(rates)
        worse = [rate * (1 - min(1.0, share)) for rate in rates]
        n_false += share <= 1 and read_rounds(rounds(rates, worse, MAX_PAIRS, chance), margin)[0] == "no_worse"
    return {"pairs": min(median(pairs), MAX_PAIRS), "false": interval(n_false, reps)}


def worse_small(n_cases: int, loss: float, reps: int) -> dict[str, float]:
    """Return how often a small suite shows a loss, and the opposite or, without a loss, anything: the worst rate."""
    found, false = [], []
    for rate in (0.5, 0.7, 0.9):
        chance = Chance(f"small {n_cases} {loss} {rate}")
        base, candidate = [rate] * n_cases, [rate - loss] * n_cases
        ends = [read_rounds(rounds(base, candidate, SMALL_SUITE_PAIRS, chance), None, SMALL_SUITE_PAIRS)[0]
                for _ in range(reps)]  # fmt: skip
        found.append(fmean(loss > 0 and end == "worse" for end in ends))
        false.append(fmean(end == "better_here" or (loss == 0 and end == "worse") for end in ends))
    return {"found": min(found), "false": max(false)}


Job = tuple[tuple[object, ...], Callable[..., object], tuple[object, ...]]


def measure(reps: int, *, short: bool) -> dict[str, Any]:
    """Return all figures, measured on every core."""
    sizes, lives = ((16, 30), (30,)) if short else (SIZES, (16, 30, 60))
    jobs: list[Job] = [
        *((("power", w, n, g), power, (w, n, g, reps)) for n in reversed(sizes) for w in WORLDS for g in GAINS),
        *((("releases_10", n), tenth_release, (n, reps // 4 if short else reps)) for n in reversed(lives)),
        *((("release", a, n), release, (a, n, reps)) for n in reversed(lives) for a in AUTHORS),
        *((("release", f"one bit, {w}", 30), release, ("one bit", 30, reps, w)) for w in ("agent", "determ")),
        *((("no_worse", m, n), no_worse, (m, n, reps // 4 if short else reps))
          for m in (0.05, 0.10, 0.15) for n in ((30,) if short else (30, 12))),
        *((("missing", c, r, g), missing, (c, r, g, reps))
          for c in ("own arm", "bound", "repeated") for r in (0.0, 0.05, 0.10) for g in (0.0, 0.16, 0.30)),
        *((("worse_small", c, x), worse_small, (c, x, reps)) for c in (3, 6) for x in (0.0, 0.3, 0.5)),
        (("grind",), grind, (200, 64 if short else 2048)),
    ]  # fmt: skip
    found: dict[str, Any] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for path, result in [(path, pool.submit(run, *arguments)) for path, run, arguments in jobs]:
            place = found
            for name in path[:-1]:
                place = place.setdefault(str(name), {})
            place[str(path[-1])] = result.result()
    return found


class Bounds(NamedTuple):
    """What must hold; the short version has few repetitions, so its bounds leave room for chance."""

    points: float = 5.0
    false_release: float = 0.05
    grind: int = 6
    own_arm: float = 0.85


def judged(found: dict[str, Any], bounds: Bounds, reps: int) -> dict[str, Any]:
    """Return the figures, with the worst error of each world and what does not hold."""
    told = [cells for author, cells in found["release"].items() if author.startswith(AUTHORS[:2])]
    one_bit = max(share for cells in told for share, _, _ in cells.values())
    own_arm = found["missing"]["own arm"]["0.1"]["0.3"]
    missed = [
        f"power {world} {n} +{gain}: {100 * cells[str(gain)]['better']:.1f} %, expected {expected}"
        for world, rows in found["power"].items()
        for n, cells in rows.items()
        for gain, expected in zip(GAINS, EXPECTED[world][int(n)], strict=True)
        if abs(100 * cells[str(gain)]["better"] - expected) > bounds.points
    ]
    if one_bit > bounds.false_release:
        missed.append(f"a dud promoted in a release: {one_bit:.4f}, at most {bounds.false_release}")
    if found["grind"] > bounds.grind:
        missed.append(f"worthless edits accepted of 200: {found['grind']}, at most {bounds.grind}")
    if own_arm < bounds.own_arm:
        missed.append(f"power with 10 % missing: {own_arm:.3f}, at least {bounds.own_arm}")
    worst = {w: max(cells["0.0"]["better"] for cells in rows.values()) for w, rows in found["power"].items()}
    false_better = {world: interval(round(reps * share), reps) for world, share in worst.items()}
    return {**found, "false_better": false_better, "missed": missed}


def print_figures(figures: dict[str, Any]) -> None:
    """Print a line for each cell of the power, and for all other figures by their name."""
    for world, rows in figures.pop("power").items():
        for n, cells in rows.items():
            for gain, cell in cells.items():
                print(f"power {world:6} {n:>2} +{gain:4}", *(f"{key} {value:g}" for key, value in cell.items()))
    for name, cells in figures.items():
        print(f"{name}: {json.dumps(cells)}")


def main() -> int:
    """Measure, print, and return 1 when something does not hold."""
    parser = argparse.ArgumentParser(description="errors, power and cost of the promotion test, in simulation")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--short", action="store_true", help="fewer cells and repetitions, wider bounds")
    parser.add_argument("--reps", type=int, help="repetitions per cell (default 2000, short 200)")
    args = parser.parse_args()
    reps = args.reps or (200 if args.short else 2000)
    bounds = Bounds(12.0, 0.10, 8, 0.78) if args.short else Bounds()
    figures = judged(measure(reps, short=args.short), bounds, reps)
    if args.json:
        print(json.dumps(figures))
    else:
        print_figures(figures)
    return 1 if figures["missed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
