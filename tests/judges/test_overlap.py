"""Overlap: token F1 and ANLS."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.judging import Score
from skillopt_mcp.tasks.judges.judging import parse_judge, score
from skillopt_mcp.tasks.judges.kinds.overlap import edit_distance


def soft(kind: str, expected: object, answer: str) -> float:
    """Return the soft score of an answer."""
    found = score(parse_judge({"kind": kind, "expected": expected}), answer)
    assert isinstance(found, Score)
    return found.soft


def plain_distance(first: str, second: str) -> int:
    """Return the Levenshtein distance by the textbook table."""
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, start=1):
        previous, row = row, [i]
        for j, b in enumerate(second, start=1):
            row.append(min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (a != b)))
    return row[-1]


@given(st.text("abcé", max_size=40), st.text("abcé", max_size=40))
def test_the_fast_edit_distance_is_the_textbook_one(first: str, second: str) -> None:
    assert edit_distance(first, second) == plain_distance(first, second)


def test_long_answers_are_measured_at_once() -> None:
    expected = ["".join(chr(97 + (n * k) % 26) for n in range(2_000)) for k in range(1, 11)]
    assert soft("anls", expected, "q" * 3_500) == 0.0
    assert soft("anls", expected, "word " * 1_000_000) == 0.0
    assert soft("f1", expected, "word " * 1_000_000) == 0.0
