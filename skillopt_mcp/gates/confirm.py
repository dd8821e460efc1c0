"""Confirm: the promotion gate, a paired test that may be looked at after every pair and keeps its error rate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.betting import BETS, CURRENT_BETS, MIXTURE_COST, Wealth, growth
from skillopt_mcp.records.evidence import Claim, Confirmation, ConfirmVerdict, Pair

_MIN_PAIRS_TO_ESTIMATE = 8
_MAX_ESTIMATE = 10_000
_WHERE: dict[Claim, str] = {"these": "on these tasks", "like_these": "on tasks like these"}


@dataclass(frozen=True, slots=True)
class ConfirmRule:
    """How sure a verdict must be, and of what.

    `alpha` bounds the chance that a candidate whose gain is at most `margin` is ever accepted, `beta` the chance that
    one which gains `min_effect` or more is ever rejected: 0.05 is below what a few hundred pairs can prove, so no
    provable gain is given up. A margin above 0 asks for a gain of that size, one below 0 excludes a larger loss.
    `max_pairs` is where to pause undecided; going on later with a larger one is sound. `bets` names the mixture.
    `claim` says of which tasks a verdict speaks: pairs must be drawn accordingly (see confirm).
    """

    alpha: float = 0.05
    beta: float = 0.05
    min_effect: float = 0.05
    max_pairs: int = 200
    margin: float = 0.0
    bets: int = CURRENT_BETS
    claim: Claim = "these"

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0 < value < 1:
                raise BadInput(f'{name} "{value}" is no error rate; use a number between 0 and 1, such as 0.05')
        if not 0 <= self.min_effect < 1:
            raise BadInput(f'min_effect "{self.min_effect}" is not possible; use 0 or more and less than 1')
        # No gain at all is where the test of a gain stands when its candidate must bring none: equality is allowed.
        if not -1 < self.margin <= self.min_effect:
            raise BadInput(f'margin "{self.margin}" is not possible; use a number above -1, up to min_effect')
        if self.max_pairs < 1:
            raise BadInput(f'max_pairs "{self.max_pairs}" is not possible; use 1 or more')
        if self.bets not in BETS:
            raise BadInput(f'bets "{self.bets}" are unknown to this version; use one of {", ".join(map(str, BETS))}')


def no_worse(delta: float, alpha: float = 0.05, max_pairs: int = 400) -> ConfirmRule:
    """Return the non-inferiority rule: accept when a loss above `delta` is excluded, reject when no loss at all is.

    For a candidate that has another merit, such as fewer tokens. Raises BadInput when delta is not in (0, 1).
    """
    if not 0 < delta < 1:
        raise BadInput(f'delta "{delta}" is no loss that could be borne; use a number between 0 and 1, such as 0.1')
    return ConfirmRule(alpha=alpha, min_effect=0.0, max_pairs=max_pairs, margin=-delta)


@dataclass(slots=True)
class _Walk:
    """The state of the test after some pairs: the wealth of each claim, and sums for means and estimates."""

    rule: ConfirmRule
    gains: Wealth = field(init=False)
    losses: Wealth = field(init=False)
    n: int = 0
    n_missing: int = 0
    base: float = 0.0
    candidate: float = 0.0
    difference: float = 0.0
    square: float = 0.0

    def __post_init__(self) -> None:
        self.gains, self.losses = Wealth(self.rule.bets), Wealth(self.rule.bets)

    def take(self, pair: Pair) -> None:
        """Bet on one pair. A missing one is the worst difference for an accept, so that losing replies never helps a
        candidate, and says nothing for a reject, so that an outage condemns none."""
        self.n += 1
        if pair.base is None or pair.candidate is None:
            self.n_missing += 1
            self.gains.take(_above(-1.0, self.rule.margin))
            return
        self.base += pair.base
        self.candidate += pair.candidate
        difference = pair.candidate - pair.base
        self.difference += difference
        self.square += difference * difference
        self.gains.take(_above(difference, self.rule.margin))
        self.losses.take(self.rule.min_effect - difference)


def confirm(pairs: Iterable[Pair], rule: ConfirmRule) -> Confirmation:
    """Return the verdict on `pairs`, walked in the order in which they were drawn up to the first that decides.

    With both arms rolled out afresh, the error rates of the rule hold exactly (see betting): "on these tasks" when
    tasks are drawn uniformly with replacement from the held-out ones; "on tasks like these" when each pair has a new
    task, drawn from where tasks come from and not seen by whoever made the candidate: then the differences are
    independent, and their mean is that of all such tasks. Raises BadInput when a score is outside [0, 1].
    """
    walk = _Walk(rule)
    for pair in islice(pairs, rule.max_pairs):
        _check(pair)
        walk.take(pair)
        if walk.gains.total >= 1 / rule.alpha:
            return _confirmation("accept", walk)
        if walk.losses.total >= 1 / rule.beta:
            return _confirmation("reject", walk)
    return _confirmation("undecided", walk)


def pairs_needed(effect: float, sd: float, rule: ConfirmRule) -> int:
    """Return roughly how many pairs an accept takes when differences have mean `effect` and standard deviation `sd`.

    Raises BadInput when effect is not above the margin, or above 1, or sd not in [0, 1].
    """
    if not max(rule.margin, -1) < effect <= 1:
        raise BadInput(f'effect "{effect}" is not a gain in mean score; use a number above {rule.margin:g}, up to 1')
    if not 0 <= sd <= 1:
        raise BadInput(f'sd "{sd}" is not possible for differences of scores; use a number from 0 to 1')
    above = _above(effect, rule.margin)
    return math.ceil((math.log(1 / rule.alpha) + MIXTURE_COST) / growth(above, sd * sd + above * above, rule.bets))


def claimed(rule: ConfirmRule) -> str:
    """Return what an accept says of the candidate."""
    if rule.margin < 0:
        return f"no worse by more than {-rule.margin:g}"
    return f"better by more than {rule.margin:g}" if rule.margin > 0 else "better"


def fewest_pairs(rule: ConfirmRule) -> int:
    """Return how many pairs an accept takes when the candidate wins every one: no test is shorter."""
    wealth, n = Wealth(rule.bets), 0
    while wealth.total < 1 / rule.alpha:
        wealth.take(_above(1.0, rule.margin))
        n += 1
    return n


def fewest_more(pairs: Iterable[Pair], rule: ConfirmRule) -> int:
    """Return how many more pairs a verdict takes after these, were all of them won, or all lost; 0 once it is there."""
    walk = _Walk(rule)
    for pair in pairs:
        walk.take(pair)
    n = 0
    while walk.gains.total < 1 / rule.alpha and walk.losses.total < 1 / rule.beta:
        walk.gains.take(_above(1.0, rule.margin))
        walk.losses.take(rule.min_effect + 1.0)
        n += 1
    return n


def _above(difference: float, margin: float) -> float:
    """Return by how much a difference is above the margin, at least -1: a large margin leaves less to bet with."""
    return (difference - margin) / (1 + max(0.0, margin))


def _n_expected(walk: _Walk) -> int | None:
    """Return how many more pairs the nearer verdict is expected to take, were the rest like those seen."""
    rule, n_scored = walk.rule, walk.n - walk.n_missing
    if n_scored < _MIN_PAIRS_TO_ESTIMATE:
        return None
    mean, variance = walk.difference / n_scored, walk.square / n_scored - (walk.difference / n_scored) ** 2
    estimates = []
    for gain, wealth, rate in (
        (_above(mean, rule.margin), walk.gains, rule.alpha),
        (rule.min_effect - mean, walk.losses, rule.beta),
    ):
        to_go = -math.log(rate) - math.log(max(wealth.total, 1e-300))
        if gain > 0:
            estimates.append(to_go / max(growth(min(1.0, gain), variance + gain * gain, rule.bets), 1e-12))
    nearest = min(estimates, default=math.inf)
    return math.ceil(nearest) if nearest <= _MAX_ESTIMATE else None


def _confirmation(verdict: ConfirmVerdict, walk: _Walk) -> Confirmation:
    n_scored = max(1, walk.n - walk.n_missing)
    wealth = walk.gains.total
    expected = _n_expected(walk) if verdict == "undecided" else 0
    return Confirmation(
        verdict=verdict,
        reason=_reason(verdict, wealth, expected, walk.rule),
        n_pairs=walk.n,
        n_expected=expected,
        alpha=walk.rule.alpha,
        wealth=wealth,
        base_mean=walk.base / n_scored,
        candidate_mean=walk.candidate / n_scored,
        n_missing=walk.n_missing,
    )


def _reason(verdict: ConfirmVerdict, wealth: float, expected: int | None, rule: ConfirmRule) -> str:
    if verdict == "accept":
        return f"{claimed(rule)} {_WHERE[rule.claim]}: evidence {wealth:.1f} to 1, {1 / rule.alpha:.1f} to 1 was asked"
    if verdict == "reject":
        what = f"a gain of {rule.min_effect:g} or more" if rule.min_effect else "that it loses nothing"
        return f"{what} {_WHERE[rule.claim]} is excluded at an error rate of {rule.beta:g}"
    more = "too early to say how many more pairs" if expected is None else f"about {expected} more pairs expected"
    return f"not decided: evidence {wealth:.2f} to 1, {1 / rule.alpha:.1f} to 1 is asked; {more}"


def _check(pair: Pair) -> None:
    for score in (pair.base, pair.candidate):
        if score is not None and not 0 <= score <= 1:
            raise BadInput(f'score "{score}" of a pair is not possible; use a number from 0 to 1')
