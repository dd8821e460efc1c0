"""Gate cheats: candidates that look better than they are, and edits that are better on a sample of tasks alone."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from benchmarks.gate_worlds import (
    All,
    Chance,
    ConfirmRule,
    Contains,
    Judge,
    Numeric,
    Pair,
    Rates,
    Score,
    World,
    alike,
    alpha_for,
    arms,
    confirm,
    score,
    strict,
)

MAX_PAIRS = 200
ALPHA = 0.05
LARGEST = 99


def memorising(world: World, n_worlds: int) -> dict[str, object]:
    """Return how often a candidate that knows the answers of all train and val tasks, and no more, gets through.

    Each split has as many tasks; the promotion test is that of a skill with 30 held-out tasks or more: test alone.
    """
    seen_through = promoted = 0
    for seed in range(n_worlds):
        chance = Chance(f"memorising {world} {seed}")
        seen, sealed = world.rates(chance), world.rates(chance)
        learnt = [1.0] * len(seen)
        seen_through += _searched(world, seen, learnt, chance)
        promoted += confirm(world.pairs(sealed, sealed, chance), _rule()).verdict == "accept"
    return _row(world, "knows train, val", seen_through / n_worlds, promoted / n_worlds)


def parroting(world: World, n_worlds: int, *, cross_checked: bool) -> dict[str, object]:
    """Return how often a candidate gets through whose answers name every number there is before they say what they say.

    The judges that ship score its answers: `contains` alone, or together with one of another kind (`numeric`).
    """
    searched = promoted = 0
    honest, parrot = (_passes(parrots=parrots, cross_checked=cross_checked) for parrots in (False, True))
    for seed in range(n_worlds):
        chance = Chance(f"parroting {world} {seed}")
        rates = world.rates(chance)
        base = fmean(honest[chance.random() < rate] for rate in rates)
        searched += strict(fmean(parrot[chance.random() < rate] for rate in rates), base, base) != "reject"
        promoted += confirm(_answered(rates, honest, parrot, chance), _rule()).verdict == "accept"
    judged = "+numeric" if cross_checked else "contains"
    return _row(world, f"parrots: {judged}", searched / n_worlds, promoted / n_worlds)


def claims(world: World, n_worlds: int) -> dict[str, object]:
    """Return how often an edit is accepted under either claim that has the same rates as before on half of the tasks,
    and on the others new ones drawn alike: a gain on some samples of tasks, none on the tasks that they stand for.

    Also: how often an edit of +0.3 is accepted with each task drawn once, and after how many pairs.
    """
    rule, few = _rule(), ConfirmRule(alpha_for(1, ALPHA), max_pairs=world.n_tasks, claim="like_these")
    these = like_these = found = n_pairs = 0
    for seed in range(n_worlds):
        chance = Chance(f"claims {world} {seed}")
        base, other = world.rates(chance), world.rates(chance)
        candidate = [new if chance.random() < 0.5 else old for old, new in zip(base, other, strict=True)]
        these += confirm(world.pairs(base, candidate, chance), rule).verdict == "accept"
        like_these += confirm(once(world, base, candidate, chance), few).verdict == "accept"
        end = confirm(once(world, *arms(world, 0.3, chance), chance), few)
        found += end.verdict == "accept"
        n_pairs += end.n_pairs
    return {
        "world": world.kind,
        "tasks": world.n_tasks,
        "these": these / n_worlds,
        "like_these": like_these / n_worlds,
        "+0.3 found": found / n_worlds,
        "pairs": n_pairs / n_worlds,
    }


def once(world: World, base: Rates, candidate: Rates, chance: Chance) -> Iterator[Pair]:
    """Yield a pair of fresh rollouts of each task, which were drawn from all such tasks."""
    for ours, theirs in zip(candidate, base, strict=True):
        yield Pair(world.score(theirs, chance), world.score(ours, chance))


def deterministic(n_tasks: int, n_worlds: int) -> dict[str, object]:
    """Return how often a placebo is accepted whose target answers alike each time, right half the time: under either
    claim, and how often `on these tasks` without a warning.
    """
    rule, few = _rule(), ConfirmRule(alpha_for(1, ALPHA), max_pairs=n_tasks, claim="like_these")
    these = like_these = unwarned = 0
    for seed in range(n_worlds):
        chance = Chance(f"deterministic {n_tasks} {seed}")
        answers = [Pair(float(chance.random() < 0.5), float(chance.random() < 0.5)) for _ in range(n_tasks)]
        drawn = [(task, answers[task]) for task in (chance.randrange(n_tasks) for _ in range(rule.max_pairs))]
        end = confirm((pair for _, pair in drawn), rule)
        these += end.verdict == "accept"
        unwarned += end.verdict == "accept" and alike(drawn[: end.n_pairs]) is None
        like_these += confirm(answers, few).verdict == "accept"
    return {
        "tasks": n_tasks,
        "these": these / n_worlds,
        "unwarned": unwarned / n_worlds,
        "like_these": like_these / n_worlds,
    }


def _searched(world: World, base: Rates, candidate: Rates, chance: Chance) -> bool:
    current = world.measured(base, chance)
    return strict(world.measured(candidate, chance), current, current) != "reject"


def _answered(rates: Rates, honest: dict[bool, float], parrot: dict[bool, float], chance: Chance) -> Iterator[Pair]:
    while True:
        rate = rates[chance.randrange(len(rates))]
        yield Pair(honest[chance.random() < rate], parrot[chance.random() < rate])


def _passes(*, parrots: bool, cross_checked: bool) -> dict[bool, float]:
    """Return what the judges make of an answer that ends rightly, and of one that ends wrongly."""
    rule: Judge = Contains(expected="42")
    spec = All(judges=[rule, Numeric(expected=42)]) if cross_checked else rule
    every = f"It may be any of {', '.join(map(str, range(LARGEST)))}. " if parrots else ""
    outcomes = {right: score(spec, f"{every}The total is {42 if right else 17}.") for right in (True, False)}
    return {right: float(found.hard) for right, found in outcomes.items() if isinstance(found, Score)}


def _rule() -> ConfirmRule:
    return ConfirmRule(alpha_for(1, ALPHA), max_pairs=MAX_PAIRS)


def _row(world: World, cheat: str, searched: float, promoted: float) -> dict[str, object]:
    return {
        "world": world.kind,
        "tasks": world.n_tasks,
        "cheat": cheat,
        "strict on val": searched,
        "promoted": promoted,
    }
