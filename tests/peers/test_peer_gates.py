"""The strict gate decides as in the published packages, but for what is listed here."""

from __future__ import annotations

import math
from random import Random

import pytest
from peer_packages import PACKAGES, answers

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Mean, Metric
from skillopt_mcp.gates.search import TaskScore, compare, metric_value, strict

METRICS: tuple[Metric, ...] = ("hard", "soft", "mixed")
N_CASES = 10_000
_ACTIONS = {"accept_best": "accept_new_best", "accept": "accept", "reject": "reject"}
_Gate = tuple[Metric, float, float, float, float, float]
_Scores = list[tuple[int, float]]


def _score(random: Random) -> float:
    """Return a score on a few tasks: coarse, so that ties are as common as they are in a run."""
    n = random.choice((1, 2, 3, 5, 10, 40))
    return random.randint(0, n) / n


def _gate(random: Random) -> _Gate:
    weight = random.choice((0.5, random.random(), random.uniform(-1, 2)))
    return (random.choice(METRICS), weight, *(_score(random) for _ in range(4)))  # type: ignore[return-value]


def _ours(case: _Gate) -> tuple[str, float, float]:
    metric, weight, hard, soft, current, best = case
    try:
        score = metric_value(Mean(hard=hard, soft=soft, n=1, n_missing=0), metric, weight)
    except BadInput:
        return "refused", current, best
    verdict = strict(score, current, best)
    moved = score if verdict != "reject" else current
    return _ACTIONS[verdict], moved, score if verdict == "accept_best" else best


def _intended_gate(package: str, case: _Gate) -> str:
    """Return why this case may differ: the written list of intended differences between two gates."""
    metric, weight, hard, soft, current, best = case
    if not 0 <= weight <= 1:
        # skillopt clamps it where it is used, skillrl refuses it where it is used; ours is never a weight at all.
        return "a mixed weight outside [0, 1] is refused"
    score = hard if metric == "hard" else soft if metric == "soft" else (1 - weight) * hard + weight * soft
    if package == "skillrl" and best < score <= current:
        return "a best score below the current one, which no run has: accepting what is below current is no answer"
    return ""


@pytest.mark.parametrize("package", PACKAGES)
def test_the_strict_gate_decides_10_000_random_inputs_as_published(package: str) -> None:
    random = Random("gates")
    cases = [_gate(random) for _ in range(N_CASES)]

    theirs = answers(package, "gates", cases)

    different = [case for case, given in zip(cases, theirs, strict=True) if _ours(case) != tuple(given)]
    assert [case for case in different if not _intended_gate(package, case)] == []
    assert len(different) < N_CASES / 3


def _scores(random: Random, n: int) -> _Scores:
    return [(hard, random.choice((float(hard), random.random()))) for hard in random.choices((0, 1), k=n)]


def _mean(scores: _Scores, metric: Metric) -> float:
    hard, soft = (sum(row[side] for row in scores) / len(scores) for side in (0, 1))
    return metric_value(Mean(hard=hard, soft=soft, n=1, n_missing=0), metric)


def _task_scores(scores: _Scores) -> list[TaskScore]:
    return [TaskScore(task_id, bool(hard), soft) for task_id, (hard, soft) in enumerate(scores)]


def _rounding_tie(metric: Metric, *versions: _Scores) -> bool:
    """Return whether two of the means differ by rounding alone: ours rounds once, so such means are a tie."""
    candidate, current, best = (_mean(scores, metric) for scores in versions)
    return any(candidate != other and math.isclose(candidate, other, abs_tol=1e-12) for other in (current, best))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_scores_of_tasks_lead_to_the_published_decision(package: str) -> None:
    random = Random("tasks")
    cases: list[tuple[Metric, _Scores, _Scores, _Scores]] = []
    for _ in range(N_CASES // 5):
        n = random.randint(1, 12)
        candidate, current = _scores(random, n), _scores(random, n)
        if random.random() < 0.3:
            candidate = random.sample(current, n)
        metric = random.choice(METRICS)
        rival = _scores(random, n)
        best = max(current, rival, key=lambda scores: _mean(scores, metric))
        cases.append((metric, candidate, current, best))

    theirs = answers(package, "compared", cases)

    different = []
    for case, given in zip(cases, theirs, strict=True):
        metric, *versions = case
        candidate, current, best = map(_task_scores, versions)  # type: ignore[assignment]
        if _ACTIONS[compare(candidate, current, best, metric).verdict] != given:
            different.append(case)
    assert [case for case in different if not _rounding_tie(*case)] == []
    assert len(different) < 100
