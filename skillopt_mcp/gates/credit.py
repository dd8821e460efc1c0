"""Credit: which edits of a candidate carry its gain, which do harm, and which only cost tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.betting import CREDIT_BETS, Wealth
from skillopt_mcp.records.evidence import Pair

CreditVerdict = Literal["harms", "helps", "spare", "unclear"]


@dataclass(frozen=True, slots=True)
class CreditRule:
    """How sure a blame must be.

    `alpha` bounds the chance that an edit which does no harm is ever blamed, that one which does not help is ever
    praised, and that one whose loss costs more than `delta` is ever called spare; each over the whole walk.
    """

    alpha: float = 0.15
    delta: float = 0.15
    max_pairs: int = 60
    bets: int = CREDIT_BETS

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise BadInput(f'alpha "{self.alpha}" is no error rate; use a number between 0 and 1, such as 0.15')
        if not 0 < self.delta < 1:
            raise BadInput(f'delta "{self.delta}" is no loss that could be borne; use a number between 0 and 1')
        if self.max_pairs < 1:
            raise BadInput(f'max_pairs "{self.max_pairs}" is not possible; use 1 or more')


@dataclass(frozen=True, slots=True)
class Credit:
    """The verdict on one edit: `gain` is what it adds to the mean score, over `n_pairs`."""

    verdict: CreditVerdict
    gain: float
    n_pairs: int


def credit(pairs: Sequence[Pair], rule: CreditRule) -> Credit:
    """Return the verdict on an edit from pairs of (candidate without it, whole candidate), up to one that decides.

    Pairs are drawn as those of a promotion test (see betting). A pair with a missing arm says nothing: credit moves no
    file, it only says which smaller candidate is worth a test of its own. Spare is said at the end alone: what could
    go without a loss may yet turn out to do harm.
    """
    harms, helps, spare = (Wealth(rule.bets) for _ in range(3))
    n, total, is_spare = 0, 0.0, False
    for pair in pairs[: rule.max_pairs]:
        if pair.base is None or pair.candidate is None:
            continue
        n += 1
        gain = pair.candidate - pair.base
        total += gain
        for wealth, value in ((harms, -gain), (helps, gain), (spare, rule.delta - gain)):
            wealth.take(value)
        is_spare = is_spare or spare.total >= 1 / rule.alpha
        if harms.total >= 1 / rule.alpha:
            return Credit("harms", total / n, n)
        if helps.total >= 1 / rule.alpha:
            return Credit("helps", total / n, n)
    return Credit("spare" if is_spare else "unclear", total / max(1, n), n)


def bisect(n_edits: int, gains: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    """Return the places of the edits worth keeping of a rejected bundle, asking `gains` whether a part of it gains.

    Halves are tried in turn: a part that gains is kept whole, one that does not is halved again, down to single edits.
    At most 2 n - 2 questions.
    """
    if n_edits < 2:
        return ()
    middle = n_edits // 2
    return _rescued(tuple(range(middle)), gains) + _rescued(tuple(range(middle, n_edits)), gains)


def _rescued(part: tuple[int, ...], gains: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    if gains(part):
        return part
    if len(part) < 2:
        return ()
    middle = len(part) // 2
    return _rescued(part[:middle], gains) + _rescued(part[middle:], gains)
