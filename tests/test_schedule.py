"""Schedule: the edit budgets of a run."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.training.config import SCHEDULES, Schedule
from skillopt_mcp.training.plan import edit_budget


def sequence(kind: Schedule, n_steps: int, maximum: int, minimum: int) -> list[int]:
    """Return the budgets of all steps of a run."""
    return [edit_budget(step, n_steps, kind, maximum, minimum) for step in range(1, n_steps + 1)]


@pytest.mark.parametrize(
    ("kind", "n_steps", "maximum", "budgets"),
    [
        ("cosine", 4, 4, [4, 3, 2, 2]),
        ("cosine", 8, 4, [4, 4, 3, 3, 3, 2, 2, 2]),
        ("cosine", 40, 4, [4] * 13 + [3] * 13 + [2] * 14),
        ("cosine", 8, 8, [8, 7, 6, 5, 4, 3, 2, 2]),
        ("linear", 8, 8, [7, 6, 6, 5, 4, 4, 3, 2]),
        ("constant", 3, 4, [4, 4, 4]),
        ("cosine", 1, 4, [4]),
        ("linear", 1, 4, [4]),
    ],
)
def test_the_published_sequences_hold(kind: Schedule, n_steps: int, maximum: int, budgets: list[int]) -> None:
    assert sequence(kind, n_steps, maximum, 2) == budgets


@given(st.sampled_from(SCHEDULES), st.integers(1, 60), st.integers(0, 20), st.integers(0, 20))
def test_budgets_never_rise_and_stay_between_the_ends(kind: Schedule, n_steps: int, minimum: int, more: int) -> None:
    budgets = sequence(kind, n_steps, minimum + more, minimum)
    assert budgets == sorted(budgets, reverse=True)
    assert all(minimum <= budget <= minimum + more for budget in budgets)
    assert budgets[-1] == (minimum + more if kind == "constant" or n_steps == 1 else minimum)


@given(st.integers(2, 60), st.integers(0, 20), st.integers(0, 20), st.integers(1, 60))
def test_linear_and_cosine_are_the_rounded_formulas(n_steps: int, minimum: int, more: int, step: int) -> None:
    maximum, t = minimum + more, min(step, n_steps) / n_steps
    linear = maximum + (minimum - maximum) * t
    cosine = minimum + 0.5 * (maximum - minimum) * (1 + math.cos(math.pi * t))
    assert abs(edit_budget(step, n_steps, "linear", maximum, minimum) - linear) <= 0.5
    assert abs(edit_budget(step, n_steps, "cosine", maximum, minimum) - cosine) <= 0.5


def test_halves_round_to_even_as_in_the_reference() -> None:
    assert [edit_budget(1, 2, "linear", maximum, 0) for maximum in (1, 3, 5)] == [0, 2, 2]


def test_a_step_after_the_last_keeps_the_last_budget() -> None:
    assert edit_budget(9, 4, "cosine", 4, 2) == edit_budget(4, 4, "cosine", 4, 2) == 2
