"""Betting: how evidence against "the mean is at most 0" grows, one bounded value at a time.

Waudby-Smith and Ramdas (2024): a gambler who bets a fixed share on each value has a wealth that is a nonnegative
supermartingale while that mean is at most 0, so by Ville's inequality it reaches 1/alpha with a chance of at most
alpha, however often one looks. A mixture of gamblers is one too, as long as their first stakes add up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from skillopt_mcp.documents.text import counted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.evidence import Claim, Confirmation, ConfirmVerdict, Pair

BETS = ((0.2, 0.2), (0.45, 0.45), (0.85, 0.35))
"""The gamblers of the mixture: (share that is bet, in (0, 1); first stake); the stakes add up to 1. Three lose less to
each other than five; these give the shortest tests for gains of 0.16 to 0.3."""

GATE = "confirm"  # as the store names promotion tests
MIXTURE_COST = 0.6
"""What a mixture costs compared with its best gambler, in log wealth; measured by benchmarks/gates.py."""


class Wealth:
    """The wealth of a mixture of gamblers; it starts at 1."""

    __slots__ = ("_parts", "_shares")

    def __init__(self) -> None:
        self._shares = [share for share, _ in BETS]
        self._parts = [stake for _, stake in BETS]

    def take(self, value: float) -> None:
        """Bet on one value; it must be at least -1 for the wealth to stay above 0."""
        self._parts = [part * (1 + share * value) for part, share in zip(self._parts, self._shares, strict=True)]

    @property
    def total(self) -> float:
        """Return the wealth of all gamblers together."""
        return sum(self._parts)


def growth(mean: float, square: float) -> float:
    """Return the log wealth that the best bet gains per value, for values of -1, 0 and 1 with these two moments."""
    square = min(1.0, max(square, mean))
    bet = min(mean / square, BETS[-1][0])
    return (square + mean) / 2 * math.log(1 + bet) + (square - mean) / 2 * math.log(1 - bet)


_MIN_PAIRS_TO_ESTIMATE = 8
_MAX_ESTIMATE = 10_000
_WHERE: dict[Claim, str] = {"these": "on these tasks", "like_these": "on tasks like these"}


@dataclass(frozen=True, slots=True)
class ConfirmRule:
    """How sure a verdict must be, and of what.

    `alpha` bounds the chance that a candidate whose gain is at most `margin` is ever accepted, `beta` the chance that
    one which gains `min_effect` or more is ever rejected: 0.05 is below what a few hundred pairs can prove, so no
    provable gain is given up. A margin above 0 asks for a gain of that size, one below 0 excludes a larger loss.
    `max_pairs` is where to pause undecided; going on later with a larger one is sound.
    `claim` says which tasks a verdict is about: pairs must be drawn accordingly (see confirm).
    """

    alpha: float = 0.05
    beta: float = 0.05
    min_effect: float = 0.05
    max_pairs: int = 200
    margin: float = 0.0
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
        self.gains, self.losses = Wealth(), Wealth()

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
    task, drawn from where tasks come from and not seen by the author of the candidate: then the differences are
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
    return math.ceil((math.log(1 / rule.alpha) + MIXTURE_COST) / growth(above, sd * sd + above * above))


def claimed(rule: ConfirmRule) -> str:
    """Return what an accept says of the candidate."""
    if rule.margin < 0:
        return f"no worse by more than {-rule.margin:g}"
    return f"better by more than {rule.margin:g}" if rule.margin > 0 else "better"


def fewest_pairs(rule: ConfirmRule) -> int:
    """Return how many pairs an accept takes when the candidate wins every one: no test is shorter."""
    wealth, n = Wealth(), 0
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
            estimates.append(to_go / max(growth(min(1.0, gain), variance + gain * gain), 1e-12))
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


_N_EXACT = 1000


def alpha_for(j: int, alpha: float) -> float:
    """Return the least error rate of a skill's j-th test (1-based); over all j they add up to `alpha`."""
    if j < 1:
        raise BadInput(f'test number "{j}" is not possible; tests count from 1')
    return alpha * 6 / (math.pi**2 * j**2)


def refund(alpha: float, wealth: float) -> float:
    """Return the error budget that a test at `alpha` gives back when it is rejected for good with this wealth.

    The wealth starts at 1 and is a supermartingale, so P(false accept) <= alpha (1 - E[wealth at the end; no accept]):
    a test that ends without an accept has used only 1 - wealth of its chance. What stays spent covers, in expectation
    given the past, each test's chance of a false accept, and it never adds up to more than the lifetime alpha on any
    path. So the chance of ever accepting a candidate that is no better is at most that alpha, whatever the others are.
    A wealth above 1 gives back no more than was put in.
    """
    return alpha * min(1.0, max(0.0, wealth))


def next_alpha(j: int, alpha: float, staked: float, refunded: float) -> float:
    """Return the error rate of a skill's j-th test, whose earlier ones staked and gave back so much of `alpha`.

    It takes the share of what is left that alpha_j is of what all tests from the j-th on would take: with nothing given
    back that is alpha_j, else more. Under changing alphas the largest one holds. Raises BadInput when j < 1.
    """
    left = alpha - staked + refunded
    return max(alpha_for(j, alpha), left * _share(j))


def _share(j: int) -> float:
    """Return 1/j^2 over the sum of 1/i^2 from i = j on."""
    if j > _N_EXACT:
        # The tail of the sum lies between 1/j and 1/(j - 1); the larger one asks for less, and so is on the safe side.
        return (j - 1) / j**2
    return 1 / j**2 / (math.pi**2 / 6 - math.fsum(1 / i**2 for i in range(1, j)))


PAIRS_AT_ONCE = 8
"""Of how many pairs attempts are on their way at once, and so how many one interruption can cut short."""
SPARE = 1
"""By how many redraws beyond that the candidate may be ahead: a little luck in what an interruption meets."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often the attempts of one pair were restarted: their process was ended, or their lease ran out."""

    base: int = 0
    candidate: int = 0


@dataclass(slots=True)
class Redraws:
    """The redraws of a promotion test, taken in pair by pair in drawn order.

    Who ends a process whenever an attempt hangs, or lets leases run out, counts the best of several attempts, and what
    is on its way at a Ctrl-C is what takes long. One interruption is forgiven: the first redraw of each attempt among
    the pairs that were on their way with the first. Beyond it, what was redrawn more often for the candidate than for
    the live version is held against it: that pair is missing, and its redraws are paid for. The other way round,
    where what is ended is what fails, they only make an accept harder.
    """

    base: int = 0
    candidate: int = 0
    n_charged: int = 0
    _first: int | None = field(default=None, init=False)
    _surplus: int = field(default=0, init=False)

    def take(self, n: int, restarts: Restarts) -> bool:
        """Take in the n-th pair; return whether the candidate's attempt counts as missing for its redraws."""
        if not (restarts.base or restarts.candidate):
            return False
        self.base += restarts.base
        self.candidate += restarts.candidate
        if self._first is None:
            self._first = n
        forgiven = 1 if n < self._first + PAIRS_AT_ONCE else 0
        base, candidate = (max(0, times - forgiven) for times in (restarts.base, restarts.candidate))
        self._surplus += candidate - base
        if not candidate or self._surplus <= SPARE:
            return False
        self._surplus -= candidate
        self.n_charged += 1
        return True

    def __str__(self) -> str:
        """Return in words how many there were, and what that cost the candidate; empty where there were none."""
        if not (self.base or self.candidate):
            return ""
        text = (
            f"{counted(self.candidate, 'attempt')} of the candidate and {self.base} of the live version were restarted"
        )
        if not self.n_charged:
            return text
        return f"{text}, more than an interruption explains: {counted(self.n_charged, 'pair')} of it counted as missing"


def redraws_of(taken: Mapping[int, Restarts]) -> Redraws:
    """Return the redraws of pairs by their numbers."""
    redraws = Redraws()
    for n, restarts in sorted(taken.items()):
        redraws.take(n, restarts)
    return redraws


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
