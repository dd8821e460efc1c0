"""Text: exact and contains."""

from __future__ import annotations

import pytest

from skillopt_mcp.judges.scoring import score
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.records.judging import Score


def judged(answer: str, **spec: object) -> Score:
    """Return the score of `answer` under a spec given by its fields."""
    return score(parse_judge(spec), answer)


@pytest.mark.parametrize(
    ("expected", "answer", "passes"),
    [
        ("Paris", "  paris\n", True),
        ("Paris", "Paris.", False),
        ("Straße", "STRASSE", True),
        ("café", "CAFE\u0301", True),
        (["yes", "true"], "True", True),
        (["yes", "true"], "no", False),
        (" padded ", "padded", True),
        ("a", "", False),
    ],
)
def test_exact_trims_folds_case_and_composes(expected: object, answer: str, passes: bool) -> None:
    given = judged(answer, kind="exact", expected=expected)
    assert (given.hard, given.soft) == (passes, float(passes))


def test_exact_can_mind_the_case() -> None:
    assert not judged("paris", kind="exact", expected="Paris", case_sensitive=True).hard
    assert judged("Cafe\u0301", kind="exact", expected="Café", case_sensitive=True).hard


def test_the_reason_quotes_what_was_expected() -> None:
    assert judged("Rome", kind="exact", expected="Paris") == Score(
        hard=False, soft=0.0, reason='"Rome" does not equal "Paris"'
    )
    for kind in ("exact", "contains"):
        assert f'"{"long " * 40}..."' in judged("Rome", kind=kind, expected="long " * 90).reason


def test_contains_wants_all_and_gives_the_share_it_found() -> None:
    assert judged("alpha BETA", kind="contains", expected=["Alpha", "beta"]).hard
    half = judged("alpha", kind="contains", expected=["alpha", "beta"])
    assert half == Score(hard=False, soft=0.5, reason='lacks "beta" (1 of 2 found)')
    assert judged("", kind="contains", expected="x").reason == 'lacks "x" (0 of 1 found)'
    assert not judged("ALPHA", kind="contains", expected="alpha", case_sensitive=True).hard


def test_contains_any_is_content_with_one() -> None:
    assert judged("beta", kind="contains", expected=["alpha", "beta"], any=True).soft == 1.0
    assert judged("gamma", kind="contains", expected=["alpha", "beta"], any=True).soft == 0.0


def test_a_long_answer_is_read_at_its_end_and_equals_nothing() -> None:
    long = "x " * 1_000_000
    assert judged(long + "done", kind="contains", expected="done").hard
    assert not judged("done" + long, kind="contains", expected="done").hard
    assert not judged("y" * 200_000, kind="exact", expected="y" * 20_000).hard


def test_a_hostile_run_of_combining_marks_is_compared_as_it_is() -> None:
    assert judged("e" + "\u0301\u0316" * 500_000 + "ok", kind="contains", expected="ok").hard
