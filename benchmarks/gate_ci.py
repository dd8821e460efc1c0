"""Gate in CI: how often a pull request gets a wrong verdict, or two that contradict each other, and what it costs.

    python benchmarks/gate_ci.py [--short] [--json] [--reps N]

Simulation: no model is asked. Pull requests over tasks of the world "agent" (pass rates Beta(.5, .5)) go through the
code that ships: `plan_of`, then `Reading`, which goes in rounds below 8 tasks. All ask whether the new text is better
or worse (`--require any-but-worse`), each as the first test of its pull request, with no attempt kept unless said so.

Effects: "no effect": the pass rates stay. "words": the logit of each task moves by N(0, 1.5), on average over all such
tasks by nothing; "words, mean kept": so that the mean of these very tasks stays, too. A number is a gain that fixes the
same share of all failures, or a loss that ruins the same share of all passes: as much on average over such tasks.

A false call, by the claim of the verdict:
* on tasks like these (8 tasks or more): BETTER although the mean over all such tasks does not rise; WORSE although it
  does not fall. Each call of a "words" change is false.
* on these cases (rounds, 3 and 6 tasks): BETTER although the mean pass rate of these very tasks does not rise; WORSE
  although it does not fall. Words move it by chance, up or down: a call that says which is true.
Both readings of "words" are printed for every size, as a gate words all verdicts "on these cases" where the author can
read the tasks; goals hold for the one that the test claims. For all other effects they agree.

`contradictions`: of pull requests that were run twice (same tasks and texts, new salt and attempts), those called
better once and worse once. `missed_harm`: losses not called worse. `mean_of_three` is the usual rule on the same pull
requests: three attempts at each task with each text, and the higher mean wins. `runs_per_pr` also counts the attempts
under way at the verdict; "kept" has three attempts of the base at each task from before: one pass where they show that
the target repeats itself, and a pilot where only `better` is asked. Shares come with their 95 % Clopper-Pearson
interval: [share, low, high].
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gates import SLOTS, Chance, Rates, base_rates, fixed, interval, moved, passes, words
from skillopt_mcp.core.evidence import Arm, TestAttempt
from skillopt_mcp.core.judging import judge_of
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.gates.promotion import MIN_UNITS, Reading, order_units
from skillopt_mcp.training.promotion_test import Asked, plan_of

Effect = str | float
Figures = dict[str, Any]

SIZES = (3, 6, 12, 16, 30, 60)
NOTHING: tuple[Effect, ...] = ("no effect", "words", "words, mean kept")
CHANGES: tuple[Effect, ...] = (-0.16, 0.16, -0.30, 0.30)
KEPT = 3
GOALS = {"false_better": 0.05, "false_worse": 0.05, "contradictions": 0.005}
FOUND = ((-0.30, 30, 0.90), (-0.50, 6, 0.85))
"""Losses that have to be called worse: so large, at so many tasks, so often."""
CALLS = {"better": "better", "better_here": "better", "worse": "worse", "worse_here": "worse"}
HERE, LIKE = "on these cases", "on tasks like these"


def make_change(rates: Rates, effect: Effect, chance: Chance) -> Rates:
    """The pass rates after a change."""
    if isinstance(effect, float):
        return fixed(rates, effect / 0.5) if effect > 0 else [rate * (1 + effect / 0.5) for rate in rates]
    if effect == "no effect":
        return rates
    shifts, low, high = words(len(rates), chance), -60.0, 60.0
    if effect == "words":
        return moved(rates, shifts)
    while high - low > 1e-9:
        middle = (low + high) / 2
        is_above = sum(moved(rates, [shift + middle for shift in shifts])) > sum(rates)
        low, high = (low, middle) if is_above else (middle, high)
    return moved(rates, [shift + low for shift in shifts])


def run_gate(old: Rates, new: Rates, chance: Chance, asked: Asked, n_kept: int = 0) -> tuple[str, int]:
    """What the gate says of a change, "better", "worse" or "", and the attempts that it made."""
    salt, draw = f"{chance.getrandbits(128):032x}", chance.random
    judge = judge_of({"kind": "exact", "expected": "1"})
    units = [
        Task(int(name), 1, name, name, judge, "test", name) for name in order_units(map(str, range(len(old))), salt)
    ]
    kept = {at: [float(draw() < rate) for _ in range(n_kept)] for at, rate in enumerate(old)}
    plan = plan_of(units, kept, asked, 1, salt)
    arms: tuple[tuple[Arm, Rates], ...] = (("base", old), ("candidate", new))
    n_passes = plan.max_pairs // len(old) if plan.in_rounds else plan.passes
    standing = Reading(plan, [
        TestAttempt(arm, unit, number, float(draw() < rates[task.id]))
        for number in range(n_passes) for unit, task in enumerate(units) for arm, rates in arms
    ]).standing()  # fmt: skip
    n_runs = standing.pilot or 2 * standing.pairs + max(0, plan.n_pilot - standing.pairs)
    if not plan.in_rounds:  # others are under way at the verdict; a round waits for all of its own
        n_runs = min(n_runs + SLOTS - 1, plan.n_pilot + SLOTS if standing.pilot else plan.most_runs)
    return CALLS.get(standing.verdict or "", ""), n_runs


def compare_means(old: Rates, new: Rates, chance: Chance) -> str:
    """What the mean of three attempts at each task says."""
    more = sum(passes(new, 3, chance)) - sum(passes(old, 3, chance))
    return "better" if more > 0 else "worse" if more < 0 else ""


def measure_calls(effect: Effect, n: int, reps: int) -> Figures:
    """Both rules on the same pull requests: their calls, the false ones by claim, and contradictions."""
    rises = {LIKE: effect if isinstance(effect, float) else 0.0, HERE: 0.0}
    counts = {rule: dict[str, int]() for rule in ("gate", "mean_of_three")}
    for rep in range(reps):
        chance = Chance(f"pull request {effect} {n} {rep}")
        old = base_rates("agent", n, chance)
        new = make_change(old, effect, chance)
        rises[HERE] = sum(new) - sum(old) if effect == "words" else rises[LIKE]
        call, _ = run_gate(old, new, chance, Asked(live=True))
        means = compare_means(old, new, chance), compare_means(old, new, chance)
        again = run_gate(old, new, chance, Asked(live=True))[0] if call else ""  # no call contradicts none
        for rule, calls in (("gate", (call, again)), ("mean_of_three", means)):
            first = calls[0]
            events = [first, "decided" if first else "", "contradictions" if {*calls} == {"better", "worse"} else ""]
            events += [
                f"false_{first} {claim}"
                for claim, rise in rises.items()
                if (first == "better" and rise <= 0) or (first == "worse" and rise >= 0)
            ]
            for event in events:
                counts[rule][event] = counts[rule].get(event, 0) + 1
    names = ["decided", "contradictions", "worse", *(f"{each} {claim}" for each in GOALS for claim in rises)]
    return {rule: {name: interval(count.get(name, 0), reps) for name in names} for rule, count in counts.items()}


def measure_runs(world: str, effect: Effect, n: int, reps: int) -> Figures:
    """Mean attempts of a pull request by what is asked, without and with kept attempts of the base."""
    runs: dict[str, list[int]] = {}
    for rep in range(reps):
        chance = Chance(f"runs {world} {effect} {n} {rep}")
        old = base_rates(world, n, chance)
        new = make_change(old, effect, chance)
        for question, asked in (("better or worse", Asked(live=True)), ("better alone", Asked())):
            for name, n_kept in ((question, 0), (f"{question}, kept", KEPT)):
                runs.setdefault(name, []).append(run_gate(old, new, chance, asked, n_kept)[1])
    return {name: round(fmean(each), 1) for name, each in runs.items()}


def measure(reps: int, *, short: bool) -> Figures:
    """All figures: `reps` pull requests a cell that change nothing, a fifth of that with a gain or a loss."""
    sizes, few = (3, 6, 12, 30) if short else SIZES, max(1, reps // 5)
    cells = [(effect, n, reps) for effect in NOTHING for n in sizes]
    cells += [(effect, n, few) for effect in CHANGES for n in sizes]
    names = (*GOALS, "missed_harm")
    found: Figures = {name: {} for name in names} | {"mean_of_three": {name: {} for name in names}}
    found |= {"decided_share": {str(n): {} for n in sizes}, "runs_per_pr": {"agent": {}, "determ": {}}}
    for effect, n, n_reps in [*cells, (-0.50, 6, few)]:
        measured = measure_calls(effect, n, n_reps)
        for rule, place in (("gate", found), ("mean_of_three", found["mean_of_three"])):
            calls = measured[rule]
            for name in ("false_better", "false_worse"):
                for claim in (HERE, LIKE) if effect == "words" else (HERE if n < MIN_UNITS else LIKE,):
                    key = f"{effect}, {claim}" if effect == "words" else str(effect)
                    place[name].setdefault(key, {})[str(n)] = calls[f"{name} {claim}"]
            place["contradictions"].setdefault(str(effect), {})[str(n)] = calls["contradictions"]
            if isinstance(effect, float) and effect < 0:
                share, low, high = calls["worse"]
                missed = [round(1 - each, 4) for each in (share, high, low)]
                place["missed_harm"].setdefault(str(effect), {})[str(n)] = missed
        found["decided_share"][str(n)][str(effect)] = measured["gate"]["decided"]
    for world, effects in (("agent", ("no effect", -0.30, 0.30)), ("determ", ("no effect",))):
        for effect in effects:
            found["runs_per_pr"][world][str(effect)] = {str(n): measure_runs(world, effect, n, few) for n in sizes}
    return found


def judge_figures(found: Figures, *, short: bool) -> Figures:
    """The figures with the goals that they miss: by the share, in a short run by the near end of its interval."""
    missed = []
    for name, goal in GOALS.items():
        for effect, sizes in found[name].items():
            for n, (share, low, _) in sizes.items():
                is_claimed = not effect.endswith((HERE, LIKE)) or effect.endswith(HERE) == (int(n) < MIN_UNITS)
                if is_claimed and (low if short else share) > goal:
                    missed.append(f"{name}, {effect}, {n} tasks: {share:.4f}, at most {goal}")
    for effect, n, goal in FOUND:
        share, low, _ = found["missed_harm"][str(effect)][str(n)]
        if (low if short else share) > 1 - goal:
            missed.append(f"a loss of {-effect:.2f} called worse, {n} tasks: {1 - share:.4f}, at least {goal}")
    return {**found, "missed": missed}


def main() -> int:
    """Measure, print, and return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description="errors, power and cost of a gate on pull requests, in simulation")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--short", action="store_true", help="fewer cells and repetitions, wider bounds")
    parser.add_argument("--reps", type=int, help="pull requests per cell without an effect (default 2000, short 400)")
    args = parser.parse_args()
    reps = args.reps or (400 if args.short else 2000)
    figures = judge_figures(measure(reps, short=args.short), short=args.short)
    if args.json:
        print(json.dumps(figures))
    else:
        for name, cells in figures.items():
            print(f"{name}: {json.dumps(cells)}")
    return 1 if figures["missed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
