"""Power: the forecast of a promotion test, against the chance that follows from its rule where answers repeat."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from math import comb, lcm
from statistics import fmean, stdev

import pytest

from skillopt_mcp.core.evidence import Decides
from skillopt_mcp.gates.power import (
    _prior,
    _rates,
    find_what_decides,
    foresee_first_test,
    power_of,
    smallest_gain_found,
)
from skillopt_mcp.gates.promotion import Plan, passes_for
from skillopt_mcp.gates.rounds import SMALL_SUITE_PAIRS

N_UNITS, FEWEST_WINS = 40, 6  # 2 ** -6 is the first chance below the error rate of a first test


def test_the_forecast_is_that_of_wins_alone_where_each_answer_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # with as many worlds as where a person waits for it
    plan = Plan(salt="00" * 16, units=tuple(f"task {n}" for n in range(N_UNITS)), passes=1)
    rows = power_of(plan, [[0.0] * 3] * N_UNITS)
    for gain, chance, runs in rows:
        # Every attempt with the old text fails. Of those with the new one .05 pass by other words alone.
        wins = gain + 0.05
        exact = sum(comb(N_UNITS, n) * wins**n * (1 - wins) ** (N_UNITS - n) for n in range(FEWEST_WINS, N_UNITS + 1))
        assert chance == pytest.approx(exact, abs=0.06)
        assert FEWEST_WINS < runs / 2 <= N_UNITS
    means = (mean for row in rows for mean in (row.chance, row.runs))
    n_worlds = lcm(*(Fraction(mean).limit_denominator(2_000).denominator for mean in means))
    assert 100 <= n_worlds <= 1_000, "a standard error of .05 or less, in about a second"


@pytest.mark.parametrize("n", [5, 8, 20])
def test_what_a_first_test_can_find_is_foreseen_as_it_is_played(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    plan = Plan(salt="", units=unit_names(n), passes=passes_for([()] * n), max_pairs=SMALL_SUITE_PAIRS if n < 8 else 0)
    played = smallest_gain_found(plan, [()] * n)
    assert played
    gain, runs = foresee_first_test(n)
    assert gain == pytest.approx(played.gain, abs=0.025)
    assert runs == pytest.approx(played.runs, rel=0.05)


def unit_names(n: int) -> tuple[str, ...]:
    return tuple(f"task {u}" for u in range(n))


def test_the_forecast_learns_the_spread_of_tasks_from_those_that_were_attempted_before() -> None:
    # Eight attempts each, half of them passed: all tasks are alike. Half always passed: they are not.
    alike, apart = [[0.0, 1.0] * 4] * 10, [[1.0] * 8] * 5 + [[0.0] * 8] * 5
    for earlier, mean, between in ((alike, 42 / 84, 0.0001), (apart, 42 / 84, 0.25 * 10 / 9)):
        shape = [(sum(scores), len(scores)) for scores in earlier]
        spread = min(8.0, max(0.3, 0.25 / between - 1))
        assert _prior(shape) == pytest.approx((mean, spread ** (10 / 20)))
    assert _prior([(1.0, 1)] * 10) == pytest.approx((12 / 14, 1.0)), "one attempt says nothing of the spread"
    assert _prior([(0.0, 0)] * 10) == (0.5, 1.0)


def test_other_words_move_each_task_and_an_edit_about_a_kind_fixes_that_alone() -> None:
    known = [(4.0, 8)] * 400
    plan = Plan(salt="00", units=unit_names(400), passes=4)
    before, after = _rates(plan, known, 0.16, random.Random(1))
    assert fmean(after) - fmean(before) == pytest.approx(0.16)
    shifts = [math.log(a / (1 - a) * (1 - b) / b) for b, a in zip(before, after, strict=True)]
    assert 0.4 < stdev(shifts) < 1.3
    plan = plan.model_copy(update={"kind": (0, 1), "tag": "priority"})
    before, after = _rates(plan, known, 0.16, random.Random(1))
    assert [before[:2], after[:2]] == [[0.05, 0.05], [0.95, 0.95]]
    assert abs(fmean(after[2:]) - fmean(before[2:])) < 0.05


@pytest.mark.parametrize(
    ("passes", "nets", "decides"),
    [
        (4, [[1, 1, 1, 0]] * 9 + [[0, 0, 0, 0]] * 11, Decides(passes=8)),
        (8, [[1, 1, 1, 0]] * 7 + [[0, 0, 0, 0]] * 13, Decides(add=10)),
        (8, [[1, 1, 1, 0]] * 9 + [[0, 0, 0, 0]] * 11, Decides(add=10)),
        (8, [[1]] + [[0]] * 19, None),
        (4, [[0]] * 20, None),
        (4, [], None),
    ],
)
def test_where_no_tag_moves_more_passes_or_half_as_many_tasks_would_decide(
    passes: int, nets: list[list[int]], decides: Decides | None
) -> None:
    plan = Plan(salt="00", units=unit_names(20), passes=passes)
    assert find_what_decides(plan, nets, [()] * 20) == decides


def test_a_tag_of_one_task_that_got_better_is_no_advice() -> None:
    plan = Plan(salt="00", units=unit_names(20), passes=8)
    tags = [("alone",), *[("pair",)] * 2, *[()] * 17]
    found = find_what_decides(plan, [[3], [1], [1], *[[0]] * 17], tags)
    assert found is not None
    assert (found.tag, found.add) == ("pair", math.ceil((7 + 1) * 4 / 3) - 2)


def test_a_tag_that_could_be_no_kind_or_needs_too_many_tasks_is_no_advice() -> None:
    plan = Plan(salt="00", units=unit_names(20), passes=8)
    nets = [[1]] * 11 + [[0]] * 9
    common = find_what_decides(plan, nets, [("most",)] * 12 + [()] * 8)
    assert common is None or common.tag == "", "--kind would be refused"
    rare = [[1]] + [[0]] * 19
    assert find_what_decides(plan, rare, [("rare",)] * 10 + [()] * 10) is None, "above 60 tasks"


def test_tests_that_are_planned_alike_are_foreseen_alike_and_played_once() -> None:
    one, other = (Plan(salt=salt, units=unit_names(12)[::step], passes=8) for salt, step in (("00", 1), ("01", -1)))
    rows = power_of(one, [()] * 12)
    assert all(row is same for row, same in zip(rows, power_of(other, [()] * 12), strict=True))
