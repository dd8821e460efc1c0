"""Power: the forecast of a promotion test, against the chance that follows from its rule where answers repeat."""

from __future__ import annotations

from fractions import Fraction
from math import comb, lcm

import pytest

from skillopt_mcp.gates.power import power_of
from skillopt_mcp.gates.promotion import Plan

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
