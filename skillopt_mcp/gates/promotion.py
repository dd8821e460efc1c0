"""The promotion test: is one text better than another on tasks like the held-out ones, or was it luck?

Units are families of held-out tasks in a salted order. Every unit is asked once with each text, then again, up to
`passes` times. If nothing is better, the path of a unit (its net results in pass 1, 2, ...) is as likely as the one
with all signs turned; so `SignTest` turns whole paths, counts in how many of the choices of signs the total is as large
as the one observed, and spends its error rate along the way (Fisher's randomization test; Lan and DeMets 1983). Whole
numbers decide. `Reading` reads a test from its plan and its attempts, in whatever order they arrive; `stand` says where
that leaves it: the verdict that is stored, shown and verified.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from skillopt_mcp.core.evidence import (
    Arm,
    Gain,
    KindResult,
    Lost,
    Opened,
    RunCounts,
    Solved,
    Standing,
    TestAttempt,
    Units,
    Verdict,
)
from skillopt_mcp.gates.rounds import MAX_PAIRS, SMALL_SUITE_PAIRS, read_rounds

RELEASE_ALPHA = 0.05
MIN_UNITS, ENOUGH_UNITS = 8, 20
"""Below the first a suite can show what is so on its own tasks alone; below the second, large gains only."""
MAX_PASSES = 8
MAX_HOURS = 24.0
MAX_AGAIN = 4
"""Attempts that are lost for a cause that nobody verified are repeated so often in a test, in both arms together."""
N_CHOICES = 1 << 16
FIRST_BLOCK = 8
"""So many pairs say whether the skill is opened at all."""
_WEIGHT = 3
_GRADES = 3
_Z95 = 1.96
_ARMS: tuple[Arm, ...] = ("base", "candidate")


def alpha_of(number: int) -> Fraction:
    """The error rate of the `number`-th test of a release (1-based): a third of what is left of 5 %."""
    return Fraction(2 ** (number - 1), 20 * 3**number)


def least_of_kind(number: int) -> int:
    """How many units of one kind can decide the `number`-th test of a release, all of them better."""
    return math.ceil(math.log2(1 / alpha_of(number)))


def passes_for(earlier: Sequence[Sequence[float]]) -> int:
    """How often each unit is asked with each text, given the base's `earlier` scores by unit.

    Once where the target repeats itself: two earlier attempts or more at every unit, that differ at one in ten at most.
    """
    n = len(earlier)
    if n and all(len(scores) >= 2 for scores in earlier) and 10 * sum(len(set(each)) > 1 for each in earlier) <= n:
        return 1
    return max(4, min(MAX_PASSES, 150 // max(1, n)))


class Plan(BaseModel):
    """What is fixed before a test asks anything, but for its `number` in the release, which its first answer fixes.

    `units` are named in their order; `salt` draws the signs and which text goes first. `earlier` are the base's scores
    before, by unit: where each of the first units has two or more, the candidate's pilot is compared with them. Units
    of the `kind`, by their places, have the `tag` and weigh three times; with `cases_alone` there are no others. A test
    of a `live` text also asks whether it is worse. A `graded` test compares scores from 0 to 1, any other one passes.
    With a `margin`, `cases_alone` or fewer than 8 units a test goes in rounds of every unit once per arm, up to
    `max_pairs`: 0 is 1,200, without a margin 60. One that `needs_opening` compares nothing where the skill was opened
    in no attempt of its first 8 pairs, or its first round. One of `one_text` compares models, whose names differ.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    salt: str
    units: tuple[str, ...] = Field(min_length=1)
    passes: int = Field(ge=1, le=MAX_PASSES)
    number: int = Field(default=1, ge=1, le=1_000)
    graded: bool = False
    live: bool = False
    kind: tuple[int, ...] = ()
    tag: str = ""
    cases_alone: bool = False
    earlier: tuple[tuple[Annotated[float, Field(ge=0, le=1)], ...], ...] = ()
    margin: float | None = Field(default=None, gt=0, lt=1)
    max_pairs: int = Field(default=0, ge=0, le=MAX_PAIRS)
    needs_opening: bool = False
    one_text: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind and (self.live or not set(self.kind) <= set(range(self.n_units))):
            raise ValueError("a kind is units of a test whose text is not live")
        return self

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return len(self.units)

    @property
    def question(self) -> tuple[object, ...]:
        """What the test asks: two of the same texts that ask the same are one."""
        return self.margin, self.graded, self.live, self.tag, self.cases_alone

    @property
    def alpha(self) -> Fraction:
        """The chance, at most, of a wrong BETTER."""
        return alpha_of(self.number)

    @property
    def in_rounds(self) -> bool:
        """Whether the test makes its claims on these tasks alone, in whole rounds."""
        return self.margin is not None or self.cases_alone or self.n_units < MIN_UNITS

    @property
    def most_runs(self) -> int:
        """How many attempts the test makes at most."""
        return 2 * (max(self.max_pairs, self.n_units) if self.in_rounds else self.passes * self.n_units)

    @property
    def largest(self) -> int:
        """The largest net result of a pair."""
        return _GRADES if self.graded else 1

    @property
    def n_pilot(self) -> int:
        """How many units the candidate answers first, to be compared with the base's earlier attempts there."""
        n = self.n_units
        m = max(min(n, 30), -(-n // 2))
        is_known = len(self.earlier) >= m and all(len(scores) >= 2 for scores in self.earlier[:m])
        return m if is_known and not self.live and not self.in_rounds else 0

    @cached_property
    def sequence(self) -> tuple[tuple[Arm, int, int], ...]:
        """All attempts in their one fixed order, as (arm, unit, pass from 0): the pilot, then pair by pair."""
        pilot: list[tuple[Arm, int, int]] = [("candidate", unit, 0) for unit in range(self.n_pilot)]
        pairs = [
            (arm, unit, n)
            for n in range(self.passes)
            for unit in range(self.n_units)
            for is_base_first in [hashlib.sha256(f"{self.salt}/first/{n}/{unit}".encode()).digest()[0] & 1]
            for arm in (_ARMS if is_base_first else _ARMS[::-1])
        ]
        return (*dict.fromkeys([*pilot, *pairs]),)

    def numbered(self, number: int) -> Self:
        """The plan as the `number`-th test of its release, where a kind of too few units weighs no more."""
        kind = self.kind if len(self.kind) >= least_of_kind(number) else ()
        return self.model_copy(update={"number": number, "kind": kind})


def order_units(names: Iterable[str], salt: str) -> list[str]:
    """Names of units in the order of a test: by SHA-256(salt/name)."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{salt}/{name}".encode()).digest())


@lru_cache(maxsize=4)
def _turned(salt: str, units: tuple[str, ...]) -> tuple[int, tuple[int, ...]]:
    """The number of choices, and for each unit the choices that turn it, a bit each; choice 0 turns none."""
    if len(units) > 16:
        drawn = (hashlib.shake_256(f"{salt}/flips/{name}".encode()).digest(N_CHOICES // 8) for name in units)
        return N_CHOICES, tuple(int.from_bytes(each, "little") & ~1 for each in drawn)
    n_choices = 1 << len(units)
    every = (1 << n_choices) - 1
    # Bit u of i, for i from 0: runs of 2^u zeros and as many ones.
    return n_choices, tuple(every // ((1 << (1 << u)) + 1) << (1 << u) for u in range(len(units)))


def net_of(candidate: float, base: float, *, graded: bool) -> int:
    """The net result of a pair: 1, 0 or -1; if `graded`, the difference in thirds, halves away from zero."""
    if not graded:
        return round(candidate) - round(base)
    difference = 3 * (_exact(candidate) - _exact(base))
    nearest = math.floor(abs(difference) + Fraction(1, 2))
    return nearest if difference > 0 else -nearest


def _exact(score: float) -> Fraction:
    return Fraction(score).limit_denominator(10_000)


class _Question:
    """Is it better, or is it worse: which choices are not spent, how many are, and whether it is still open."""

    def __init__(self, alive: int, *, is_open: bool) -> None:
        self.alive, self.spent, self.is_open = alive, 0, is_open
        self.least, self.is_crossed = 0, False


class SignTest:
    """The test over pairs in order; `verdict` is None while it goes on.

    For every choice of signs at once it knows the sum of the positive results: digit b of all sums is one whole number,
    with a bit for each choice. `path` has the total after each pair, and the boundary there: the least total that would
    have been better; of a live text also the most that would have been worse.
    """

    def __init__(self, plan: Plan, choices: tuple[int, Sequence[int]] | None = None) -> None:
        self.plan = plan
        self._n_choices, self._turned = choices or _turned(plan.salt, plan.units)
        self._every = (1 << self._n_choices) - 1
        self._planes: list[int] = []
        self._size = 0  # of all results so far
        self._kind = frozenset(plan.kind)
        self._first: list[tuple[float, float]] = []
        self._n_differing = 0
        self._gain = _Question(self._every, is_open=True)
        self._loss = _Question(self._every, is_open=plan.live)
        self.n_pairs, self.total, self.rest = 0, 0, 0
        self.path: list[tuple[int, ...]] = []
        self.repeats = False
        self.verdict: Literal["better", "worse", "not_better", "cant_tell"] | None = None

    @property
    def p_bound(self) -> Fraction | None:
        """The chance, at most, of this verdict if nothing were better, or worse; None for other verdicts."""
        question = {"better": self._gain, "worse": self._loss}.get(self.verdict or "")
        return Fraction(question.spent, self._n_choices) if question else None

    def take(self, candidate: float, base: float, *, bounded: bool = False) -> None:
        """Take in the scores of the next pair; in one that is `bounded`, what was lost counts against the candidate."""
        plan, n = self.plan, self.plan.n_units
        n_pass, unit = divmod(self.n_pairs, n)
        self.n_pairs += 1
        net = net_of(candidate, base, graded=plan.graded)
        weighted = net * (_WEIGHT if unit in self._kind else 1)
        self._add(weighted, self._turned[unit])
        self.total += weighted
        self.rest += 0 if unit in self._kind else net
        if n_pass == 0:
            self._first.append((candidate, base))
        elif n_pass == 1:
            self._n_differing += (candidate != self._first[unit][0]) + (base != self._first[unit][1])
            is_early = unit == 9 and n > 10 and self._n_differing <= 1
            self.repeats = plan.passes > 2 and (is_early or (unit == n - 1 and 5 * self._n_differing <= n))
        is_last = self.repeats or self.n_pairs == plan.passes * n
        t, of = (1, 1) if is_last else (self.n_pairs, plan.passes * n)
        if self._gain.is_open and not self._gain.is_crossed:
            self._spend(self._gain, plan.alpha * t / of, sign=1)
        self._loss.is_open = self._loss.is_open and not bounded
        if self._loss.is_open:
            self._spend(self._loss, Fraction(1, 20) * t / of, sign=-1)
        self.path.append((self.total, self._gain.least, *([-self._loss.least] if plan.live else [])))
        if self._gain.is_crossed and self._is_fair_elsewhere():
            self.verdict = "better"
        elif self._loss.is_crossed:
            self.verdict = "worse"
        else:
            self._close()
            if not (self._gain.is_open or self._loss.is_open):
                self.verdict = "not_better"
            elif is_last:
                self.verdict = "cant_tell" if self._gain.is_open else "not_better"

    def _is_fair_elsewhere(self) -> bool:
        """Whether, with a kind, every unit was asked and those of other kinds lost less than 10 points."""
        if not self._kind:
            return True
        n, (n_passes, n_more) = self.plan.n_units, divmod(self.n_pairs, self.plan.n_units)
        n_rest = n_passes * (n - len(self._kind)) + sum(unit not in self._kind for unit in range(n_more))
        return n_passes >= 1 and 10 * self.rest >= -self.plan.largest * n_rest

    def _close(self) -> None:
        """Close the questions that nothing points to."""
        t, n, largest = self.n_pairs, self.plan.n_units, self.plan.largest
        if 2 * t < n:
            return
        far = -largest if t < n else 0
        if 2 * t >= self.plan.passes * n:
            far = max(far, largest * t // 20)
        self._gain.is_open = self._gain.is_open and self.total > far
        self._loss.is_open = self._loss.is_open and -self.total > far

    def _add(self, net: int, turned: int) -> None:
        """Add a result to the sum of every choice in which it is positive."""
        where = turned if net < 0 else self._every ^ turned
        self._size += abs(net)
        for digit in range(abs(net).bit_length()):
            carry, at = (where if abs(net) >> digit & 1 else 0), digit
            while carry:
                while at >= len(self._planes):
                    self._planes.append(0)
                self._planes[at], carry = self._planes[at] ^ carry, self._planes[at] & carry
                at += 1

    def _spend(self, question: _Question, share: Fraction, sign: Literal[1, -1]) -> None:
        """Find the least total that `share` of all choices pays for, and take the choices that reach it out."""
        room = math.floor(self._n_choices * share) - question.spent
        beyond, least = self._beyond(question.alive, room, sign)
        question.least = least
        question.spent += beyond.bit_count()
        question.alive ^= beyond
        question.is_crossed = sign * self.total >= least

    def _beyond(self, alive: int, room: int, sign: Literal[1, -1]) -> tuple[int, int]:
        """The `room` choices at most with the largest totals (least with sign -1), no tie cut, and the least of these.

        Totals count from 1.
        """
        inverse = 0 if sign > 0 else self._every
        left, beyond, digits, rank = alive, 0, 0, room + 1
        if alive.bit_count() < rank:
            left = 0
        for plane in reversed(self._planes if left else ()):  # the sum of rank room + 1, digit by digit
            ones = left & (plane ^ inverse)
            n_ones = ones.bit_count()
            digits *= 2
            if n_ones >= rank:
                left, digits = ones, digits + 1
            else:
                rank -= n_ones
                beyond |= ones
                left ^= ones
        if left:
            total = 2 * (digits if sign > 0 else digits - ((1 << len(self._planes)) - 1) + self._size) - self._size
            if total >= 0:
                return beyond, total + 1
        return self._positive(alive, inverse), 1

    def _positive(self, alive: int, inverse: int) -> int:
        """The choices among these whose total, or with all bits in `inverse` its negative, is above 0."""
        least = self._size // 2 + 1  # of the sum of positive results
        if inverse:
            least = (1 << len(self._planes)) - 1 - self._size + least
        found, equal = 0, alive
        for digit in reversed(range(max(len(self._planes), least.bit_length()))):
            ones = equal & (self._planes[digit] ^ inverse) if digit < len(self._planes) else 0
            if least >> digit & 1:
                equal = ones
            else:
                found |= ones
                equal ^= ones
        return found | equal


def read_pilot(plan: Plan, scores: Sequence[float]) -> int:
    """After how many of the candidate's first scores the pilot ends the test; 0 where it does not, or not yet.

    It does where they come to no more than the base's earlier attempts at the same units.
    """
    more = Fraction()
    for n, (score, earlier) in enumerate(zip(scores, plan.earlier, strict=False), start=1):
        more += _exact(score) - _mean_of([_exact(each) for each in earlier])
        if (2 * n >= plan.n_pilot and 2 * more <= -3) or (n == plan.n_pilot and more <= 0):
            return n
    return 0


class Reading:
    """A test as far as its attempts go, which may arrive in any order. The same attempts always say the same.

    An attempt counts once: what comes again is passed over. Only complete pairs count, from the first one on: they are
    in `signs`, which a test in rounds has not.
    """

    def __init__(self, plan: Plan, attempts: Iterable[TestAttempt] = ()) -> None:
        self.plan = plan
        self._attempts: dict[tuple[Arm, int, int], TestAttempt] = {}
        self.signs = SignTest(plan) if not plan.in_rounds else None
        self._pairs: list[tuple[TestAttempt, TestAttempt]] = []  # candidate, base
        self._pilot: list[TestAttempt] = []
        self._is_vain = False
        self.add(attempts)

    def add(self, attempts: Iterable[TestAttempt]) -> None:
        """Take in attempts, and read what is complete."""
        for each in attempts:
            # Without an answer an attempt has failed, or has passed for a base that is counted against the candidate.
            passes = each.cause == "bounded" and each.arm == "base"
            scored = each._replace(score=float(passes)) if each.cause else each
            self._attempts.setdefault((each.arm, each.unit, each.number), scored)
        if self.signs is None:
            return
        while not self._is_vain and len(self._pilot) < self.plan.n_pilot:
            found = self._attempts.get(("candidate", len(self._pilot), 0))
            if found is None:
                return
            self._pilot.append(found)
            self._is_vain = read_pilot(self.plan, [each.score for each in self._pilot]) > 0
        while not (self._is_vain or self.signs.verdict):
            number, unit = divmod(len(self._pairs), self.plan.n_units)
            candidate, base = (self._attempts.get((arm, unit, number)) for arm in ("candidate", "base"))
            if candidate is None or base is None:
                return
            self._pairs.append((candidate, base))
            is_bounded = "bounded" in (candidate.cause, base.cause)
            self.signs.take(candidate.score, base.score, bounded=is_bounded)

    @property
    def n_repeated(self) -> int:
        """How many repetitions all attempts took for causes that nobody verified."""
        return sum(each.n_again for each in self._attempts.values())

    @property
    def counted(self) -> list[TestAttempt]:
        """The attempts that the verdict rests on; what was asked beyond them is paid alone."""
        n_pairs, n = self.standing().pairs, self.plan.n_units
        return [each for each in self._attempts.values() if each.number * n + each.unit < n_pairs] or self._pilot

    def wanted(self, slots: int, under_way: Collection[tuple[Arm, int, int]] = ()) -> list[tuple[Arm, int, int]]:
        """The attempts to ask now, as (arm, unit, number), so that `slots` are under way; [] at the test's end.

        They lie close to the first one that has no answer; in rounds they are of the present one.
        """
        if self.standing().verdict:
            return []
        free = slots - len(under_way)
        if self.signs is None:
            ahead: Sequence[tuple[Arm, int, int]] = [
                (arm, unit, self._n_rounds()) for unit in range(self.plan.n_units) for arm in _ARMS
            ]
        else:
            order = self.plan.sequence
            first = next(at for at, each in enumerate(order) if each not in self._attempts)
            ahead = order[first : first + max(16, min(32, 2 * slots), slots)]
        open_ = [each for each in ahead if each not in self._attempts and each not in under_way]
        return open_[: max(0, free)]

    def standing(self) -> Standing:
        """Where the test stands."""
        standing = self._of_rounds() if self.signs is None else self._of_pairs(self.signs)
        opened = standing.opened
        if not self.plan.needs_opening or (opened and opened.before + opened.after):
            return standing
        # No verdict before the first block is whole: what it says does not depend on the order of the answers.
        units = range(self.plan.n_units if self.plan.in_rounds else min(FIRST_BLOCK, self.plan.n_units))
        block = [self._attempts.get((arm, unit, 0)) for arm in _ARMS for unit in units]
        is_whole = None not in block
        opened_there = {each.opened for each in block if each}
        if True in opened_there or (is_whole and opened_there == {None}):
            return standing  # where all were lost, nothing is known of any
        return standing.model_copy(update={"verdict": "not_tested" if is_whole else None, "void": "", "p_bound": None})

    def _n_rounds(self) -> int:
        n = 0
        while all((arm, unit, n) in self._attempts for arm in _ARMS for unit in range(self.plan.n_units)):
            n += 1
        return n

    def _of_pairs(self, signs: SignTest) -> Standing:
        plan, by_unit = self.plan, list[list[float]]()
        scores: list[tuple[float, float, int]] = []  # candidate, base, unit
        if self._pairs:
            scores = [(new.score, old.score, new.unit) for new, old in self._pairs]
        elif self._pilot:
            scores = [(new.score, float(_mean_of(list(map(_exact, old)))), new.unit)
                      for new, old in zip(self._pilot, plan.earlier, strict=False)]  # fmt: skip
        for unit in range(min(len(scores), plan.n_units)):
            own = [(new, old) for new, old, of in scores if of == unit]
            by_unit.append([net_of(*each, graded=plan.graded) if self._pairs else each[0] - each[1] for each in own])
        means = [math.fsum(nets) / len(nets) / (plan.largest if self._pairs else 1) for nets in by_unit]
        verdict: Verdict | None = "not_better" if self._is_vain else signs.verdict
        inside, outside = ([each for each in scores if (each[2] in plan.kind) == is_in] for is_in in (True, False))
        counted = [each for pair in self._pairs for each in pair] or self._pilot
        standing = self._figures(scores, means, counted).model_copy(
            update={
                "verdict": verdict,
                "passes": plan.passes,
                "pairs": len(self._pairs),
                "pilot": len(self._pilot) if not self._pairs else 0,
                "p_bound": float(signs.p_bound) if signs.p_bound else None,
                "repeats": signs.repeats or (plan.passes == 1 and passes_for(plan.earlier) == 1),
                "gain": interval_of(means, verdict) if self._pairs else None,
                "kind": KindResult(tag=plan.tag, units=len(plan.kind), solved=_solved(inside)) if plan.kind else None,
                "elsewhere": _solved(outside) if plan.kind else None,
            }
        )
        return _voided(standing, self._pairs, self.plan)

    def _of_rounds(self) -> Standing:
        plan, units = self.plan, range(self.plan.n_units)
        rounds = [
            [(self._attempts["candidate", unit, n], self._attempts["base", unit, n]) for unit in units]
            for n in range(self._n_rounds())
        ]
        max_pairs = plan.max_pairs or (SMALL_SUITE_PAIRS if plan.margin is None else MAX_PAIRS)
        verdict, n_read = read_rounds(
            [[new.score - old.score for new, old in pairs] for pairs in rounds], plan.margin, max_pairs
        )
        if plan.n_units > max_pairs:
            verdict, n_read = "cant_tell", 0
        read = [pair for pairs in rounds[:n_read] for pair in pairs]
        scores = [(new.score, old.score, new.unit) for new, old in read]
        means = [math.fsum(new - old for new, old, of in scores if of == unit) / n_read for unit in units if n_read]
        standing = self._figures(scores, means, [each for pair in read for each in pair]).model_copy(
            update={
                "verdict": verdict,
                "alpha": RELEASE_ALPHA,
                "passes": n_read,
                "pairs": len(read),
                "p_bound": RELEASE_ALPHA if verdict in ("better_here", "no_worse", "worse_here") else None,
            }
        )
        return _voided(standing, read, self.plan)

    def _figures(
        self, scores: Sequence[tuple[float, float, int]], means: Sequence[float], counted: Sequence[TestAttempt]
    ) -> Standing:
        """The figures that every test has, without a verdict: of the attempts that count, but for `runs`."""
        n = {arm: sum(each.arm == arm for each in self._attempts.values()) for arm in _ARMS}
        could_open = [each for each in counted if each.opened is not None]
        better, worse = sum(mean > 0 for mean in means), sum(mean < 0 for mean in means)
        return Standing(
            verdict=None,
            alpha=float(self.plan.alpha),
            units=Units(
                seen=len(means), of=self.plan.n_units, better=better, same=len(means) - better - worse, worse=worse
            ),
            solved=_solved(scores),
            runs=RunCounts(candidate=n["candidate"], base=n["base"]),
            lost=Lost(
                target=sum(each.cause == "target" for each in counted),
                asked_again=sum(each.n_again for each in counted),
                bounded=sum(each.cause == "bounded" for each in counted),
            ),
            opened=Opened(
                before=sum(each.opened or 0 for each in could_open if each.arm == "base"),
                before_of=sum(each.arm == "base" for each in could_open),
                after=sum(each.opened or 0 for each in could_open if each.arm == "candidate"),
                after_of=sum(each.arm == "candidate" for each in could_open),
            )
            if could_open
            else None,
            models=sorted({name for each in counted for name in each.models}),
            few_tasks=self.plan.n_units < ENOUGH_UNITS,
            live=self.plan.live,
            margin=self.plan.margin,
        )


def stand(plan: Plan, attempts: Iterable[TestAttempt]) -> Standing:
    """Where a test stands, by its attempts in whatever order."""
    return Reading(plan, attempts).standing()


def interval_of(means: Sequence[float], verdict: Verdict | None) -> Gain:
    """Mean of the units' mean nets in [-1, 1] with a 95 % interval, two +1 and two -1 added to them.

    Of a BETTER the low end is at least 0, of a WORSE the high end at most 0.
    """
    padded = [*means, 1.0, 1.0, -1.0, -1.0]
    n, mean = len(padded), math.fsum(padded) / len(padded)
    half = _Z95 * math.sqrt(math.fsum((each - mean) ** 2 for each in padded) / (n - 1) / n)
    low, high = max(-1.0, mean - half), min(1.0, mean + half)
    return Gain(
        mean=mean,
        low=max(0.0, low) if verdict == "better" else low,
        high=min(0.0, high) if verdict == "worse" else high,
    )


def _mean_of(scores: Sequence[Fraction]) -> Fraction:
    return sum(scores, Fraction()) / len(scores)


def _solved(scores: Sequence[tuple[float, float, int]]) -> Solved | None:
    if not scores:
        return None
    after, before = (math.fsum(each[at] for each in scores) / len(scores) for at in (0, 1))
    return Solved(before=before, after=after)


def _voided(standing: Standing, together: Sequence[Sequence[TestAttempt]], plan: Plan) -> Standing:
    """The standing, or one that says why the attempts that decide may not be compared.

    Other models answered for one arm than for the other; or a day lies between attempts that belong `together`, which
    no further attempt can mend.
    """
    deciding = [each for group in together for each in group]
    names = {arm: {name for each in deciding if each.arm == arm for name in each.models} for arm in _ARMS}
    times = [[each.at for each in group if each.at] for group in together]
    void: Literal["", "models", "hours"] = ""
    if any(each and max(each) - min(each) > MAX_HOURS * 3600 for each in times):
        void = "hours"
    elif standing.verdict and all(names.values()) and names["base"] != names["candidate"] and not plan.one_text:
        void = "models"
    return standing.model_copy(update={"verdict": "cant_tell", "void": void, "p_bound": None}) if void else standing
