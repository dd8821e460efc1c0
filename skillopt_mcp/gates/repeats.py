"""Repeats: whether a target answers alike each time, so that a promotion test speaks of a few answers and no more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skillopt_mcp.records.evidence import Pair

_ENOUGH = 3.0


@dataclass(frozen=True, slots=True)
class Alike:
    """A target whose repeats never differed: `n_answers` are the attempts that say anything of their own."""

    n_answers: int
    n_repeats: int


def alike(drawn: Iterable[tuple[int, Pair]]) -> Alike | None:
    """Return how many answers there are, and repeats, if no version's repeat at a task differed; pairs have their task.

    None as well while that may be chance: with the luck of each attempt its own, three repeats or more would be
    expected to differ, by how often each version passes. One that always passes, or never does, shows nothing by them.
    """
    n_answers = n_repeats = 0
    expected = 0.0
    pairs = list(drawn)
    for scores in (
        [(task, pair.base) for task, pair in pairs if pair.base is not None],
        [(task, pair.candidate) for task, pair in pairs if pair.candidate is not None],
    ):
        seen: dict[int, set[float]] = {}
        for task, score in scores:
            seen.setdefault(task, set()).add(score)
        if any(len(each) > 1 for each in seen.values()):
            return None
        repeated = len(scores) - len(seen)
        passed = sum(score for each in seen.values() for score in each) / max(1, len(seen))
        expected += repeated * 2 * passed * (1 - passed)
        n_answers += len(seen)
        n_repeats += repeated
    return Alike(n_answers, n_repeats) if expected >= _ENOUGH else None
