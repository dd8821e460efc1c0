"""Gates: how often the promotion test is wrong, what it finds and what it costs, in worlds with a known truth.

    python benchmarks/gates.py [--short] [--json] [--reps N]
    python benchmarks/gates.py --decide FILE [--json]

Simulation: no model is asked. The test is the one that ships, next to the one before it (`walk.py`), on the same
worlds, with 16 attempts under way. `--short` has fewer cells and repetitions, and wider bounds. `--decide` reads one
path of attempts (docs/evidence.md) and says what the test that ships decides on it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, ValidationError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import walk
from skillopt_mcp.core.evidence import Arm, TestAttempt
from skillopt_mcp.gates.power import power_of
from skillopt_mcp.gates.promotion import (
    MAX_AGAIN,
    MIN_UNITS,
    Plan,
    Reading,
    SignTest,
    alpha_of,
    order_units,
    passes_for,
    read_pilot,
    stand,
)  # fmt: skip
from skillopt_mcp.gates.rounds import MAX_PAIRS, SMALL_SUITE_PAIRS, read_rounds

Chance = random.Random
Rates = list[float]
Passes = list[int]

WORLDS = ("agent", "half", "determ")
SIZES = (12, 16, 24, 30, 60)
GAINS = (0.0, 0.08, 0.16, 0.30)
AUTHORS = ("one bit", "resubmits one text", "keeps what it cannot tell")
N_TESTS = 12
WORDS = 1.5
"""How far mere words move the logit of a task (standard deviation)."""
SLOTS = 16
REAL = Path(__file__).resolve().parents[1] / "tests" / "real_noise"
# The goals of docs/evidence.md: runs of the test against those of the one before, and points of power more.
RUNS_AT_NONE = {16: 0.62, 30: 0.75, 60: 0.68}
RUNS_AT_30 = {16: 0.80, 30: 0.88, 60: 0.82}
MORE_AT_16 = {16: 4, 24: 16, 30: 11, 60: -3}
RUIN = {16: 0.5, 30: 0.5, 60: 0.4}


class Outcome(NamedTuple):
    """A test: its verdict, its attempts with those that were under way, and the mean net result of a pair."""

    verdict: str | None
    runs: int
    net: float


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


def played(
    number: int, text: Rates, live: Rates, chance: Chance, k: int = 0, kind: Sequence[int] = (),
    earlier: Sequence[Sequence[float]] = (), lost: Callable[[], bool] = lambda: False, *, is_live: bool = False,
) -> Outcome:  # fmt: skip
    """The test that ships on a text against the live one, each attempt drawn when it is asked."""
    n, draw = len(live), chance.random
    salt = f"{chance.getrandbits(128):032x}"
    plan = Plan(
        salt=salt, units=tuple(order_units(map(str, range(n)), salt)), number=number, live=is_live,
        passes=k or passes_for(earlier or [()] * n), kind=tuple(kind), earlier=tuple(map(tuple, earlier)),
    )  # fmt: skip
    pilot = [float(draw() < rate) for rate in text[: plan.n_pilot]]
    if n_vain := read_pilot(plan, pilot):
        return Outcome("not_better", min(n_vain + SLOTS - 1, len(pilot) + SLOTS), 0.0)
    test, nets = SignTest(plan), 0
    while test.verdict is None:
        number_of_pass, unit = divmod(test.n_pairs, n)
        is_there = number_of_pass == 0 and unit < len(pilot)
        new = pilot[unit] if is_there else float(draw() < text[unit])
        old = float(draw() < live[unit])
        new, old = (0.0 if lost() else new), (1.0 if lost() else old)
        nets += round(new - old)
        test.take(new, old)
    runs = 2 * test.n_pairs + max(0, len(pilot) - test.n_pairs)
    return Outcome(test.verdict, min(runs + SLOTS - 1, plan.most_runs), nets / test.n_pairs)


def played_before(
    number: int, text: Rates, live: Rates, chance: Chance, known: Sequence[Sequence[float]] = (), k: int = 0
) -> tuple[str | None, int]:
    """The test before on the same texts, with its verdict and runs; `known` has k earlier attempts of the live text."""
    k = k or walk.attempts_per_arm(len(live), repeats=False)
    arms = passes(text, k, chance), passes(live, k, chance)
    return walk.tested(k, float(alpha_of(number)), *arms, [round(sum(each[:k])) for each in known] if known else None)


def power(world: str, n: int, gain: float, reps: int) -> dict[str, dict[str, float]]:
    """How often an edit is found, and the mean attempts, with both arms fresh and with three earlier attempts."""
    found: dict[str, list[tuple[str | None, float]]] = {"new": [], "before": [], "new, known": [], "before, known": []}
    for rep in range(reps):
        chance = Chance(f"power {world} {n} {gain} {rep}")
        rates = base_rates(world, n, chance)
        edit = edited(world, rates, gain, chance)
        k = walk.attempts_per_arm(n, repeats=world == "determ")
        earlier = [[float(chance.random() < rate) for _ in range(max(2, k))] for rate in rates]
        repeats = world == "determ"
        found["new"].append(played(1, edit, rates, chance)[:2])
        found["before"].append(played_before(1, edit, rates, chance, k=k))
        found["new, known"].append(played(1, edit, rates, chance, earlier=earlier, k=int(repeats))[:2])
        found["before, known"].append(played_before(1, edit, rates, chance, earlier, k))
    return {
        name: {"better": fmean(end == "better" for end, _ in ends), "runs": round(fmean(runs for _, runs in ends), 1)}
        for name, ends in found.items()
    }


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


def false_better(world: str, n: int, reps: int) -> dict[str, list[float]]:
    """How often the same text, or one with other words that help as often as they harm, is better."""
    same = words = 0
    for rep in range(reps):
        chance = Chance(f"false {world} {n} {rep}")
        rates = base_rates(world, n, chance)
        same += played(1, rates, rates, chance).verdict == "better"
        words += played(1, moved(rates, [chance.gauss(0, 1.5) for _ in rates]), rates, chance).verdict == "better"
    return {"same": interval(same, reps), "words": interval(words, reps)}


def ruin(n: int, reps: int) -> dict[str, float]:
    """How often an edit passes that lifts most tasks from .9 to 1 and ruins one in ten: no gain on average."""
    new = before = 0
    for rep in range(reps):
        chance = Chance(f"ruin {n} {rep}")
        text = [0.0 if chance.random() < 0.1 else 1.0 for _ in range(n)]
        new += played(1, text, [0.9] * n, chance).verdict == "better"
        before += played_before(1, text, [0.9] * n, chance)[0] == "better"
    return {"new": new / reps, "before": before / reps, "ratio": new / max(1, before)}


def release(author: str, n: int, reps: int) -> list[float]:
    """How often one of 12 tests of worthless edits promotes, by what their author sees of earlier ones."""
    return interval(sum(is_lucky(author, n, Chance(f"{author} {n} {i}")) for i in range(reps)), reps)


def is_lucky(author: str, n: int, chance: Chance) -> bool:
    rates, kept = base_rates("half", n, chance), [0.0] * n
    text = moved(rates, words(n, chance))
    for number in range(1, N_TESTS + 1):
        shifts = words(n, chance)
        if author != AUTHORS[1]:
            shifts = [a + b for a, b in zip(kept, shifts, strict=True)]
            text = moved(rates, shifts)
        end = played(number, text, rates, chance)
        if end.verdict == "better":
            return True
        if author == AUTHORS[2] and end.verdict == "cant_tell":
            kept = shifts
    return False


def kind(n_fixed: int, reps: int, n: int = 24) -> dict[str, float]:
    """How often an edit about one kind is found that fixes all of it, and one that ruins as many others."""
    found = trade = 0
    for rep in range(reps):
        chance = Chance(f"kind {n_fixed} {rep}")
        places = chance.sample(range(n), 2 * n_fixed)
        own, others = places[:n_fixed], places[n_fixed:]
        rates = [0.0 if unit in own else 0.95 for unit in range(n)]
        fixed_all = [1.0 if unit in own else rate for unit, rate in enumerate(rates)]
        traded = [0.0 if unit in others else rate for unit, rate in enumerate(fixed_all)]
        found += played(1, fixed_all, rates, chance, kind=own).verdict == "better"
        trade += played(1, traded, rates, chance, kind=own).verdict == "better"
    return {"of": n, "fixed": n_fixed, "found": found / reps, "trade": trade / reps}


def worse(loss: float, n: int, reps: int) -> float:
    """How often a live text that solves fewer is called worse; with no loss, how often wrongly."""
    n_worse = 0
    for rep in range(reps):
        chance = Chance(f"worse {loss} {n} {rep}")
        rates = base_rates("agent", n, chance)
        text = [rate * (1 - loss / 0.5) for rate in rates]
        n_worse += played(1, text, rates, chance, is_live=True).verdict == "worse"
    return n_worse / reps


def forecast(n: int, reps: int) -> dict[str, float]:
    """What the forecast foresees at a gain of .16 with one earlier attempt, in the mean, and how often it is so."""
    foreseen, n_found = [], 0
    for rep in range(reps):
        chance = Chance(f"forecast {n} {rep}")
        rates = base_rates("agent", n, chance)
        n_found += played(1, edited("agent", rates, 0.16, chance), rates, chance).verdict == "better"
        if rep < 16:
            plan = Plan(salt="", units=tuple(map(str, range(n))), passes=passes_for([()] * n))
            rows = power_of(plan, [[float(chance.random() < rate)] for rate in rates])
            foreseen.append(next(row.chance for row in rows if row.gain == 0.16))
    return {"true": n_found / reps, "foreseen": round(fmean(foreseen), 3)}


def real_noise(skill: str, other: str, reps: int) -> dict[str, list[float]]:
    """How often a real model's outcomes with two texts that are alike are called better, each attempt used once.

    Next to it two usual rules: the higher mean of three attempts a task, and more tasks solved than before.
    """
    cells: dict[str, str] = json.loads((REAL / f"{skill}.json").read_text())
    tasks = sorted({name.partition("/")[2] for name in cells})
    n_better = {"test": 0, "mean of three": 0, "strict gate": 0}
    for rep in range(reps):
        chance = Chance(f"real {skill} {other} {rep}")
        drawn = chance.sample(tasks, min(40, len(tasks)))
        k = min(passes_for([()] * len(drawn)), len(cells[f"base/{drawn[0]}"]) // 2)
        arms: list[tuple[list[float], list[float]]] = []
        for name in drawn:
            base = chance.sample(cells[f"base/{name}"], 2 * k)
            text = base[k:] if other == "base" else chance.sample(cells[f"{other}/{name}"], k)
            arms.append(([float(each) for each in text], [float(each) for each in base[:k]]))
        salt = f"{chance.getrandbits(128):032x}"
        test = SignTest(Plan(salt=salt, units=tuple(order_units(drawn, salt)), passes=k))
        while test.verdict is None:
            number, unit = divmod(test.n_pairs, len(drawn))
            test.take(arms[unit][0][number], arms[unit][1][number])
        n_better["test"] += test.verdict == "better"
        n_better["mean of three"] += sum(sum(new[:3]) - sum(old[:3]) for new, old in arms) > 0
        n_better["strict gate"] += sum(new[0] - old[0] for new, old in arms) > 0
    return {rule: interval(n, reps) for rule, n in n_better.items()}


def missing(cause: str, rate: float, gain: float, reps: int) -> float:
    """How often an edit is found when attempts are lost: in their own arm, or for an unverified cause.

    Of the latter all count against the candidate (`bound`), or all but those that are repeated (`repeated`).
    """
    n, n_better = 30, 0
    for rep in range(reps):
        chance = Chance(f"missing {rate} {gain} {rep}")
        rates = base_rates("agent", n, chance)
        edit, left = edited("agent", rates, gain, chance), [MAX_AGAIN if cause == "repeated" else 0]
        if cause == "own arm":
            rates, edit = ([p * (1 - rate) for p in arm] for arm in (rates, edit))

        def lost(chance: Chance = chance, left: list[int] = left) -> bool:
            if cause == "own arm" or chance.random() >= rate:
                return False
            left[0] -= 1
            return left[0] < 0

        n_better += played(1, edit, rates, chance, lost=lost).verdict == "better"
    return n_better / reps


def grind(n_edits: int, n_spellings: int) -> int:
    """How many worthless edits are accepted when their author picks one of many spellings for the best order.

    It knows on which of 16 tasks mere words help, and how each spelling would order them; not the salt, drawn later.
    """
    n_accepted, n = 0, 16
    for i in range(n_edits):
        chance = Chance(f"grind {i}")
        rates = base_rates("half", n, chance)
        gains = [b - a for a, b in zip(rates, edited("half", rates, 0, chance), strict=True)]
        names = [str(unit) for unit in range(n)]

        def score(spelling: int, gains: Sequence[float] = gains, i: int = i, names: Sequence[str] = names) -> float:
            order = order_units(names, f"{i} {spelling}")
            return sum(gains[int(name)] / at for at, name in enumerate(order, start=1))

        max(range(n_spellings), key=score)
        units = [int(name) for name in order_units(names, f"{chance.getrandbits(128):032x}")]
        text = [rates[unit] + gains[unit] for unit in units]
        n_accepted += played(1, text, [rates[unit] for unit in units], chance).verdict == "better"
    return n_accepted


def verify_ms(n: int = 60) -> float:
    """How long a test of 60 units takes to recompute that goes to its end, in milliseconds: the median of nine."""
    plan = Plan(salt="00" * 16, units=tuple(map(str, range(n))), passes=4)
    attempts = [
        TestAttempt(arm, unit, number, float((unit + number) % 2 or (arm == "candidate" and unit % 5 == number)))
        for number in range(4) for unit in range(n) for arm in ("base", "candidate")
    ]  # fmt: skip
    taken = []
    for _ in range(9):
        started = time.perf_counter()
        stand(plan, attempts)
        taken.append(1000 * (time.perf_counter() - started))
    return round(median(taken), 1)


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
        found.append(fmean(loss > 0 and end == "worse_here" for end in ends))
        false.append(fmean(end == "better_here" or (loss == 0 and end == "worse_here") for end in ends))
    return {"found": min(found), "false": max(false)}


Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class GivenPath(BaseModel):
    """A path of attempts, as [arm, unit, pass from 0, score or null for lost]: see docs/evidence.md."""

    salt: str = Field(pattern="^[0-9A-Fa-f]+$")
    units: list[str] = Field(min_length=MIN_UNITS)
    number: int = Field(default=1, ge=1, le=1_000)
    graded: bool = False
    live: bool = False
    kind: list[str] | None = None
    earlier: dict[str, list[Score]] | None = None
    attempts: list[tuple[Arm, str, Annotated[int, Field(ge=0)], Score | None]]


def decide(path: Path) -> dict[str, object]:
    """What the test that ships decides on a path of attempts. Raises ValueError for one that no test has."""
    given = GivenPath.model_validate_json(path.read_bytes())
    units = order_units(given.units, given.salt)
    places = {name: at for at, name in enumerate(units)}
    if len(places) < len(units):
        raise ValueError("units: a name stands there twice")
    kind, known = given.kind or [], given.earlier or {}
    if unknown := {*kind, *known, *(unit for _, unit, _, _ in given.attempts)} - places.keys():
        raise ValueError(f'"{min(unknown)}" is not in units')
    earlier = [tuple(known.get(name, ())) for name in units]
    plan = Plan(
        salt=given.salt,
        units=tuple(units),
        passes=passes_for(earlier),
        number=given.number,
        graded=given.graded,
        live=given.live,
        kind=tuple(sorted({places[name] for name in kind})),
        earlier=tuple(earlier) if any(earlier) else (),
    )
    if beyond := [each for each in given.attempts if each[2] >= plan.passes]:
        raise ValueError(f"attempts: the passes are 0 to {plan.passes - 1}, got {beyond[0][2]}")
    reading = Reading(
        plan,
        [TestAttempt(arm, places[unit], number, score or 0.0, "bounded" if score is None else "")
         for arm, unit, number, score in given.attempts],
    )  # fmt: skip
    standing, signs = reading.standing(), reading.signs
    assert signs  # in rounds are only tests of fewer units, of one kind alone or with a margin
    total, least, *most = signs.path[-1] if signs.path else (0, None)
    bound = signs.p_bound
    return {
        "verdict": standing.verdict,
        "pairs": standing.pairs,
        "passes": plan.passes,
        "repeats": signs.repeats,
        "p_bound": f"{bound.numerator}/{bound.denominator}" if bound is not None else None,
        "least": -most[0] if standing.verdict == "worse" else least,
        "total": total,
    }


Job = tuple[tuple[object, ...], Callable[..., object], tuple[object, ...]]


def measure(reps: int, *, short: bool) -> dict[str, Any]:
    """All figures, measured on every core."""
    sizes, lives = ((16, 30), (30,)) if short else (SIZES, (16, 30, 60))
    few = reps // 4 if short else reps
    jobs: list[Job] = [
        *((("power", w, n, g), power, (w, n, g, reps)) for n in reversed(sizes) for w in WORLDS for g in GAINS),
        *((("false_better", w, n), false_better, (w, n, reps)) for n in sizes for w in ("agent", "half")),
        *((("ruin_ratio", n), ruin, (n, reps)) for n in lives),
        *((("release", a, n), release, (a, n, few)) for n in reversed(lives) for a in AUTHORS),
        *((("kind", m), kind, (m, reps)) for m in (6, 8)),
        *((("worse", x, n), worse, (x, n, reps)) for x in (0.0, 0.16, 0.30) for n in (sizes if short else SIZES)),
        *((("forecast", n), forecast, (n, reps)) for n in (16, 30)),
        *((("real_noise", f"{s}, {o}"), real_noise, (s, o, reps))
          for s, o in (("plural", "base"), ("plural", "reword"), ("kind", "base"), ("kind", "reword"))),
        *((("no_worse", m, n), no_worse, (m, n, few))
          for m in (0.05, 0.10, 0.15) for n in ((30,) if short else (30, 12))),
        *((("missing", c, r, g), missing, (c, r, g, few))
          for c in ("own arm", "bound", "repeated") for r in (0.05, 0.10) for g in (0.0, 0.16, 0.30)),
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
    found["verify_ms"] = verify_ms()
    agent = found["power"]["agent"]
    found["runs_ratio"] = {
        str(gain): {n: round(cells[str(gain)]["new"]["runs"] / cells[str(gain)]["before"]["runs"], 3)
                    for n, cells in agent.items()}
        for gain in GAINS
    }  # fmt: skip
    return found


def judged(found: dict[str, Any], slack: float) -> dict[str, Any]:
    """The figures, with what misses a goal of docs/evidence.md; `slack` leaves room for chance, in standard errors."""
    agent, missed = found["power"]["agent"], list[str]()

    def expect(what: str, figure: float, goal: float, room: float, *, at_most: bool = True) -> None:
        if figure > goal + slack * room if at_most else figure < goal - slack * room:
            missed.append(f"{what}: {figure:.3f}, {'at most' if at_most else 'at least'} {goal}")

    for n, cells in agent.items():
        for gain, goals in (("0.0", RUNS_AT_NONE), ("0.3", RUNS_AT_30)):
            if int(n) in goals:
                expect(f"runs at {gain}, {n} tasks", found["runs_ratio"][gain][n], goals[int(n)], 0.03)
        if int(n) in MORE_AT_16:
            more = 100 * (cells["0.16"]["new"]["better"] - cells["0.16"]["before"]["better"])
            expect(f"points of power at .16, {n} tasks", more, MORE_AT_16[int(n)], 2.0, at_most=False)
    for world, sizes in found["false_better"].items():
        for n, kinds in sizes.items():
            for name, (_, low, _) in kinds.items():
                expect(f"false better, {name}, {world}, {n} tasks", low, 0.0167, 0.0)
    for n, cell in found["ruin_ratio"].items():
        expect(f"ruin, {n} tasks", cell["ratio"], RUIN[int(n)], 0.1)
    for author, sizes in found["release"].items():
        for n, (_, low, _) in sizes.items():
            expect(f"a dud promoted in a release, {author}, {n} tasks", low, 0.05, 0.0)
    expect("6 of 24 of one kind", found["kind"]["6"]["found"], 0.75, 0.02, at_most=False)
    expect("a trade of one kind for another", max(each["trade"] for each in found["kind"].values()), 0.01, 0.005)
    if "24" in found["worse"]["0.16"]:
        expect("a live loss of 16 points at 24 tasks", found["worse"]["0.16"]["24"], 0.65, 0.02, at_most=False)
    expect("false worse", max(found["worse"]["0.0"].values()), 0.05, 0.01)
    for name, rules in found["real_noise"].items():
        expect(f"real noise, {name}", rules["test"][1], 0.0167, 0.0)
    expect("worthless edits accepted of 200", found["grind"], 6, 1.0)
    expect("power with 10 % missing", found["missing"]["own arm"]["0.1"]["0.3"], 0.88, 0.02, at_most=False)
    expect("milliseconds to verify 60 units", found["verify_ms"], 50, 25)
    return {**found, "missed": missed}


def main() -> int:
    """Measure, print, and return 1 when something does not hold."""
    parser = argparse.ArgumentParser(description="errors, power and cost of the promotion test, in simulation")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--short", action="store_true", help="fewer cells and repetitions, wider bounds")
    parser.add_argument("--reps", type=int, help="repetitions per cell (default 4000, short 200)")
    parser.add_argument("--decide", type=Path, metavar="FILE", help="say what the test decides on a path")
    args = parser.parse_args()
    if args.decide:
        try:
            print(json.dumps(decide(args.decide)))
        except (OSError, ValueError) as error:
            reason = str(error)
            if isinstance(error, ValidationError):
                first = error.errors()[0]
                reason = ": ".join([".".join(map(str, first["loc"])), first["msg"]]).lstrip(": ")
            print(f"error: {args.decide}: {' '.join(reason.split())}", file=sys.stderr)
            return 2
        return 0
    figures = judged(measure(args.reps or (200 if args.short else 4000), short=args.short), 3.0 if args.short else 0.0)
    if args.json:
        print(json.dumps(figures))
    else:
        for name, cells in figures.items():
            print(f"{name}: {json.dumps(cells)}")
    return 1 if figures["missed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
