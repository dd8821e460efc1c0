"""Confirm: the promotion gate, a paired test that may be looked at after every pair and keeps its error rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.evidence import Confirmation, ConfirmVerdict, Pair

# Chosen by measured power (benchmarks/confirm_error.py): small bets find gains of 0.1, large ones end early on gains
# of 0.3 and more. Any fixed bets below 1 with weights that add up to 1 keep the error rate.
_BETS = (0.2, 0.4, 0.6, 0.8, 0.95)
_WEIGHTS = (0.25, 0.25, 0.2, 0.15, 0.15)
# What the mixture costs beside the best single bet, in log wealth; from the same measurement.
_MIXTURE_COST = 0.6
_MIN_PAIRS_TO_ESTIMATE = 8
_MAX_ESTIMATE = 10_000


@dataclass(frozen=True, slots=True)
class ConfirmRule:
    """How sure a verdict must be.

    `alpha` bounds the chance that a candidate that is no better is ever accepted, `beta` the chance that one which
    gains `min_effect` or more is ever rejected: 0.05 is below what a few hundred pairs can prove, so no provable gain
    is given up. `max_pairs` is where to pause undecided; going on later with a larger one is sound.
    """

    alpha: float = 0.05
    beta: float = 0.05
    min_effect: float = 0.05
    max_pairs: int = 200

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0 < value < 1:
                raise BadInput(f'{name} "{value}" is no error rate; use a number between 0 and 1, such as 0.05')
        if not 0 <= self.min_effect < 1:
            raise BadInput(f'min_effect "{self.min_effect}" is not possible; use 0 or more and less than 1')
        if self.max_pairs < 1:
            raise BadInput(f'max_pairs "{self.max_pairs}" is not possible; use 1 or more')


@dataclass(slots=True)
class _Walk:
    """The state of the test after some pairs: one wealth per bet for each claim, and sums for means and estimates."""

    min_effect: float
    gains: list[float]
    losses: list[float]
    n: int = 0
    n_missing: int = 0
    base: float = 0.0
    candidate: float = 0.0
    difference: float = 0.0
    square: float = 0.0

    def take(self, pair: Pair) -> None:
        """Bet on one pair. A missing one is the worst difference for an accept, so that losing replies never helps a
        candidate, and says nothing for a reject, so that an outage condemns none."""
        self.n += 1
        if pair.base is None or pair.candidate is None:
            self.n_missing += 1
            self.gains = [wealth * (1 - bet) for wealth, bet in zip(self.gains, _BETS, strict=True)]
            return
        self.base += pair.base
        self.candidate += pair.candidate
        difference = pair.candidate - pair.base
        self.difference += difference
        self.square += difference * difference
        below = self.min_effect - difference
        self.gains = [wealth * (1 + bet * difference) for wealth, bet in zip(self.gains, _BETS, strict=True)]
        self.losses = [wealth * (1 + bet * below) for wealth, bet in zip(self.losses, _BETS, strict=True)]


def confirm(pairs: Sequence[Pair], rule: ConfirmRule) -> Confirmation:
    """Return the verdict on `pairs`, walked in the order in which they were drawn up to the first that decides.

    Betting on bounded means (Waudby-Smith and Ramdas 2024): under "no gain" the wealth is a supermartingale that
    starts at 1, so by Ville's inequality it ever reaches 1/alpha with a chance of at most alpha, however often one
    looks. Pairs must be drawn uniformly with replacement from the held-out tasks, both arms rolled out afresh; then the
    claim is exactly "on these tasks". Raises BadInput when a score is outside [0, 1].
    """
    walk = _Walk(rule.min_effect, list(_WEIGHTS), list(_WEIGHTS))
    for pair in pairs[: rule.max_pairs]:
        _check(pair)
        walk.take(pair)
        if sum(walk.gains) >= 1 / rule.alpha:
            return _confirmation("accept", walk, rule)
        if sum(walk.losses) >= 1 / rule.beta:
            return _confirmation("reject", walk, rule)
    return _confirmation("undecided", walk, rule)


def alpha_for(j: int, alpha: float) -> float:
    """Return the error rate of a skill's j-th test (1-based); over all j they add up to `alpha`."""
    if j < 1:
        raise BadInput(f'test number "{j}" is not possible; tests count from 1')
    return alpha * 6 / (math.pi**2 * j**2)


def pairs_needed(effect: float, sd: float, rule: ConfirmRule) -> int:
    """Return roughly how many pairs an accept takes when differences have mean `effect` and standard deviation `sd`.

    Raises BadInput when effect is not in (0, 1] or sd not in [0, 1].
    """
    if not 0 < effect <= 1:
        raise BadInput(f'effect "{effect}" is not a gain in mean score; use a number above 0, up to 1')
    if not 0 <= sd <= 1:
        raise BadInput(f'sd "{sd}" is not possible for differences of scores; use a number from 0 to 1')
    growth = _growth(effect, sd * sd + effect * effect)
    return math.ceil((math.log(1 / rule.alpha) + _MIXTURE_COST) / growth)


def _growth(mean: float, square: float) -> float:
    """Return the log wealth that the best bet gains per pair, for differences of -1, 0 and 1 with these two moments."""
    square = min(1.0, max(square, mean))
    bet = min(mean / square, _BETS[-1])
    return (square + mean) / 2 * math.log(1 + bet) + (square - mean) / 2 * math.log(1 - bet)


def _n_expected(walk: _Walk, rule: ConfirmRule) -> int | None:
    """Return how many more pairs the nearer verdict is expected to take, were the rest like those seen."""
    n_scored = walk.n - walk.n_missing
    if n_scored < _MIN_PAIRS_TO_ESTIMATE:
        return None
    mean, square = walk.difference / n_scored, walk.square / n_scored
    below = rule.min_effect - mean
    below_square = square - 2 * rule.min_effect * mean + rule.min_effect**2
    estimates = []
    for gain, gain_square, wealths, rate in (
        (mean, square, walk.gains, rule.alpha),
        (below, below_square, walk.losses, rule.beta),
    ):
        to_go = -math.log(rate) - math.log(max(sum(wealths), 1e-300))
        if gain > 0:
            estimates.append(to_go / max(_growth(gain, gain_square), 1e-12))
    nearest = min(estimates, default=math.inf)
    return math.ceil(nearest) if nearest <= _MAX_ESTIMATE else None


def _confirmation(verdict: ConfirmVerdict, walk: _Walk, rule: ConfirmRule) -> Confirmation:
    n_scored = max(1, walk.n - walk.n_missing)
    wealth = sum(walk.gains)
    expected = _n_expected(walk, rule) if verdict == "undecided" else 0
    return Confirmation(
        verdict=verdict,
        reason=_reason(verdict, wealth, expected, rule),
        n_pairs=walk.n,
        n_expected=expected,
        alpha=rule.alpha,
        wealth=wealth,
        base_mean=walk.base / n_scored,
        candidate_mean=walk.candidate / n_scored,
        n_missing=walk.n_missing,
    )


def _reason(verdict: ConfirmVerdict, wealth: float, expected: int | None, rule: ConfirmRule) -> str:
    if verdict == "accept":
        return f"better on these tasks: evidence {wealth:.1f} to 1, {1 / rule.alpha:.1f} to 1 was asked"
    if verdict == "reject":
        return f"a gain of {rule.min_effect:g} or more on these tasks is excluded at an error rate of {rule.beta:g}"
    more = "too early to say how many more pairs" if expected is None else f"about {expected} more pairs expected"
    return f"not decided: evidence {wealth:.2f} to 1, {1 / rule.alpha:.1f} to 1 is asked; {more}"


def _check(pair: Pair) -> None:
    for score in (pair.base, pair.candidate):
        if score is not None and not 0 <= score <= 1:
            raise BadInput(f'score "{score}" of a pair is not possible; use a number from 0 to 1')
