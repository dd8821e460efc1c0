"""Gate policies: what a whole run makes of its proposals, by our gates and by the rule of the reference systems."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from benchmarks.gate_worlds import (
    Chance,
    ConfirmRule,
    Rates,
    World,
    confirm,
    next_alpha,
    proposed_effect,
    refund,
    strict,
)

BUDGET = 1500
FEW_TASKS = 30
RESERVE = 300
ALPHA = 0.05
MAX_PAIRS = 200
N_RUN = 16


@dataclass(frozen=True)
class Outcome:
    """What a run did to the live file: the true gain of its mean score, and what was tried."""

    gain: float
    n_proposals: int
    n_promoted: int


def strict_run(world: World, chance: Chance, budget: int = BUDGET) -> Outcome:
    """Return the outcome of the reference rule: all tasks are val, a rollout per task and version, scores are kept."""
    n, base = world.n_tasks, world.rates(chance)
    live, score, spent = base, world.measured(base, chance), n
    n_proposals = n_promoted = 0
    while spent + n <= budget:
        candidate = world.edited(live, proposed_effect(chance), chance)
        reached = world.measured(candidate, chance)
        spent += n
        n_proposals += 1
        if strict(reached, score, score) != "reject":
            live, score = candidate, reached
            n_promoted += 1
    return Outcome(fmean(live) - fmean(base), n_proposals, n_promoted)


def our_run(
    world: World, chance: Chance, budget: int = BUDGET, max_proposals: int | None = None, *, gate: str = "fresh"
) -> Outcome:
    """Return the outcome of one replay: a lineage by a search gate on val, its sum confirmed once against live.

    Under strict, what was accepted keeps the score that it was accepted for; under fresh it is measured again. Val and
    test share the tasks below 30, with fresh draws; else each has a half. `RESERVE` rollouts are kept for the
    promotion test, and what the search leaves.
    """
    n, base = world.n_tasks, world.rates(chance)
    n_val = n if n < FEW_TASKS else n // 2
    current, spent, n_proposals = base, n_val, 0
    score = world.measured(current[:n_val], chance)
    while spent + n_val <= budget - RESERVE and n_proposals != max_proposals:
        candidate = world.edited(current, proposed_effect(chance), chance)
        spent += n_val
        n_proposals += 1
        reached = world.measured(candidate[:n_val], chance)
        if strict(reached, score, score) != "reject":
            current, score = candidate, reached
            if gate == "fresh":
                score = world.measured(candidate[:n_val], chance)
                spent += n_val
    rule = ConfirmRule(next_alpha(1, ALPHA, 0.0, 0.0), max_pairs=max(1, (budget - spent) // 2))
    test = slice(n - n_val, n)
    if current == base or confirm(world.pairs(base[test], current[test], chance), rule).verdict != "accept":
        return Outcome(0.0, n_proposals, 0)
    return Outcome(fmean(current) - fmean(base), n_proposals, 1)


def tested_one_by_one(world: World, chance: Chance, *, mixed: bool) -> Outcome:
    """Return the outcome of a run in which each of 16 candidates has a promotion test of its own against live.

    Not mixed: none of them has an effect, and every promotion is a false one.
    """
    base = live = world.rates(chance)
    staked = refunded = 0.0
    n_promoted = 0
    for j in range(1, N_RUN + 1):
        candidate = world.edited(live, proposed_effect(chance), chance) if mixed else live
        alpha = next_alpha(j, ALPHA, staked, refunded)
        end = confirm(world.pairs(live, candidate, chance), ConfirmRule(alpha, max_pairs=MAX_PAIRS))
        staked += alpha
        if end.verdict == "reject":
            refunded += refund(alpha, end.wealth)
        if end.verdict == "accept":
            live = candidate
            n_promoted += 1
    return Outcome(fmean(live) - fmean(base), N_RUN, n_promoted)


def searched_then_confirmed(world: World, chance: Chance) -> Outcome:
    """Return the outcome of a replay of 16 proposals without effect: the fresh gate, then one promotion test."""
    base = world.rates(chance)
    score, n_moved = world.measured(base, chance), 0
    for _ in range(N_RUN):
        if strict(world.measured(base, chance), score, score) != "reject":
            n_moved += 1
            score = world.measured(base, chance)
    rule = ConfirmRule(next_alpha(1, ALPHA, 0.0, 0.0), max_pairs=MAX_PAIRS)
    accepted = n_moved > 0 and confirm(world.pairs(base, base, chance), rule).verdict == "accept"
    return Outcome(0.0, N_RUN, int(accepted))


def strict_without_effect(world: World, chance: Chance) -> Outcome:
    """Return the outcome of 16 proposals without effect under the reference rule."""
    base: Rates = world.rates(chance)
    score, n_promoted = world.measured(base, chance), 0
    for _ in range(N_RUN):
        reached = world.measured(base, chance)
        if strict(reached, score, score) != "reject":
            score = reached
            n_promoted += 1
    return Outcome(0.0, N_RUN, n_promoted)
