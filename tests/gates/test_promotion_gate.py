"""The promotion test: against a reference that counts every choice of signs, and what no attempts may do to it."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
from pydantic import ValidationError

from skillopt_mcp.core.evidence import Arm
from skillopt_mcp.core.evidence import TestAttempt as Attempt
from skillopt_mcp.gates.promotion import (
    Plan,
    Reading,
    SignTest,
    alpha_of,
    interval_of,
    least_of_kind,
    net_of,
    order_units,
    passes_for,
    stand,
)  # fmt: skip
from skillopt_mcp.gates.rounds import MAX_PAIRS, SMALL_SUITE_PAIRS, read_rounds

N_TESTS = 510
ARMS: tuple[Arm, ...] = ("base", "candidate")
TWELFTHS = (0, 2, 4, 6, 9, 12)
BETS = ((0.2, 0.2), (0.45, 0.45), (0.85, 0.35))
Place = tuple[Arm, int, int]


class Reference:
    """The specification by hand: the total of every choice of signs in a list, scores in twelfths."""

    def __init__(self, plan: Plan, attempts: Sequence[Attempt]) -> None:
        self.plan, self.n = plan, plan.n_units
        self.bounded = {(each.arm, each.unit, each.number) for each in attempts if each.cause == "bounded"}
        self.scores: dict[Place, int] = {}
        for each in attempts:
            lost = 12 if (each.cause, each.arm) == ("bounded", "base") else 0
            self.scores[each.arm, each.unit, each.number] = lost if each.cause else round(12 * each.score)

    def net(self, candidate: int, base: int) -> int:
        if not self.plan.graded:
            return (candidate - base) // 12
        return min(range(-3, 4), key=lambda third: (abs(3 * (candidate - base) - third * 12), -abs(third)))

    def turned(self, unit: int) -> list[bool]:
        """Return for each choice of signs whether it turns a unit."""
        if self.n <= 16:
            return [bool(choice >> unit & 1) for choice in range(2**self.n)]
        drawn = hashlib.shake_256(f"{self.plan.salt}/flips/{self.plan.units[unit]}".encode()).digest(8192)
        return [choice > 0 and bool(drawn[choice // 8] >> choice % 8 & 1) for choice in range(65_536)]

    def pilot(self) -> str | None:
        """Return "not_better" where the pilot ends the test, "waits" where it is not whole, None otherwise."""
        n, earlier = self.n, self.plan.earlier
        m = max(min(n, 30), math.ceil(n / 2))
        if self.plan.live or len(earlier) < m or any(len(each) < 2 for each in earlier[:m]):
            return None
        more = Fraction()
        for at in range(m):
            if ("candidate", at, 0) not in self.scores:
                return "waits"
            mean = Fraction(sum(round(12 * each) for each in earlier[at]), 12 * len(earlier[at]))
            more += Fraction(self.scores["candidate", at, 0], 12) - mean
            if (at + 1 >= m / 2 and more <= Fraction(-3, 2)) or (at + 1 == m and more <= 0):
                return "not_better"
        return None

    def verdict(self) -> tuple[str | None, int, Fraction | None]:
        """Return the verdict, after how many pairs, and the share of choices that were spent for it."""
        if ended := self.pilot():
            return (None if ended == "waits" else ended), 0, None
        plan, n, k = self.plan, self.n, self.plan.passes
        turned = [self.turned(unit) for unit in range(n)]
        n_choices = len(turned[0])
        largest, totals = 3 if plan.graded else 1, [0] * n_choices
        alive = {"gain": set(range(n_choices)), "loss": set(range(n_choices))}
        spent, is_open, crossed = {"gain": 0, "loss": 0}, {"gain": True, "loss": plan.live}, False
        rest = n_rest = n_differing = 0

        def spend(question: str, alpha: Fraction, sign: int) -> bool:
            room, counts = math.floor(n_choices * alpha) - spent[question], Counter[int]()
            counts.update(sign * totals[choice] for choice in alive[question])
            least = max(counts, default=0) + 1
            while least > 1 and sum(n for total, n in counts.items() if total >= least - 1) <= room:
                least -= 1
            dead = {choice for choice in alive[question] if sign * totals[choice] >= least}
            alive[question] -= dead
            spent[question] += len(dead)
            return sign * totals[0] >= least

        for t in range(1, k * n + 1):
            number, unit = divmod(t - 1, n)
            places: list[Place] = [("candidate", unit, number), ("base", unit, number)]
            if any(place not in self.scores for place in places):
                return None, t - 1, None
            net = self.net(*(self.scores[place] for place in places))
            weighted = 3 * net if unit in plan.kind else net
            totals = [
                total - weighted if turned[unit][choice] else total + weighted for choice, total in enumerate(totals)
            ]
            rest, n_rest = (rest, n_rest) if unit in plan.kind else (rest + net, n_rest + 1)
            if number == 1:
                n_differing += sum(self.scores[place] != self.scores[place[0], unit, 0] for place in places)
            at = unit + 1
            repeats = number == 1 and k > 2 and ((at == 10 < n and n_differing <= 1) or (at == n >= 5 * n_differing))
            share = Fraction(1) if repeats else Fraction(t, k * n)
            if is_open["gain"] and not crossed:
                crossed = spend("gain", alpha_of(plan.number) * share, 1)
            is_open["loss"] = is_open["loss"] and not set(places) & self.bounded
            if crossed and (not plan.kind or (t >= n and 10 * rest >= -largest * n_rest)):
                return "better", t, Fraction(spent["gain"], n_choices)
            if is_open["loss"] and spend("loss", Fraction(1, 20) * share, -1):
                return "worse", t, Fraction(spent["loss"], n_choices)
            if t >= n / 2:
                far = -largest if t < n else 0
                far = max(far, math.floor(Fraction(largest * t, 20))) if t >= k * n / 2 else far
                is_open["gain"] = is_open["gain"] and totals[0] > far
                is_open["loss"] = is_open["loss"] and -totals[0] > far
            if not any(is_open.values()):
                return "not_better", t, None
            if repeats or t == k * n:
                return ("cant_tell" if is_open["gain"] else "not_better"), t, None
        raise AssertionError("a test ends")

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
                ("worse_here", [-d for d in differences]),
            ):
                if sum(stake * math.prod(1 + bet * value for value in values) for bet, stake in BETS) >= 20:
                    return claim, n
        return "cant_tell", n


def plan_of(n_units: int, passes: int = 4, **more: object) -> Plan:
    """Return a plan whose units are in their order."""
    return Plan.model_validate(
        {"salt": "5a", "units": order_units(map(str, range(n_units)), "5a"), "passes": passes, **more}
    )


def drawn(chance: random.Random, n_large: int = 0) -> tuple[Plan, list[Attempt]]:
    """Return a random plan and some of the attempts of its test, in any order."""
    in_rounds = chance.random() < 0.2
    n = n_large or chance.randint(*((1, 7) if in_rounds else (8, 9)))
    graded, live, repeats = (chance.random() < share for share in (0.3, 0.4, 0.3))
    scores = TWELFTHS if graded else (0, 12)
    gain = chance.choice((-0.6, -0.3, 0.0, 0.3, 0.6, 0.9))
    rates = [chance.random() * (1 - abs(gain)) + max(0.0, -gain) for _ in range(n)]

    def draw(rate: float) -> int:
        fails = chance.random() >= rate
        return chance.choice(scores[: len(scores) // 2] if fails else scores[len(scores) // 2 :])

    earlier = (
        [[draw(rate) / 12 for _ in range(chance.choice((2, 3)))] for rate in rates] if chance.random() < 0.3 else []
    )
    plan = plan_of(
        n,
        1 if in_rounds else chance.choice((1, 2, 3, 4)),
        salt=f"{chance.getrandbits(128):032x}",
        number=chance.randint(1, 4),
        graded=graded,
        live=live,
        kind=chance.sample(range(n), chance.randint(1, 4)) if not (live or in_rounds) and chance.random() < 0.4 else (),
        earlier=earlier,
        margin=chance.choice((None, 0.05, 0.1, 0.3)) if in_rounds else None,
        max_pairs=chance.choice((0, 5, 20, 70)) if in_rounds else 0,
    )
    attempts, often_lost, often_late = [], chance.choice((0, 0.02, 0.2)), chance.choice((0, 0, 0.02))
    n_numbers = chance.randint(1, 40 // n) if in_rounds else plan.passes
    for unit, arm in itertools.product(range(n), ARMS):
        rate = rates[unit] + (gain if arm == "candidate" else 0)
        first = draw(rate)
        for number in range(n_numbers):
            cause = chance.choice(("target", "bounded")) if chance.random() < often_lost else ""
            score = first if repeats and chance.random() < 0.97 else draw(rate)
            if chance.random() >= often_late:
                attempts.append(Attempt(arm, unit, number, score / 12, cause))
    chance.shuffle(attempts)
    return plan, attempts


@pytest.mark.parametrize("part", range(3))
def test_a_verdict_is_that_of_a_reference_that_counts_all_choices_of_signs(part: int) -> None:
    ends = set()
    for seed in range(part, N_TESTS, 3):
        plan, attempts = drawn(random.Random(seed), 17 if seed == 7 else 0)
        reading, reference = Reading(plan), Reference(plan, attempts)
        for each in attempts:
            reading.add([each])
        found = reading.standing()
        if plan.in_rounds:
            verdict, n_rounds = reference.rounds()
            assert (found.verdict, found.passes) == (verdict, n_rounds), seed
            assert found.p_bound == (0.05 if verdict in ("better_here", "no_worse", "worse_here") else None)
        else:
            verdict, n_pairs, spent = reference.verdict()
            assert (found.verdict, found.pairs, found.p_bound) == (verdict, n_pairs, spent and float(spent)), seed
        ends.add((verdict, plan.in_rounds))
    both = {"better", "worse", "not_better", "cant_tell", None}
    assert ends >= {(end, False) for end in both} | {(end, True) for end in ("no_worse", "cant_tell", None)}


@pytest.mark.parametrize(("k", "kind"), [(1, ()), (2, ()), (4, ()), (2, (0, 1, 2))])
def test_under_fair_signs_of_whole_paths_better_has_at_most_its_error_rate(k: int, kind: tuple[int, ...]) -> None:
    chance, highest = random.Random(k), 0.0
    for n_test in range(5):
        paths = [[chance.choice((-1, 0, 1, 1)) for _ in range(k)] for _ in range(8)]
        plan, n_better = plan_of(8, k, kind=kind, number=1 + n_test % 2), 0
        for turned in itertools.product((1, -1), repeat=8):
            test = SignTest(plan)
            while test.verdict is None:
                number, unit = divmod(test.n_pairs, 8)
                net = turned[unit] * paths[unit][number]
                test.take(float(net > 0), float(net < 0))
            n_better += test.verdict == "better"
        assert Fraction(n_better, 256) <= plan.alpha
        highest = max(highest, n_better / 256 / plan.alpha)
    assert highest > 0.2


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_fewest_wins_without_a_loss_are_those_whose_chance_is_the_error_rate(number: int) -> None:
    n = least_of_kind(number)
    assert n == [6, 7, 8][number - 1]
    for n_won, verdict in ((n - 1, "cant_tell"), (n, "better")):
        nets = [1] * n_won + [0] * (n - n_won)
        plan = plan_of(max(8, n), 1, number=number)
        attempts = [Attempt("candidate", u, 0, float(net)) for u, net in enumerate([*nets, *[0] * (8 - n)])]
        found = stand(plan, [*attempts, *(each._replace(arm="base", score=0.0) for each in attempts)])
        assert found.verdict == verdict


def test_a_release_spends_five_percent_and_no_more() -> None:
    assert math.isclose(sum(alpha_of(number) for number in range(1, 400)), 0.05)


def test_an_attempt_that_counts_against_the_candidate_never_helps_it() -> None:
    # Spending is in steps: what a smaller result leaves unspent may accept later, in few tests.
    helped = hurt = 0
    for seed in range(500):
        plan, attempts = drawn(random.Random(seed))
        chance, before = random.Random(-seed - 1), stand(plan, attempts)
        dropped = [each._replace(cause="bounded") if chance.random() < 0.1 else each for each in attempts]
        after = stand(plan, dropped)
        assert not (plan.in_rounds and after.verdict in ("no_worse", "better_here") and before.verdict != after.verdict)
        helped += after.verdict == "better" != before.verdict
        hurt += before.verdict == "better" != after.verdict
    assert helped <= 2
    assert hurt > 15


@pytest.mark.parametrize("slots", [1, 4, 16, 40])
def test_a_test_ends_whatever_lands_first_and_asks_little_beyond_its_verdict(slots: int) -> None:
    for seed in range(12):
        chance = random.Random(seed)
        n, gain = chance.choice((8, 13, 30, 40)), chance.choice((0.0, 0.3, 0.6))
        rates = [chance.random() * (1 - gain) for _ in range(n)]
        earlier = [[float(chance.random() < rate) for _ in range(2)] for rate in rates] if seed % 2 else []
        plan = plan_of(n, passes_for([()] * n), earlier=earlier)
        reading, under_way, n_most = Reading(plan), list[Place](), 0
        while reading.standing().verdict is None:
            under_way += reading.wanted(slots, under_way)
            n_most = max(n_most, len(under_way))
            arm, unit, number = under_way.pop(chance.randrange(len(under_way)))
            score = float(chance.random() < rates[unit] + (gain if arm == "candidate" else 0))
            reading.add([Attempt(arm, unit, number, score)])
        assert reading.wanted(slots) == []
        end = reading.standing()
        n_deciding = end.pilot or 2 * end.pairs
        window = max(16, min(32, 2 * slots), slots)
        assert n_most <= slots
        assert end.runs.base + end.runs.candidate <= n_deciding + window + plan.n_pilot
        assert not (end.pilot and end.pairs)


def test_both_arms_of_a_pair_are_asked_together_and_neither_is_always_first() -> None:
    plan = plan_of(30, 4)
    pairs = list(zip(plan.sequence[::2], plan.sequence[1::2], strict=True))
    assert all(one[1:] == other[1:] and one[0] != other[0] for one, other in pairs)
    assert [(number, unit) for (_, unit, number), _ in pairs] == [(n, u) for n in range(4) for u in range(30)]
    for (first, unit, number), _ in pairs:
        digest = hashlib.sha256(f"{plan.salt}/first/{number}/{unit}".encode()).digest()
        assert first == ("base" if digest[0] % 2 else "candidate")


def test_a_pilot_comes_first_and_can_only_end_a_test() -> None:
    plan = plan_of(60, 4, earlier=[[1.0, 0.0]] * 60)
    assert plan.n_pilot == 30
    assert plan.sequence[:30] == tuple(("candidate", unit, 0) for unit in range(30))
    assert len(set(plan.sequence)) == len(plan.sequence) == plan.most_runs == 480
    assert [plan_of(n, 4, earlier=[[1.0, 0.0]] * n).n_pilot for n in (12, 24, 30, 40, 80)] == [12, 24, 30, 30, 40]
    failing = [Attempt("candidate", unit, 0, 0.0) for unit in range(30)]
    assert [stand(plan, failing[:n]).verdict for n in (14, 15)] == [None, "not_better"]
    assert stand(plan, [each._replace(score=float(each.unit % 2)) for each in failing]).verdict == "not_better"
    assert stand(plan, [each._replace(score=1.0) for each in failing]).verdict is None
    assert plan_of(60, 4, earlier=[[1.0, 0.0]] * 60, live=True).n_pilot == 0, "or a loss would not be looked for"


def test_a_target_that_repeats_itself_is_noticed_in_the_second_pass() -> None:
    plan = plan_of(30, 5)
    same = [Attempt(arm, unit, number, float(unit % 3 > 0 or (arm == "candidate" and unit % 2)))
            for number in range(5) for unit in range(30) for arm in ARMS]  # fmt: skip
    end = stand(plan, same)
    assert (end.repeats, end.verdict) == (True, "cant_tell")
    assert end.pairs == 40, "ten of the second pass"


def test_rounds_end_at_their_cap_and_never_above_it() -> None:
    for n_units, max_pairs, cap in ((3, 0, SMALL_SUITE_PAIRS), (3, 10, 10), (4, 3, 0), (30, 20, 0)):
        plan = plan_of(n_units, 1, margin=0.1 if n_units > 7 else None, max_pairs=max_pairs)
        reading, n = Reading(plan), 0
        while wanted := reading.wanted(1_000):
            reading.add(Attempt(*key, score=float(key[2] % 2)) for key in wanted)
            n += len(wanted)
        assert reading.standing().verdict == "cant_tell"
        assert n // 2 == cap // n_units * n_units
    assert read_rounds([[0.0] * 30] * 50, 0.001) == ("cant_tell", MAX_PAIRS // 30)


def wins(n_units: int, k: int = 1, **more: object) -> list[Attempt]:
    """Return the attempts of a test in which the candidate passes all and the base none."""
    keys = itertools.product(ARMS, range(n_units), range(k))
    return [Attempt(*key, score=float(key[0] == "candidate"))._replace(**more) for key in keys]


def test_other_models_or_a_day_between_the_attempts_of_a_pair_make_a_test_void() -> None:
    plan, attempts = plan_of(8, 1), wins(8, models=("m-1",), at=1e6)
    assert stand(plan, attempts).verdict == "better"
    other = [each._replace(models=("m-2",)) if each.arm == "base" else each for each in attempts]
    assert (stand(plan, other).verdict, stand(plan, other).void) == ("cant_tell", "models")
    late = [each._replace(at=1e6 + 90_000) if each.arm == "base" else each for each in attempts]
    found = stand(plan, late)
    assert (found.verdict, found.void, found.p_bound) == ("cant_tell", "hours", None)
    assert Reading(plan, late[:1] + late[8:9]).wanted(9) == []
    apart = [each._replace(at=1e6 + 90_000 * each.unit) for each in attempts]
    assert stand(plan, apart).verdict == "better", "days may lie between pairs"
    timeless = [each._replace(at=0.0) if each.arm == "base" else each for each in attempts]
    assert stand(plan, timeless).verdict == "better"


def test_rounds_may_take_days_but_not_a_pair_of_them() -> None:
    plan = plan_of(3, 1, max_pairs=60)
    attempts = [each._replace(at=1e6 + 50_000 * each.number) for each in wins(3, 10)]
    assert stand(plan, attempts).verdict == "better_here"
    late = [each._replace(at=each.at + 90_000) if each.arm == "base" else each for each in attempts]
    assert stand(plan, late).void == "hours"


def test_a_kind_is_units_of_a_test_whose_text_is_not_live() -> None:
    for more in ({"kind": (8,)}, {"kind": (0,), "live": True}):
        with pytest.raises(ValidationError, match="a kind is units"):
            plan_of(8, 1, **more)


def test_a_gain_in_one_kind_waits_for_a_whole_pass_and_for_no_loss_elsewhere() -> None:
    plan = plan_of(24, 6, kind=tuple(range(7)), tag="priority")
    fixed = [each for each in wins(24) if each.unit < 7 or each.arm == "candidate"]
    fixed += [each._replace(arm="base") for each in fixed if each.unit >= 7]
    fixed += [each._replace(number=1) for each in fixed]
    assert stand(plan, [each for each in fixed if each.unit < 20]).verdict is None
    end = stand(plan, fixed)
    assert (end.verdict, 24 <= end.pairs < 48) == ("better", True)
    assert end.kind is not None
    assert (end.kind.tag, end.kind.units, end.kind.solved and end.kind.solved.after) == ("priority", 7, 1.0)
    traded = [each._replace(score=0.0) if each.arm == "candidate" and 7 <= each.unit < 10 else each for each in fixed]
    assert stand(plan, traded).verdict == "cant_tell"


def test_an_attempt_beyond_those_of_each_arm_does_not_count() -> None:
    plan, attempts = plan_of(8, 1), wins(8)
    extra = [each._replace(number=1) for each in attempts if each.arm == "candidate"]
    one, two = stand(plan, attempts), stand(plan, [*extra, *attempts])
    assert (one.gain, one.solved, one.p_bound, one.units) == (two.gain, two.solved, two.p_bound, two.units)


@pytest.mark.parametrize(
    ("earlier", "k"),
    [
        ([()] * 8, 8),
        ([()] * 20, 7),
        ([()] * 24, 6),
        ([()] * 30, 5),
        ([()] * 120, 4),
        ([[1, 1]] * 20, 1),
        ([[1, 1]] * 18 + [[1, 0]] * 2, 1),
        ([[1, 1]] * 17 + [[1, 0]] * 3, 7),
        ([[1, 1]] * 19 + [[1]], 7),
    ],
)
def test_a_unit_is_asked_once_only_where_earlier_attempts_agree(earlier: list[list[float]], k: int) -> None:
    assert passes_for(earlier) == k


def test_graded_results_are_the_nearest_thirds_and_symmetric() -> None:
    for a, b in itertools.product(TWELFTHS, repeat=2):
        assert net_of(a / 12, b / 12, graded=True) == -net_of(b / 12, a / 12, graded=True)
    assert [net_of(score, 0.0, graded=True) for score in (1 / 6, 0.49, 0.5, 0.83, 5 / 6)] == [1, 1, 2, 2, 3]


def test_the_interval_adds_two_of_each_and_stays_within_what_is_possible() -> None:
    found = interval_of([1.0, 0.0, 0.5], None)
    values = [1.0, 0.0, 0.5, 1, 1, -1, -1]
    half = 1.96 * statistics.stdev(values) / math.sqrt(len(values))
    assert (found.mean, found.low) == (pytest.approx(statistics.fmean(values)), pytest.approx(found.mean - half))
    assert interval_of([1.0] * 4, None).high == 1.0
    assert interval_of([], None).low == -1.0
    assert interval_of([0.1] * 4, "better").low == 0.0
    assert interval_of([-0.1] * 4, "worse").high == 0.0
