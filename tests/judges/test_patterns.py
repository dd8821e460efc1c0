"""Patterns: regular expressions in linear time."""

from __future__ import annotations

import pytest

from skillopt_mcp.judges.scoring import score
from skillopt_mcp.judges.specs import parse_judge


def passes(pattern: str, answer: str, *, full: bool = False) -> bool:
    """Return whether the answer passes a regex judge."""
    return score(parse_judge({"kind": "regex", "pattern": pattern, "full": full}), answer).hard


@pytest.mark.parametrize(
    ("pattern", "answer", "full", "expected"),
    [
        (r"\d{4}-\d\d", "on 2024-05 then", False, True),
        (r"\d{4}-\d\d", "on 2024-05 then", True, False),
        (r"\d{4}-\d\d", " 2024-05\n", True, True),
        (r"done$", "all done\n", False, True),
        (r"(?i)DONE", "done", False, True),
        (r"^é.$", "é漢", False, True),
        (r"(?P<year>\d+)", "x", False, False),
        (r"x", "\ud800", False, False),
    ],
)
def test_a_pattern_is_searched_in_the_trimmed_answer(pattern: str, answer: str, full: bool, expected: bool) -> None:
    assert passes(pattern, answer, full=full) is expected


def test_a_pattern_that_ruins_a_backtracking_engine_ends_at_once() -> None:
    assert not passes(r"(x+x+)+y", "x" * 2_000_000)
    assert not passes(r"^(a?){500}a{500}$", "a" * 499)


def test_the_end_of_a_long_answer_is_searched_and_never_matches_in_full() -> None:
    long = "x" * 2_000_000
    assert passes("done$", long + "done")
    assert not passes("^done", "done" + long)
    assert not passes("x+", long, full=True)


def test_a_failed_match_tells_the_pattern() -> None:
    given = score(parse_judge({"kind": "regex", "pattern": "^secret$"}), "no")
    assert given.reason == '"no" does not match "^secret$"'
