"""The promotion test: is one text better than another on tasks like the held-out ones, or was it luck?

Units are families of held-out tasks in a salted order. `Walk` is the test itself: the net passes of each unit are
signs of a fair coin while nothing is better, and their running sum is compared with an exact spending boundary (Lan
and DeMets 1983; Stat. Med. 19:3051). `stand` reads a whole test from its plan and its attempts, the screen against a
known base and the claims of small suites (`gates.rounds`) among them: the verdict that is stored, shown and verified.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from skillopt_mcp.core.evidence import Arm, Gain, Lost, Opened, RunCounts, Solved, Standing, TestAttempt, Units
from skillopt_mcp.gates.rounds import MAX_PAIRS, SMALL_SUITE_PAIRS, read_rounds

RELEASE_ALPHA = 0.05
SCREEN_ALPHA = 0.2
"""The screen proves nothing, so that its error rate is outside the budget of a release."""
WAVE = 8
"""Units that are asked at once; what comes after the deciding unit is paid, not counted."""
MIN_UNITS, ENOUGH_UNITS = 8, 20
"""Below the first a suite can show what is so on its own tasks alone; below the second, large gains only."""
MAX_HOURS = 24.0
MAX_AGAIN = 4
"""Attempts that are lost for a cause that nobody verified are repeated so often in a test, in both arms together."""
_SLACK = 1e-12
_GRADES = 3
_Z90 = 1.645


def alpha_of(number: int) -> float:
    """Return the error rate of the `number`-th test of a release (1-based): a third of what is left of 5 %."""
    return RELEASE_ALPHA / 3 * (2 / 3) ** (number - 1)


def attempts_per_arm(earlier: Sequence[Sequence[float]]) -> int:
    """Return how many attempts each arm makes at a unit, given the base's `earlier` scores by unit.

    One is enough where the target answers alike each time: two earlier attempts or more at every unit, which agree.
    """
    if earlier and all(len(scores) >= 2 and len(set(scores)) == 1 for scores in earlier):
        return 1
    return 5 if len(earlier) < ENOUGH_UNITS else 3


class Plan(BaseModel):
    """What is fixed before a test asks anything, but for `alpha`, which its first answer fixes.

    `known` are the base's earlier attempts at each unit, `attempts` or more of them: they only screen. With a `margin`
    or fewer than 8 units the test goes in rounds of every unit once per arm, up to `max_pairs`: 0 is 1,200, without a
    margin 60. A `graded` test compares scores from 0 to 1, any other one passes. One that `needs_opening` compares
    nothing where the skill was opened in no attempt of its first 8 units, or its first round.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    n_units: int = Field(ge=1)
    attempts: int = Field(ge=1)
    alpha: float = Field(gt=0, lt=1)
    graded: bool = False
    known: tuple[tuple[float, ...], ...] | None = None
    margin: float | None = Field(default=None, gt=0, lt=1)
    max_pairs: int = Field(default=0, ge=0, le=MAX_PAIRS)
    needs_opening: bool = False

    @model_validator(mode="after")
    def _check_known(self) -> Self:
        if self.known is not None and [len(scores) >= self.attempts for scores in self.known] != [True] * self.n_units:
            raise ValueError(f"a known base has {self.attempts} attempts or more at each of the {self.n_units} units")
        return self

    @property
    def in_rounds(self) -> bool:
        """Return whether the test makes the claims of section 5: on these tasks, in whole rounds."""
        return self.margin is not None or self.n_units < MIN_UNITS

    @property
    def most_runs(self) -> int:
        """Return how many attempts the test makes at most."""
        if self.in_rounds:
            return 2 * max(self.max_pairs, self.n_units)
        return 2 * self.attempts * self.n_units

    @property
    def largest(self) -> int:
        """Return the largest net result of a unit."""
        return _GRADES if self.graded else self.attempts


class Walk:
    """The sequential test over the net results of units, in order; `verdict` is None while it goes on.

    `least` is the boundary: the total that would have accepted at each unit.
    """

    def __init__(self, n_units: int, largest: int, alpha: float) -> None:
        self.n_units, self.largest, self.alpha = n_units, largest, alpha
        self.nets: list[int] = []
        self.least: list[int] = []
        self.total, self.spent = 0, 0.0
        self.verdict: Literal["better", "not_better", "cant_tell"] | None = None
        self._lowest, self._paths = 0, [1.0]  # P0(total = lowest + i, not accepted yet), given the sizes of the results

    @property
    def n_seen(self) -> int:
        """Return how many units it has taken in."""
        return len(self.nets)

    def take(self, net: int) -> None:
        """Take in the net result of the next unit, from -largest to largest."""
        self.nets.append(net)
        self.total += net
        if net:
            none = [0.0] * (2 * abs(net))
            self._lowest -= abs(net)
            self._paths = [(up + down) / 2 for up, down in zip(none + self._paths, self._paths + none, strict=True)]
        self.least.append(self._spend(self.alpha * self.n_seen / self.n_units - self.spent + _SLACK))
        if self.total >= self.least[-1]:
            self.verdict = "better"
        elif self._is_hopeless():
            self.verdict = "not_better"
        elif self.n_seen == self.n_units:
            self.verdict = "cant_tell"

    def _spend(self, most: float) -> int:
        """Return the least total that accepts, and take the paths that reach it out."""
        tail = 0.0
        while self._lowest + len(self._paths) > 1 and tail + self._paths[-1] <= most:
            tail += self._paths.pop()
        self.spent += tail
        return self._lowest + len(self._paths)

    def _is_hopeless(self) -> bool:
        n, largest = self.n_seen, self.largest
        return (
            self.total <= -2 * largest
            or (3 * n >= self.n_units and self.total <= -largest)
            or (2 * n >= self.n_units and self.total <= 0)
        )


def net_result(candidate: Sequence[float], base: Sequence[float], *, graded: bool) -> int:
    """Return the net result of a unit: passes more than the base's, or the mean difference in thirds if `graded`.

    Exact ties between two thirds go away from zero, so that a symmetric difference stays symmetric.
    """
    if not graded:
        return round(sum(candidate)) - round(sum(base))
    scores = [sum((Fraction(each).limit_denominator(10_000) for each in arm), Fraction()) for arm in (candidate, base)]
    difference = (scores[0] / len(candidate) - scores[1] / len(base)) * _GRADES
    nearest = math.floor(abs(difference) + Fraction(1, 2))
    return nearest if difference > 0 else -nearest


Table = Mapping[tuple[Arm, int], Sequence[TestAttempt]]
"""The attempts of an arm at a unit, in order."""


def stand(plan: Plan, attempts: Sequence[TestAttempt]) -> Standing:
    """Return where a test stands, by its attempts in whatever order. The same attempts always say the same."""
    table = _table(plan, attempts)
    standing = (
        _of_rounds(plan, attempts, table)
        if plan.in_rounds
        else _of_walk(plan, attempts, table, *_deciding(plan, table))
    )
    opened = standing.opened
    if not plan.needs_opening or (opened and opened.before + opened.after):
        return standing
    # No verdict before the first block is whole: what it says does not depend on the order of the answers.
    arms = _ARMS if plan.known is None else _ARMS[1:]
    n_units, n_each = (plan.n_units, 1) if plan.in_rounds else (min(WAVE, plan.n_units), plan.attempts)
    is_whole = all(len(table.get((arm, unit), ())) >= n_each for arm in arms for unit in range(n_units))
    if is_whole and not opened:
        return standing  # all were lost: nothing is known of any
    return standing.model_copy(update={"verdict": "not_tested" if is_whole else None, "void": "", "p_bound": None})


def walk_of(plan: Plan, attempts: Sequence[TestAttempt]) -> Walk | None:
    """Return the units of a test against their boundary, as `stand` read them; None for a test in rounds."""
    return None if plan.in_rounds else _deciding(plan, _table(plan, attempts))[0]


def next_wave(plan: Plan, attempts: Sequence[TestAttempt]) -> list[tuple[Arm, int, int]]:
    """Return the attempts that a test needs next, as (arm, unit, number), those that exist among them; [] at its end.

    They belong to at most 8 units, or to one round of all units.
    """
    if stand(plan, attempts).verdict:
        return []
    table = _table(plan, attempts)
    if plan.in_rounds:
        n_rounds = min(len(table.get((arm, unit), ())) for arm in _ARMS for unit in range(plan.n_units))
        return [(arm, unit, n_rounds) for unit in range(plan.n_units) for arm in _ARMS]
    arms: tuple[Arm, ...] = _ARMS
    if plan.known is not None and _walked(plan, table, SCREEN_ALPHA, plan.known).verdict is None:
        arms = ("candidate",)
    n_done = _n_complete(plan, table, arms)
    units = range(n_done, min(n_done - n_done % WAVE + WAVE, plan.n_units))
    return [(arm, unit, number) for unit in units for arm in arms for number in range(plan.attempts)]


def gain_of(values: Sequence[float]) -> Gain:
    """Return the mean of values in [-1, 1] with its 90 % interval, one +1 and one -1 added to them."""
    padded = [*values, 1.0, -1.0]
    n, mean = len(padded), math.fsum(padded) / len(padded)
    sd = math.sqrt(math.fsum((each - mean) ** 2 for each in padded) / (n - 1))
    half = _Z90 * sd / math.sqrt(n)
    return Gain(mean=mean, low=max(-1.0, mean - half), high=min(1.0, mean + half))


_ARMS: tuple[Arm, ...] = ("base", "candidate")


def _table(plan: Plan, attempts: Sequence[TestAttempt]) -> Table:
    """Return the attempts that count: none before an earlier one is there, and as many in both arms.

    Those without an answer have failed, or have passed for a base that is counted against the candidate.
    """
    table: dict[tuple[Arm, int], list[TestAttempt]] = {}
    for each in sorted(attempts, key=lambda each: each.number):
        row = table.setdefault((each.arm, each.unit), [])
        if each.number == len(row) and (plan.in_rounds or each.number < plan.attempts):
            passes = each.cause == "bounded" and each.arm == "base"
            row.append(each._replace(score=float(passes)) if each.cause else each)
    return table


def _scores(table: Table, arm: Arm, unit: int) -> list[float]:
    return [each.score for each in table.get((arm, unit), ())]


def _n_complete(plan: Plan, table: Table, arms: Sequence[Arm]) -> int:
    """Return how many units from the first on have all their attempts in these arms."""
    for unit in range(plan.n_units):
        if any(len(table.get((arm, unit), ())) < plan.attempts for arm in arms):
            return unit
    return plan.n_units


def _deciding(plan: Plan, table: Table) -> tuple[Walk, Sequence[Sequence[float]] | None]:
    """Return the walk that a test rests on, with the known base that it is against: the screen, until that accepts."""
    if plan.known is not None:
        screen = _walked(plan, table, SCREEN_ALPHA, plan.known)
        if screen.verdict != "better":
            return screen, plan.known
    return _walked(plan, table, plan.alpha, None), None


def _walked(plan: Plan, table: Table, alpha: float, known: Sequence[Sequence[float]] | None) -> Walk:
    """Return the test over the units that are complete, against the `known` base or, without one, the fresh one."""
    walk = Walk(plan.n_units, plan.largest, alpha)
    for unit in range(_n_complete(plan, table, _ARMS if known is None else ("candidate",))):
        walk.take(net_result(*_both(plan, table, unit, known), graded=plan.graded))
        if walk.verdict:
            break
    return walk


def _both(
    plan: Plan, table: Table, unit: int, known: Sequence[Sequence[float]] | None
) -> tuple[Sequence[float], Sequence[float]]:
    """Return the scores of the candidate and of the base at a unit."""
    base = _scores(table, "base", unit) if known is None else known[unit][: plan.attempts]
    return _scores(table, "candidate", unit), base


def _of_walk(
    plan: Plan, attempts: Sequence[TestAttempt], table: Table, walk: Walk, known: Sequence[Sequence[float]] | None
) -> Standing:
    """Return what a walk says, against the `known` base or the fresh one."""
    arms = [_both(plan, table, unit, known) for unit in range(walk.n_seen)]
    standing = _standing(plan, attempts, arms, walk.nets).model_copy(
        update={
            "verdict": walk.verdict,
            "screened": known is not None,
            "p_bound": walk.spent if walk.verdict == "better" else None,
            "gain": gain_of([net / plan.largest for net in walk.nets]) if walk.nets and known is None else None,
        }
    )
    if known is not None:
        return standing
    return _voided(standing, [[*table["base", unit], *table["candidate", unit]] for unit in range(walk.n_seen)])


def _of_rounds(plan: Plan, attempts: Sequence[TestAttempt], table: Table) -> Standing:
    units = range(plan.n_units)
    n_rounds = min(len(table.get((arm, unit), ())) for arm in _ARMS for unit in units)
    rounds = [[(table["candidate", unit][n], table["base", unit][n]) for unit in units] for n in range(n_rounds)]
    max_pairs = plan.max_pairs or (SMALL_SUITE_PAIRS if plan.margin is None else MAX_PAIRS)
    verdict, n_read = read_rounds(
        [[candidate.score - base.score for candidate, base in pairs] for pairs in rounds], plan.margin, max_pairs
    )
    if plan.n_units > max_pairs:
        verdict, n_read = "cant_tell", 0
    read = rounds[:n_read]
    arms = [([pairs[u][0].score for pairs in read], [pairs[u][1].score for pairs in read]) for u in units if read]
    nets = [math.fsum(after) - math.fsum(before) for after, before in arms]
    standing = _standing(plan, attempts, arms, nets).model_copy(
        update={
            "verdict": verdict,
            "alpha": RELEASE_ALPHA,
            "attempts_per_arm": n_read,
            "p_bound": RELEASE_ALPHA if verdict in ("better_here", "no_worse", "worse") else None,
        }
    )
    return _voided(standing, [pair for pairs in read for pair in pairs])


def _units(nets: Sequence[float], n_units: int) -> Units:
    better, worse = sum(net > 0 for net in nets), sum(net < 0 for net in nets)
    return Units(seen=len(nets), of=n_units, better=better, same=len(nets) - better - worse, worse=worse)


def _standing(
    plan: Plan,
    attempts: Sequence[TestAttempt],
    arms: Sequence[tuple[Sequence[float], Sequence[float]]],
    nets: Sequence[float],
) -> Standing:
    """Return the figures that every test has, without a verdict."""
    after, before = ([score for both in arms for score in both[arm]] for arm in (0, 1))
    n = {arm: sum(each.arm == arm for each in attempts) for arm in _ARMS}
    told = [each for each in attempts if each.opened is not None]
    return Standing(
        verdict=None,
        alpha=plan.alpha,
        units=_units(nets, plan.n_units),
        attempts_per_arm=plan.attempts,
        solved=Solved(before=_mean(before), after=_mean(after)) if after else None,
        runs=RunCounts(candidate=n["candidate"], base=n["base"]),
        lost=Lost(
            target=sum(each.cause == "target" for each in attempts),
            asked_again=sum(each.n_again for each in attempts),
            bounded=sum(each.cause == "bounded" for each in attempts),
        ),
        opened=Opened(
            before=sum(each.opened or 0 for each in told if each.arm == "base"),
            before_of=sum(each.arm == "base" for each in told),
            after=sum(each.opened or 0 for each in told if each.arm == "candidate"),
            after_of=sum(each.arm == "candidate" for each in told),
        )
        if told
        else None,
        models=sorted({name for each in attempts for name in each.models}),
        few_tasks=plan.n_units < ENOUGH_UNITS,
        margin=plan.margin,
    )


def _mean(scores: Sequence[float]) -> float:
    return math.fsum(scores) / len(scores)


def _voided(standing: Standing, together: Sequence[Sequence[TestAttempt]]) -> Standing:
    """Return a standing that says so where the attempts that decide may not be compared.

    Other models answered for one arm than for the other; or a day lies between attempts that belong `together`, which
    no further attempt can mend.
    """
    deciding = [each for group in together for each in group]
    names = {arm: {name for each in deciding if each.arm == arm for name in each.models} for arm in _ARMS}
    times = [[each.at for each in group if each.at] for group in together]
    void: Literal["", "models", "hours"] = ""
    if any(each and max(each) - min(each) > MAX_HOURS * 3600 for each in times):
        void = "hours"
    elif standing.verdict and all(names.values()) and names["base"] != names["candidate"]:
        void = "models"
    return standing.model_copy(update={"verdict": "cant_tell", "void": void, "p_bound": None}) if void else standing
