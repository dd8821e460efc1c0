"""Confirm error: how often the promotion gate accepts an edit that changes nothing, and what a gain costs in pairs.

    python benchmarks/confirm_error.py [--json] [--worlds N]

A world is 30 held-out tasks with their own pass rates. In A/A worlds both arms have the same rates.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from statistics import fmean

from skillopt_mcp.gates.confirm import ConfirmRule, confirm, pairs_needed
from skillopt_mcp.gates.search import strict
from skillopt_mcp.records.evidence import Confirmation, Pair

N_TASKS = 30
MAX_PAIRS = 400
EFFECTS = (0.1, 0.2, 0.3, 0.5)
SD = {"bernoulli": 0.7, "beta": 0.55, "graded": 0.28}
Chance = random.Random
Roll = Callable[[float, Chance], float]


def even_rates(chance: Chance) -> list[float]:
    """Return task pass rates that are all 0.5."""
    return [0.5] * N_TASKS


def beta_rates(chance: Chance) -> list[float]:
    """Return task pass rates drawn from Beta(0.5, 0.5): most tasks nearly always fail or nearly always pass."""
    return [chance.betavariate(0.5, 0.5) for _ in range(N_TASKS)]


def pass_or_fail(rate: float, chance: Chance) -> float:
    """Return 1.0 with probability `rate`, else 0.0."""
    return float(chance.random() < rate)


def graded(rate: float, chance: Chance) -> float:
    """Return a score around `rate` with noise of 0.2, kept in [0, 1]."""
    return min(1.0, max(0.0, chance.gauss(rate, 0.2)))


WORLDS: dict[str, tuple[Callable[[Chance], list[float]], Roll]] = {
    "bernoulli": (even_rates, pass_or_fail),
    "beta": (beta_rates, pass_or_fail),
    "graded": (even_rates, graded),
}


def lifted(rates: list[float], effect: float, kind: str) -> tuple[list[float], list[float]]:
    """Return rates of base and candidate whose means differ by `effect`: spread around 0.5, or a lift of what fails."""
    if kind == "beta":
        room = fmean(1 - rate for rate in rates)
        share = min(1.0, effect / room)
        return rates, [rate + share * (1 - rate) for rate in rates]
    return [rate - effect / 2 for rate in rates], [rate + effect / 2 for rate in rates]


def draw_pairs(base: list[float], candidate: list[float], roll: Roll, chance: Chance, n: int) -> Iterator[Pair]:
    """Yield `n` pairs of fresh rollouts on tasks drawn uniformly with replacement."""
    for _ in range(n):
        task = chance.randrange(len(base))
        yield Pair(base=roll(base[task], chance), candidate=roll(candidate[task], chance))


def run_world(kind: str, effect: float, seed: int, rule: ConfirmRule) -> Confirmation:
    """Return the verdict in the world of this seed."""
    chance = random.Random(f"{kind} {effect} {seed}")
    rates, roll = WORLDS[kind]
    base, candidate = lifted(rates(chance), effect, kind) if effect else (world := rates(chance), world)
    return confirm(list(draw_pairs(base, candidate, roll, chance, rule.max_pairs)), rule)


def strict_error(n_worlds: int, n_tasks: int = N_TASKS) -> float:
    """Return how often the strict gate accepts an edit that changes nothing, on one rollout per task."""
    accepted = 0
    for seed in range(n_worlds):
        chance = random.Random(f"strict {seed}")
        rates = beta_rates(chance)[:n_tasks]
        current = fmean(pass_or_fail(rate, chance) for rate in rates)
        accepted += strict(fmean(pass_or_fail(rate, chance) for rate in rates), current, current) != "reject"
    return accepted / n_worlds


def measure(n_worlds: int) -> dict[str, object]:
    """Return false accepts per kind of world, and power, verdicts and mean pairs used per kind and effect."""
    rule = ConfirmRule(max_pairs=MAX_PAIRS)
    nothing = {kind: [run_world(kind, 0.0, seed, rule) for seed in range(n_worlds)] for kind in WORLDS}
    power = []
    for kind in WORLDS:
        for effect in EFFECTS:
            ends = [run_world(kind, effect, seed, rule) for seed in range(max(1, n_worlds // 4))]
            power.append(
                {
                    "world": kind,
                    "effect": effect,
                    "accept": share(ends, "accept"),
                    "reject": share(ends, "reject"),
                    "pairs": fmean(end.n_pairs for end in ends),
                    "pairs_needed": pairs_needed(effect, SD[kind], rule),
                }
            )
    return {
        "alpha": rule.alpha,
        "max_pairs": rule.max_pairs,
        "worlds": n_worlds,
        "false_accept": {kind: share(ends, "accept") for kind, ends in nothing.items()},
        "no_gain_rejected": {kind: share(ends, "reject") for kind, ends in nothing.items()},
        "no_gain_pairs": {kind: fmean(end.n_pairs for end in ends) for kind, ends in nothing.items()},
        "false_accept_max": max(share(ends, "accept") for ends in nothing.values()),
        "strict_false_accept": strict_error(n_worlds),
        "power": power,
    }


def share(ends: list[Confirmation], verdict: str) -> float:
    """Return the share of `ends` with this verdict."""
    return sum(end.verdict == verdict for end in ends) / len(ends)


def print_table(found: dict[str, object]) -> None:
    """Print what `measure` found."""
    print(f"{found['worlds']} worlds without a gain, up to {found['max_pairs']} pairs, alpha {found['alpha']}")
    for key in ("false_accept", "no_gain_rejected", "no_gain_pairs"):
        rates = found[key]
        assert isinstance(rates, dict)
        print(f"  {key:18}" + "".join(f"{kind:>12} {rate:7.3f}" for kind, rate in rates.items()))
    print(f"  strict gate on {N_TASKS} tasks (beta): {found['strict_false_accept']:.3f}")
    print(f"{'world':12}{'effect':>8}{'accept':>9}{'reject':>9}{'pairs':>9}{'estimate':>10}")
    rows = found["power"]
    assert isinstance(rows, list)
    for row in rows:
        print(
            f"{row['world']:12}{row['effect']:8.1f}{row['accept']:9.3f}{row['reject']:9.3f}"
            f"{row['pairs']:9.1f}{row['pairs_needed']:10d}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="false accepts and power of the promotion gate")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--worlds", type=int, default=2000, help="A/A worlds per kind (default 2000)")
    args = parser.parse_args()
    found = measure(args.worlds)
    if args.json:
        print(json.dumps(found))
    else:
        print_table(found)


if __name__ == "__main__":
    main()
