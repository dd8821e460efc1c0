"""Overlap: token F1 and ANLS."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.overlap import edit_distance, normalised, similarity
from skillopt_mcp.judges.scoring import score
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.records.judging import Score


def soft(kind: str, expected: object, answer: str) -> float:
    """Return the soft score of an answer."""
    found = score(parse_judge({"kind": kind, "expected": expected}), answer)
    assert isinstance(found, Score)
    return found.soft


@pytest.mark.parametrize(
    ("expected", "answer", "f1"),
    [
        ("the Eiffel Tower", "Eiffel tower!", 1.0),
        ("Denver Broncos", "the Broncos", 2 / 3),
        ("cat cat dog", "cat dog dog", 2 / 3),
        (["Paris", "Paris, France"], "Paris France", 1.0),
        ("Paris", "London", 0.0),
        ("Paris", "", 0.0),
        ("the", "a", 1.0),
        ("the", "something", 0.0),
    ],
)
def test_f1_is_that_of_squad(expected: object, answer: str, f1: float) -> None:
    assert soft("f1", expected, answer) == pytest.approx(f1)


def test_squad_normalisation_drops_case_punctuation_and_articles() -> None:
    assert normalised("The  U.S. of A: an  Anthem!") == "us of anthem"


def test_f1_passes_from_its_threshold_on() -> None:
    spec = {"kind": "f1", "expected": "red green blue", "threshold": 0.8}
    at = score(parse_judge(spec), "red green")
    assert at == Score(hard=True, soft=0.8, reason='f1 0.800 of "red green" against "red green blue"; 0.8 passes')
    below = score(parse_judge(spec | {"threshold": 0.81}), "red green")
    assert below == Score(hard=False, soft=0.8, reason=at.reason.replace("0.8 passes", "0.81 passes"))


@pytest.mark.parametrize(
    ("expected", "answer", "anls"),
    [
        ("hello", "Hello", 1.0),
        ("hello", "hallo", 0.8),
        ("abcd", "abxx", 0.5),
        ("abcd", "axxx", 0.0),
        (["dog", "hello"], "hell", 0.8),
        ("x", "", 0.0),
        ("a  b", "a b", 1.0),
    ],
)
def test_anls_is_zero_below_one_half(expected: object, answer: str, anls: float) -> None:
    assert soft("anls", expected, answer) == pytest.approx(anls)


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


@given(st.text(max_size=30), st.text(max_size=30))
def test_similarity_is_symmetric_and_one_only_for_equals(first: str, second: str) -> None:
    assert similarity(first, second) == similarity(second, first)
    assert (similarity(first, second) == 1.0) is (first == second)


def test_long_answers_are_measured_at_once() -> None:
    expected = ["".join(chr(97 + (n * k) % 26) for n in range(2_000)) for k in range(1, 11)]
    assert soft("anls", expected, "q" * 3_500) == 0.0
    assert soft("anls", expected, "word " * 1_000_000) == 0.0
    assert soft("f1", expected, "word " * 1_000_000) == 0.0


def test_a_reference_too_long_for_letters_is_sent_to_words() -> None:
    with pytest.raises(BadInput, match="give at most 2000, or use f1"):
        parse_judge({"kind": "anls", "expected": "x" * 2_001})
