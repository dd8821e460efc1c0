"""Gates: how often our gates and the reference rule are wrong, what they find, and what they cost, with known truth.

    python benchmarks/gates.py [--short] [--json] [--worlds N]

Simulation: no model is asked. All gates are those that ship. `--short` takes fewer worlds and wider bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gate_cells import (
    N_CALIBRATION,
    POWER,
    cell,
    gain,
    pairs_cell,
    power_cell,
    run16,
)
from benchmarks.gate_cheats import claims, deterministic, memorising, parroting
from benchmarks.gate_policies import ALPHA, BUDGET, MAX_PAIRS
from benchmarks.gate_worlds import KINDS, PASS_OR_FAIL, World

TASKS = (10, 20, 40, 100)
EFFECTS = (-0.08, 0.0, 0.08, 0.16, 0.30)
GAIN_TASKS = (20, 40, 80)
LARGE = (0.16, 0.30)
STOPPED = ("memoriser_promoted", "cross_checked_parrot_promoted")


@dataclass(frozen=True)
class Bounds:
    """What must hold. The short version has few worlds, so its bounds leave room for chance."""

    false_promotion: float = 0.05
    live_worse: float = 0.01
    gain: tuple[float, float, float] = (0.60, 0.80, 0.90)
    pairs: float = 0.80
    power_error: float = 5.0
    found: float = 0.90


FULL, SHORT = Bounds(), Bounds(0.08, 0.03, (0.55, 0.72, 0.80), 0.90, 9.0, 0.84)


def measure(n_worlds: int, *, short: bool) -> dict[str, list[dict[str, object]]]:
    """Return all tables, measured on every core."""
    kinds = ("beta55", "half") if short else KINDS
    tasks = (10, 40) if short else TASKS
    few = max(40, n_worlds // 2) if short else n_worlds
    n_calibrations, n_tests = (16, 5 * n_worlds) if short else (100, 2 * n_worlds)
    jobs: list[tuple[str, Callable[..., dict[str, object]], tuple[object, ...]]] = [
        *(("gain", gain, (kind, n, False, few)) for n in GAIN_TASKS for kind in PASS_OR_FAIL),
        *(("gain", gain, ("beta55", n, True, few)) for n in GAIN_TASKS if not short),
        *(("run16", run16, (kind, n, n_worlds)) for kind in kinds for n in tasks if kind != "graded" or n == tasks[0]),
        *(("pairs", pairs_cell, (kind, effect, n_worlds)) for kind in PASS_OR_FAIL for effect in LARGE),
        *(
            ("power", power_cell, (kind, effect, n_tests, n_calibrations))
            for kind in PASS_OR_FAIL
            for effect in (0.08, *LARGE)
        ),
        *(("cheats", memorising, (World(kind, 40), n_worlds)) for kind in ("beta55", "half")),
        *(
            ("cheats", partial(parroting, cross_checked=cross_checked), (World(kind, 40), n_worlds))
            for kind in ("beta55", "half")
            for cross_checked in (False, True)
        ),
        *(("claims", claims, (World(kind, n), n_worlds)) for kind in ("beta55", "beta96") for n in GAIN_TASKS),
        *(("deterministic", deterministic, (n, n_worlds)) for n in GAIN_TASKS),
        *(("cells", cell, (kind, n, effect, n_worlds)) for kind in kinds for n in tasks for effect in EFFECTS),
    ]
    tables: dict[str, list[dict[str, object]]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        rows = [(name, pool.submit(run, *arguments)) for name, run, arguments in jobs]
        for name, row in rows:
            tables.setdefault(name, []).append(row.result())
    return tables


def number(row: dict[str, object], key: str) -> float:
    """Return a number of a row."""
    found = row[key]
    assert isinstance(found, float | int)
    return float(found)


def worst(rows: list[dict[str, object]], *keys: str) -> float:
    """Return the largest number under these keys."""
    return max(number(row, key) for row in rows for key in keys)


def keys_of(tables: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    """Return what is promised: the worst world of each."""
    plain = [row for row in tables["gain"] if "patchy" not in str(row["world"])]
    return {
        "false_promotion_run16": worst(tables["run16"], "each tested", "replay"),
        "strict_promotion_run16": worst(tables["run16"], "strict"),
        "live_worse": worst(tables["gain"], "worse"),
        "gain_vs_strict": {str(n): min(number(row, "ratio") for row in plain if row["tasks"] == n) for n in GAIN_TASKS},
        "gain_vs_strict_equal_proposals": {
            str(n): min(number(row, "as many tries") for row in plain if row["tasks"] == n) for n in GAIN_TASKS
        },
        "gain_vs_strict_by_strict_search": {
            str(n): min(number(row, "strict search") for row in plain if row["tasks"] == n) for n in GAIN_TASKS
        },
        "confirm_pairs_vs_fixed": worst(tables["pairs"], "ratio"),
        "power_error_points": worst(tables["power"], "error"),
        "cheats": {
            "memoriser_promoted": worst(_cheats(tables, "knows train, val"), "promoted"),
            "parrot_promoted": min(number(row, "promoted") for row in _cheats(tables, "parrots: contains")),
            "cross_checked_parrot_promoted": worst(_cheats(tables, "parrots: +numeric"), "promoted"),
        },
        "claims": {
            "no_gain_accepted_these": worst(tables["claims"], "these"),
            "no_gain_accepted_like_these": worst(tables["claims"], "like_these"),
            "deterministic_placebo_accepted_these": worst(tables["deterministic"], "these"),
            "deterministic_placebo_accepted_like_these": worst(tables["deterministic"], "like_these"),
            "deterministic_placebo_accepted_unwarned": worst(tables["deterministic"], "unwarned"),
        },
    }


def _cheats(tables: dict[str, list[dict[str, object]]], cheat: str) -> list[dict[str, object]]:
    return [row for row in tables["cheats"] if row["cheat"] == cheat]


def missed(keys: dict[str, object], bounds: Bounds) -> list[str]:
    """Return what does not hold, each in a line."""
    gains, cheats, claimed = (keys[name] for name in ("gain_vs_strict", "cheats", "claims"))
    assert isinstance(gains, dict)
    assert isinstance(cheats, dict)
    assert isinstance(claimed, dict)
    at_most = [
        ("false_promotion_run16", keys["false_promotion_run16"], bounds.false_promotion),
        ("live_worse", keys["live_worse"], bounds.live_worse),
        ("confirm_pairs_vs_fixed", keys["confirm_pairs_vs_fixed"], bounds.pairs),
        ("power_error_points", keys["power_error_points"], bounds.power_error),
        *((name, cheats[name], bounds.false_promotion) for name in STOPPED),
        *(
            (name, claimed[name], bounds.false_promotion)
            for name in claimed
            if name.endswith(("accepted_like_these", "accepted_unwarned"))
        ),
    ]
    at_least = [
        *((f"gain_vs_strict {n}", gains[str(n)], least) for n, least in zip(GAIN_TASKS, bounds.gain, strict=True)),
        ("parrot_promoted (else the cross-check shows nothing)", cheats["parrot_promoted"], bounds.found),
    ]
    return [
        *(f"{name} is {value:.3f}, at most {most} is promised" for name, value, most in at_most if value > most),
        *(f"{name} is {value:.3f}, at least {least} is promised" for name, value, least in at_least if value < least),
    ]


def print_tables(tables: dict[str, list[dict[str, object]]]) -> None:
    """Print every table."""
    titles = {
        "cells": f"one edit: accepted by the strict rule, and by confirm (alpha {ALPHA}, at most {MAX_PAIRS} pairs)",
        "run16": "a run of 16 edits without effect: the share of runs that promoted any",
        "gain": f"true gain of the live skill at {BUDGET} rollouts, equal tasks: the reference rule; ours by the fresh "
        "search gate (ratio), by the strict one, and by fresh with no more proposals (worse: live file worse)",
        "pairs": f"pairs of confirm at alpha {ALPHA} and power {POWER}, next to the exact sign test and Wald's optimum",
        "power": f"power predicted from {N_CALIBRATION} pairs of the live skill against itself, and as simulated",
        "cheats": "candidates that cheat: how often the strict gate on val, and the promotion test, let one through",
        "claims": "half of the tasks changed by chance: accepted on these tasks (true of some), on tasks like them",
        "deterministic": "a placebo, and a target that answers alike each time: accepted on these tasks, accepted "
        "without a word of that, on tasks like them",
    }
    for name, title in titles.items():
        rows = tables[name]
        print(f"\n{title}")
        print(" ".join(f"{column:>14}" for column in rows[0]))
        for row in rows:
            print(" ".join(f"{shown(value):>14}" for value in row.values()))


def shown(value: object) -> str:
    """Return a value as a table shows it."""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def main() -> int:
    """Measure, print, and return 1 when a promise does not hold."""
    parser = argparse.ArgumentParser(description="errors, power and cost of the gates, in simulation")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--short", action="store_true", help="fewer worlds, wider bounds")
    parser.add_argument("--worlds", type=int, help="repetitions per cell (default 2000, short 200)")
    args = parser.parse_args()
    tables = measure(args.worlds or (200 if args.short else 2000), short=args.short)
    keys = keys_of(tables)
    failures = missed(keys, SHORT if args.short else FULL)
    if args.json:
        print(json.dumps({**keys, "missed": failures, "tables": tables}))
    else:
        print_tables(tables)
        print(f"\n{json.dumps(keys)}")
    for failure in failures:
        sys.stderr.write(f"{failure}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
