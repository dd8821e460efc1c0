"""Means: the scores of many trials as one score that gates compare."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.evidence import Mean, Metric

EVEN = 0.5
"""The weight of soft in the mixed metric where nobody asks for another."""


class Scored(Protocol):
    """What has a score: a trial, or what is kept of one. Both are None where it is missing."""

    @property
    def hard(self) -> bool | None: ...

    @property
    def soft(self) -> float | None: ...


def mean_score(trials: Iterable[Scored]) -> Mean:
    """Return the mean hard and soft scores in [0, 1]; missing trials are counted and left out of both."""
    trials = list(trials)
    scored = [(float(trial.hard), trial.soft) for trial in trials if trial.hard is not None]
    n = len(scored)
    if n == 0:
        return Mean(hard=0.0, soft=0.0, n=0, n_missing=len(trials))
    # fsum rounds once, so the same scores in another order are a tie and not a gain of 1e-17.
    hard = math.fsum(hard for hard, _ in scored) / n
    soft = math.fsum(hard if soft is None else soft for hard, soft in scored) / n
    return Mean(hard=hard, soft=soft, n=n, n_missing=len(trials) - n)


def metric_value(mean: Mean, metric: Metric, mixed_weight: float = EVEN) -> float:
    """Return the score in [0, 1] that a gate compares; `mixed_weight` is the weight of soft in mixed.

    Raises BadInput when the weight is outside [0, 1].
    """
    if not 0 <= mixed_weight <= 1:
        raise BadInput(f'mixed weight "{mixed_weight}" is not possible; use 0 (all hard) to 1 (all soft)')
    if metric == "mixed":
        return (1.0 - mixed_weight) * mean.hard + mixed_weight * mean.soft
    return mean.hard if metric == "hard" else mean.soft
