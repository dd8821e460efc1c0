"""Gate cells: what each gate accepts in one simulated world, a row of figures per world."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from statistics import fmean

from benchmarks.gate_policies import (
    ALPHA,
    MAX_PAIRS,
    Outcome,
    our_run,
    searched_then_confirmed,
    strict_run,
    strict_without_effect,
    tested_one_by_one,
)
from benchmarks.gate_worlds import (
    Chance,
    Confirmation,
    ConfirmRule,
    World,
    alpha_for,
    arms,
    calibrated,
    confirm,
    fixed_pairs,
    normal_pairs,
    pair_rates,
    predicted_power,
    strict,
    wald_pairs,
)

POWER = 0.9
N_CALIBRATION = 80
"""Pairs of the live skill against itself that a power is predicted from."""


def cell(kind: str, n_tasks: int, effect: float, n_worlds: int) -> dict[str, object]:
    """Return how often each gate accepts one edit of this effect, and what the promotion gate took."""
    world, rule = World(kind, n_tasks), ConfirmRule(ALPHA, max_pairs=MAX_PAIRS)
    n_strict, ends = 0, []
    for seed in range(n_worlds):
        chance = Chance(f"cell {world} {effect} {seed}")
        base, candidate = arms(world, effect, chance)
        current = world.measured(base, chance)
        n_strict += strict(world.measured(candidate, chance), current, current) != "reject"
        ends.append(confirm(world.pairs(base, candidate, chance), rule))
    return {
        "world": kind,
        "tasks": n_tasks,
        "effect": effect,
        "strict": n_strict / n_worlds,
        "accept": share(ends, "accept"),
        "reject": share(ends, "reject"),
        "pairs": fmean(end.n_pairs for end in ends),
    }


def run16(kind: str, n_tasks: int, n_worlds: int) -> dict[str, object]:
    """Return how many runs of 16 edits without effect promoted at least one, by each way to run."""

    def promoting(run: Callable[[World, Chance], Outcome]) -> float:
        world = World(kind, n_tasks)
        outcomes = (run(world, Chance(f"run16 {world} {seed}")) for seed in range(n_worlds))
        return sum(outcome.n_promoted > 0 for outcome in outcomes) / n_worlds

    return {
        "world": kind,
        "tasks": n_tasks,
        "each tested": promoting(lambda world, chance: tested_one_by_one(world, chance, mixed=False)),
        "replay": promoting(searched_then_confirmed),
        "strict": promoting(strict_without_effect),
    }


def gain(kind: str, n_tasks: int, patchy: bool, n_worlds: int) -> dict[str, object]:
    """Return the total gain of the live skill by our replay and by the strict rule, at equal rollouts and tasks."""
    world = World(kind, n_tasks, patchy)

    def outcomes(run: Callable[[Chance], Outcome]) -> list[Outcome]:
        return [run(Chance(f"gain {world} {seed}")) for seed in range(n_worlds)]

    reference = outcomes(lambda chance: strict_run(world, chance))
    most = max(outcome.n_proposals for outcome in reference)
    ours = outcomes(lambda chance: our_run(world, chance))
    as_many = outcomes(lambda chance: our_run(world, chance, max_proposals=most))
    by_default = outcomes(lambda chance: our_run(world, chance, gate="strict"))
    one_by_one = outcomes(lambda chance: tested_one_by_one(world, chance, mixed=True))
    strict_gain = mean_gain(reference)
    return {
        "world": f"{kind} patchy" if patchy else kind,
        "tasks": n_tasks,
        "strict gain": strict_gain,
        "strict worse": worse(reference),
        "our gain": mean_gain(ours),
        "ratio": mean_gain(ours) / strict_gain,
        "strict search": mean_gain(by_default) / strict_gain,
        "as many tries": mean_gain(as_many) / strict_gain,
        "promoted": fmean(outcome.n_promoted for outcome in ours),
        "proposals": [most, round(fmean(outcome.n_proposals for outcome in ours), 1)],
        "worse": max(map(worse, (ours, as_many, by_default, one_by_one))),
    }


def pairs_cell(kind: str, effect: float, n_worlds: int) -> dict[str, object]:
    """Return the mean pairs of the promotion gate, paused at a power of 0.9, and of tests of the same power."""
    world, ends = World(kind, 40), []
    wins, losses = pair_rates(world, effect)
    rule = ConfirmRule(ALPHA, max_pairs=8 * math.ceil(normal_pairs(wins, losses)))
    for seed in range(n_worlds):
        chance = Chance(f"pairs {world} {effect} {seed}")
        base, candidate = arms(world, effect, chance)
        ends.append(confirm(world.pairs(base, candidate, chance), rule))
    accepted = sorted(end.n_pairs for end in ends if end.verdict == "accept")
    wanted = math.ceil(POWER * n_worlds)
    pause = accepted[wanted - 1] if len(accepted) >= wanted else rule.max_pairs
    mean = fmean(min(end.n_pairs, pause) for end in ends)
    fixed = fixed_pairs(wins, losses, ALPHA, POWER)
    return {
        "world": kind,
        "effect": effect,
        "pairs": mean,
        "pause": pause,
        "power": sum(n <= pause for n in accepted) / n_worlds,
        "fixed": fixed,
        "fixed if normal": normal_pairs(wins, losses),
        "wald": wald_pairs(wins, losses, ALPHA, POWER),
        "ratio": mean / fixed,
    }


def power_cell(kind: str, effect: float, n_worlds: int, n_calibrations: int) -> dict[str, object]:
    """Return the power that calibrations predict on average, and the one of the gate in the same worlds."""
    world, rule = World(kind, 40), ConfirmRule(alpha_for(1, ALPHA), max_pairs=MAX_PAIRS)
    predicted, accepts = [], 0
    for seed in range(n_worlds):
        chance = Chance(f"power {world} {effect} {seed}")
        base, candidate = arms(world, effect, chance)
        accepts += confirm(world.pairs(base, candidate, chance), rule).verdict == "accept"
        if seed < n_calibrations:
            itself = world.pairs(base, base, chance)
            measured = calibrated([next(itself) for _ in range(N_CALIBRATION)])
            predicted.append(predicted_power(measured, effect, rule, 300).power)
    return {
        "world": kind,
        "effect": effect,
        "predicted": fmean(predicted),
        "power": accepts / n_worlds,
        "error": 100 * abs(fmean(predicted) - accepts / n_worlds),
        "spread": 100 * fmean(abs(each - fmean(predicted)) for each in predicted),
    }


def mean_gain(outcomes: Iterable[Outcome]) -> float:
    """Return the mean gain of live files."""
    return fmean(outcome.gain for outcome in outcomes)


def worse(outcomes: list[Outcome]) -> float:
    """Return the share of live files that are worse than before."""
    return sum(outcome.gain < -1e-9 for outcome in outcomes) / len(outcomes)


def share(ends: list[Confirmation], verdict: str) -> float:
    """Return the share of tests that ended so."""
    return sum(end.verdict == verdict for end in ends) / len(ends)
