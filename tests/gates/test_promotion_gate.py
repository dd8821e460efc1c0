"""The promotion test: against a reference that works in another way, and what no attempts may do to it."""

from __future__ import annotations

import itertools
import math
import os
import random
import statistics
from collections.abc import Sequence
from fractions import Fraction

import pytest
from pydantic import ValidationError

from skillopt_mcp.core.evidence import Arm
from skillopt_mcp.core.evidence import TestAttempt as Attempt
from skillopt_mcp.gates.promotion import Plan, Walk, alpha_of, attempts_per_arm, gain_of, net_result, next_wave, stand
from skillopt_mcp.gates.rounds import MAX_PAIRS, SMALL_SUITE_PAIRS, read_rounds

N_PATHS = 10_000 if os.environ.get("THOROUGH") else 4_000
ARMS: tuple[Arm, ...] = ("base", "candidate")
TWELFTHS = (0, 2, 4, 6, 9, 12)
BETS = ((0.2, 0.2), (0.45, 0.45), (0.85, 0.35))


class Reference:
    """The specification by hand: all paths of signs in a list, scores in twelfths, products over all pairs."""

    def __init__(self, plan: Plan, attempts: Sequence[Attempt]) -> None:
        self.plan = plan
        self.scores: dict[tuple[Arm, int, int], int] = {}
        for each in attempts:
            lost = 12 if (each.cause, each.arm) == ("bounded", "base") else 0
            self.scores[each.arm, each.unit, each.number] = lost if each.cause else round(12 * each.score)

    def arm(self, arm: Arm, unit: int) -> int | None:
        """Return the sum of the scores of an arm at a unit once it has them all."""
        scores = [self.scores.get((arm, unit, number)) for number in range(self.plan.attempts)]
        return None if None in scores else sum(scores)

    def net(self, candidate: int, base: int) -> int:
        """Return the nearest of all results, the one away from zero where two are as near."""
        if not self.plan.graded:
            return (candidate - base) // 12
        one = 12 * self.plan.attempts
        return min(range(-3, 4), key=lambda third: (abs(3 * (candidate - base) - third * one), -abs(third)))

    def walk(self, alpha: float, known: Sequence[Sequence[int]] | None) -> tuple[str | None, list[int], float]:
        """Return the verdict, the net results that it rests on, and the chance of all paths that accept so far."""
        plan, total = self.plan, 0
        nets: list[int] = []
        largest = 3 if plan.graded else plan.attempts
        alive, out, n_all = [0], 0, 1
        for t in range(1, plan.n_units + 1):
            candidate = self.arm("candidate", t - 1)
            base = self.arm("base", t - 1) if known is None else sum(known[t - 1][: plan.attempts])
            if candidate is None or base is None:
                return None, nets, out / n_all
            net = self.net(candidate, base)
            nets.append(net)
            total += net
            if net:
                alive = sorted([s - net for s in alive] + [s + net for s in alive], reverse=True)
                out, n_all = 2 * out, 2 * n_all
            room = Fraction(alpha) * Fraction(t, plan.n_units) + Fraction(1, 10**12)
            n_accepted = min(math.floor(room * n_all) - out, sum(s >= 1 for s in alive))
            while n_accepted > 0 and alive[n_accepted - 1] in alive[n_accepted : n_accepted + 1]:
                n_accepted -= 1
            accepts = n_accepted > 0 and total >= alive[n_accepted - 1]
            alive, out = alive[n_accepted:], out + n_accepted
            if accepts:
                return "better", nets, out / n_all
            late, half = Fraction(t, plan.n_units) >= Fraction(1, 3), Fraction(t, plan.n_units) >= Fraction(1, 2)
            if total <= -2 * largest or (late and total <= -largest) or (half and total <= 0):
                return "not_better", nets, out / n_all
        return "cant_tell", nets, out / n_all

    def rounds(self) -> tuple[str | None, int]:
        """Return the verdict on whole rounds and how many it rests on."""
        plan, differences, n = self.plan, [], 0
        most = plan.max_pairs or (1200 if plan.margin else 60)
        while (n + 1) * plan.n_units <= most:
            keys = [(unit, n) for unit in range(plan.n_units)]
            if not all((arm, *key) in self.scores for key in keys for arm in ARMS):
                return None, n
            n += 1
            differences += [(self.scores["candidate", *key] - self.scores["base", *key]) / 12 for key in keys]
            margin = plan.margin or 0.0
            for claim, values in (
                ("no_worse" if plan.margin else "better_here", [(d + margin) / (1 + margin) for d in differences]),
                ("worse", [-d for d in differences]),
            ):
                if sum(stake * math.prod(1 + bet * value for value in values) for bet, stake in BETS) >= 20:
                    return claim, n
        return "cant_tell", n


def drawn(chance: random.Random) -> tuple[Plan, list[Attempt], list[list[int]] | None]:
    """Return a random plan and some of the attempts of its test, in any order."""
    kind = chance.choice(("units", "units", "units", "rounds"))
    n_units = chance.randint(8, 9) if kind == "units" else chance.randint(1, 7)
    graded, known, k = chance.random() < 0.3, None, chance.choice((1, 2, 3))
    scores = TWELFTHS if graded else (0, 12)
    gain = chance.choice((-0.3, 0.0, 0.3, 0.6, 0.9))
    rates = [chance.random() * (1 - abs(gain)) + max(0.0, -gain) for _ in range(n_units)]

    def draw(rate: float) -> int:
        fails = chance.random() >= rate
        return chance.choice(scores[: len(scores) // 2] if fails else scores[len(scores) // 2 :])

    if kind == "units" and chance.random() < 0.5:
        known = [[draw(rate) for _ in range(chance.choice((k, k + 1)))] for rate in rates]
    plan = Plan(
        n_units=n_units,
        attempts=k,
        alpha=chance.choice((0.2, 0.05, alpha_of(chance.randint(1, 4)))),
        graded=graded,
        known=None if known is None else tuple(tuple(score / 12 for score in each) for each in known),
        margin=chance.choice((None, 0.05, 0.1, 0.3)) if kind == "rounds" else None,
        max_pairs=chance.choice((0, 5, 20, 70)) if kind == "rounds" else 0,
    )
    n_numbers = chance.randint(1, 40 // n_units) if kind == "rounds" else k
    attempts, often_lost, often_late = [], chance.choice((0, 0.02, 0.2)), chance.choice((0, 0, 0.02))
    for unit, arm, number in itertools.product(range(n_units), ARMS, range(n_numbers)):
        cause = chance.choice(("target", "bounded")) if chance.random() < often_lost else ""
        score = draw(rates[unit] + (gain if arm == "candidate" else 0)) / 12
        if chance.random() >= often_late:
            attempts.append(Attempt(arm, unit, number, score, cause))
    chance.shuffle(attempts)
    return plan, attempts, known


@pytest.mark.parametrize("part", range(4))
def test_a_verdict_is_that_of_a_reference_that_counts_all_paths(part: int) -> None:
    ends = set()
    for seed in range(part * N_PATHS // 4, (part + 1) * N_PATHS // 4):
        plan, attempts, known = drawn(random.Random(seed))
        found, reference = stand(plan, attempts), Reference(plan, attempts)
        if plan.in_rounds:
            verdict, n_rounds = reference.rounds()
            assert (found.verdict, found.units.seen) == (verdict, plan.n_units if n_rounds else 0), seed
            assert found.attempts_per_arm == n_rounds
            assert found.p_bound == (0.05 if verdict in ("better_here", "no_worse", "worse") else None)
            ends.add(verdict)
            continue
        screened = False
        if known is not None:
            verdict, nets, chance = reference.walk(0.2, known)
            screened = verdict != "better"
        if not screened:
            verdict, nets, chance = reference.walk(plan.alpha, None)
        assert (found.verdict, found.screened) == (verdict, screened), seed
        units = found.units
        counted = [sum(net > 0 for net in nets), nets.count(0), sum(net < 0 for net in nets)]
        assert (units.seen, [units.better, units.same, units.worse]) == (len(nets), counted)
        assert found.p_bound == (pytest.approx(chance, abs=1e-12) if verdict == "better" else None)
        if nets and not screened:
            values = [net / plan.largest for net in nets] + [1, -1]
            half = 1.645 * statistics.stdev(values) / math.sqrt(len(values))
            assert found.gain is not None
            assert found.gain.mean == pytest.approx(statistics.fmean(values))
            assert found.gain.high == pytest.approx(min(1, statistics.fmean(values) + half))
        ends.add(verdict)
    assert ends == {"better", "not_better", "cant_tell", "no_worse", "worse", "better_here", None}


def run(nets: Sequence[int], largest: int, alpha: float) -> Walk:
    """Return the test after these net results, or those up to its verdict."""
    walk = Walk(len(nets), largest, alpha)
    for net in nets:
        if walk.verdict is None:
            walk.take(net)
    return walk


def test_under_fair_signs_better_has_at_most_its_error_rate_whatever_the_sizes() -> None:
    chance, highest = random.Random(1), 0.0
    for _ in range(60):
        largest, alpha = chance.choice((1, 3, 5)), chance.choice((0.2, 0.05, 0.0167))
        sizes = [chance.choice((0, *range(1, largest + 1), largest)) for _ in range(8)]
        moving = [at for at, size in enumerate(sizes) if size]
        n_better = 0
        for signs in itertools.product((1, -1), repeat=len(moving)):
            nets = list(sizes)
            for at, sign in zip(moving, signs, strict=True):
                nets[at] *= sign
            n_better += run(nets, largest, alpha).verdict == "better"
        assert Fraction(n_better, 2 ** len(moving)) <= Fraction(alpha)
        highest = max(highest, n_better / 2 ** len(moving) / alpha)
    assert highest > 0.5


@pytest.mark.parametrize(("wins", "number"), [(6, 1), (7, 2), (8, 3)])
def test_the_fewest_wins_without_a_loss_are_those_whose_chance_is_the_error_rate(wins: int, number: int) -> None:
    alpha = alpha_of(number)
    assert wins == math.ceil(math.log2(1 / alpha))
    assert run([1] * (wins - 1) + [0] * (21 - wins), 1, alpha).verdict == "cant_tell"
    assert run([1] * wins + [0] * (20 - wins), 1, alpha).verdict == "better"


def test_a_release_spends_five_percent_and_no_more() -> None:
    assert math.isclose(sum(alpha_of(number) for number in range(1, 400)), 0.05)


def test_a_test_that_a_screen_lets_through_is_the_one_without_a_screen() -> None:
    n_better = 0
    for seed in range(1_000):
        plan, attempts, known = drawn(random.Random(seed))
        found = stand(plan, attempts)
        if known is not None and found.verdict == "better":
            n_better += 1
            assert stand(plan.model_copy(update={"known": None}), attempts) == found
    assert n_better > 30


def test_an_attempt_that_counts_against_the_candidate_never_helps_it() -> None:
    # Spending is in steps: what a smaller result leaves unspent may accept later, in fewer than 1 of 5,000 tests.
    helped = hurt = 0
    for seed in range(1_000):
        plan, attempts, _ = drawn(random.Random(seed))
        chance, before = random.Random(-seed - 1), stand(plan, attempts)
        dropped = [each._replace(cause="bounded") if chance.random() < 0.1 else each for each in attempts]
        after = stand(plan, dropped)
        assert not (plan.in_rounds and after.verdict in ("no_worse", "better_here") and before.verdict != after.verdict)
        helped += after.verdict == "better" != before.verdict
        hurt += before.verdict == "better" != after.verdict
    assert helped <= 1
    assert hurt > 30


@pytest.mark.parametrize("known", [True, False])
def test_a_test_ends_and_asks_for_no_unit_beyond_the_wave_of_its_verdict(known: bool) -> None:
    for seed in range(60):
        chance = random.Random(seed)
        n, k, gain = chance.choice((8, 13, 16, 30)), chance.choice((1, 3)), chance.choice((0.0, 0.3, 0.6))
        rates = [chance.random() * (1 - gain) for _ in range(n)]
        earlier = tuple(tuple(float(chance.random() < rate) for _ in range(k)) for rate in rates) if known else None
        plan = Plan(n_units=n, attempts=k, alpha=alpha_of(1), known=earlier)
        done: dict[tuple[Arm, int, int], Attempt] = {}
        while wave := next_wave(plan, list(done.values())):
            assert len({unit for _, unit, _ in wave}) <= 8
            missing = [key for key in wave if key not in done]
            assert missing
            for arm, unit, number in chance.sample(missing, chance.randint(1, len(missing))):
                score = float(chance.random() < rates[unit] + (gain if arm == "candidate" else 0))
                done[arm, unit, number] = Attempt(arm, unit, number, score)
        end = stand(plan, list(done.values()))
        assert end.verdict is not None
        last = max(unit for arm, unit, _ in done if arm == ("candidate" if end.screened else "base"))
        assert last < math.ceil(end.units.seen / 8) * 8
        assert not (end.screened and end.runs.base)


def test_rounds_end_at_their_cap_and_never_above_it() -> None:
    for n_units, max_pairs, cap in ((3, 0, SMALL_SUITE_PAIRS), (3, 10, 10), (4, 3, 0), (30, 20, 0)):
        plan = Plan(n_units=n_units, attempts=1, alpha=0.05, margin=0.1 if n_units > 7 else None, max_pairs=max_pairs)
        done: list[Attempt] = []
        while wave := next_wave(plan, done):
            done += [Attempt(*key, score=float(key[2] % 2)) for key in wave]
        assert stand(plan, done).verdict == "cant_tell"
        assert len(done) // 2 == cap // n_units * n_units
    assert read_rounds([[0.0] * 30] * 50, 0.001) == ("cant_tell", MAX_PAIRS // 30)


def wins(n_units: int, k: int = 1, **more: object) -> list[Attempt]:
    """Return the attempts of a test in which the candidate passes all and the base none."""
    keys = itertools.product(ARMS, range(n_units), range(k))
    return [Attempt(*key, score=float(key[0] == "candidate"))._replace(**more) for key in keys]


def test_other_models_or_a_day_between_the_arms_make_a_test_void() -> None:
    plan, attempts = Plan(n_units=8, attempts=1, alpha=alpha_of(1)), wins(8, models=("m-1",), at=1e6)
    assert stand(plan, attempts).verdict == "better"
    other = [each._replace(models=("m-2",)) if each.arm == "base" else each for each in attempts]
    assert (stand(plan, other).verdict, stand(plan, other).void) == ("cant_tell", "models")
    late = [each._replace(at=1e6 + 90_000) if each.arm == "base" else each for each in attempts]
    assert (stand(plan, late).verdict, stand(plan, late).void, stand(plan, late).p_bound) == (
        "cant_tell",
        "hours",
        None,
    )
    assert next_wave(plan, late[:1] + late[8:9]) == []
    timeless = [each._replace(at=0.0) if each.arm == "base" else each for each in attempts]
    assert stand(plan, timeless).verdict == "better"


def test_rounds_may_take_days_but_not_a_pair_of_them() -> None:
    plan = Plan(n_units=3, attempts=1, alpha=0.05, max_pairs=60)
    attempts = [each._replace(at=1e6 + 50_000 * each.number) for each in wins(3, 10)]
    assert stand(plan, attempts).verdict == "better_here"
    late = [each._replace(at=each.at + 90_000) if each.arm == "base" else each for each in attempts]
    assert stand(plan, late).void == "hours"


def test_a_plan_needs_a_known_base_with_every_attempt() -> None:
    for known in ((), ((1.0,),) * 8, ((1.0, 1.0),) * 7):
        with pytest.raises(ValidationError, match="2 attempts or more at each of the 8 units"):
            Plan(n_units=8, attempts=2, alpha=0.01, known=known)


def test_an_attempt_beyond_those_of_each_arm_does_not_count() -> None:
    plan, attempts = Plan(n_units=8, attempts=1, alpha=alpha_of(1)), wins(8)
    extra = [each._replace(number=1) for each in attempts if each.arm == "candidate"]
    one, two = stand(plan, attempts), stand(plan, [*extra, *attempts])
    assert (one.gain, one.solved, one.p_bound, one.units) == (two.gain, two.solved, two.p_bound, two.units)


@pytest.mark.parametrize(
    ("earlier", "k"),
    [
        ([], 5),
        ([[1, 1]] * 19, 1),
        ([[1, 1]] * 18 + [[1]], 5),
        ([[1, 1]] * 19 + [[1, 0]], 3),
        ([[0, 0, 0]] * 30, 1),
    ],
)
def test_an_arm_makes_one_attempt_only_where_earlier_ones_agree(earlier: list[list[float]], k: int) -> None:
    assert attempts_per_arm(earlier) == k


def test_graded_results_are_the_nearest_thirds_and_symmetric() -> None:
    for a, b in itertools.product(TWELFTHS, repeat=2):
        ours, theirs = [a / 12] * 3, [b / 12] * 3
        assert net_result(ours, theirs, graded=True) == -net_result(theirs, ours, graded=True)
    assert net_result([0.5, 0.0, 0.0], [0.0, 0.0, 0.0], graded=True) == 1
    assert net_result([0.49, 0.0, 0.0], [0.0, 0.0, 0.0], graded=True) == 0


def test_a_gain_stays_within_what_is_possible() -> None:
    assert gain_of([1.0] * 4).high == 1.0
    assert gain_of([]).low == -1.0
