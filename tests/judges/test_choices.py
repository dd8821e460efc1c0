"""Choices: which option an answer names, and when it hedges."""

from __future__ import annotations

import pytest

from skillopt_mcp.tasks.judges.judging import parse_judge, score
from skillopt_mcp.tasks.judges.kinds.choice import named_options

LETTERS = ("A", "B", "C", "D")
CITIES = ("London", "Paris", "New York", "York")


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("B", {1}),
        ("b", {1}),
        ("(B)", {1}),
        ("B.", {1}),
        ("**B**", {1}),
        ("_B_", {1}),
        ("Answer: B", {1}),
        ("answer: b", {1}),
        ("Answer:\nB", {1}),
        ("**Answer:** B) because of the date", {1}),
        ("The correct answer is (B).", {1}),
        (r"so \boxed{B}", {1}),
        ("A is wrong, since C holds. The answer is B.", {1}),
        ("I pick option B", {1}),
        ("B, because it rains", {1}),
        ("A because it rains", {0}),
        ("A good choice is B", {1}),
        ("It is not A but B", {1}),
        ("A and B", {0, 1}),
        ("Answer: A or B", {0, 1}),
        ("Answer: A. Or rather, answer: B", {0, 1}),
        ("Answer: B because option A is wrong", {1}),
        ("Answer: B (A is wrong)", {1}),
        ("The answer is not B", set()),
        ("I do not know", set()),
        ("E", set()),
        ("B-12 is a vitamin, ABC a label", set()),
        ("", set()),
    ],
)
def test_letters_are_found_where_they_stand_for_an_option(answer: str, named: set[int]) -> None:
    assert named_options(LETTERS, answer) == named


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("Paris", {1}),
        ("  paris.\n", {1}),
        ("B", {1}),
        ("B) Paris", {1}),
        ("(B) Paris", {1}),
        ("Answer: B", {1}),
        ("Answer: b.", {1}),
        ("I think it is Paris, France", {1}),
        ("new\n york", {2}),
        ("New York", {2}),
        ("York", {3}),
        ("option C", {2}),
        ("A trip to Paris", {1}),
        ("Answer: A trip to Paris", {1}),
        ("Vitamin C, in Paris", {1}),
        ("not London but Paris", {1}),
        ("London or Paris", {0, 1}),
        ("A) Paris", {0, 1}),
        ("Parisian", set()),
        ("Rome", set()),
    ],
)
def test_texts_are_found_whole_and_by_their_letter(answer: str, named: set[int]) -> None:
    assert named_options(CITIES, answer) == named


@pytest.mark.parametrize(
    ("options", "answer", "named"),
    [
        (("A) London", "B) Paris"), "B) Paris", {1}),
        (("A) London", "B) Paris"), "Paris", {1}),
        (("B) London", "A) Paris"), "Answer: A", {1}),
        (("A", "B", "None of the above"), "a hard one: none of the above", {2}),
        (("A", "B", "None of the above"), "Answer: b", {1}),
        (("x.", "x!"), "(x)", {0, 1}),
        (("yes", "no"), "No, it is not.", {1}),
        (("guilty", "innocent"), "not guilty", set()),
        (("guilty", "not guilty"), "He is not guilty.", {1}),
        (("1", "10"), "It is 10", {1}),
        (("1", "2"), "about 1.5", set()),
        (("5", "-5"), "so -5", {1}),
        (("$5", "€5"), "€5", {1}),
        (("C++", "C"), "written in C++", {0}),
    ],
)
def test_options_of_many_shapes_are_distinguished(options: tuple[str, ...], answer: str, named: set[int]) -> None:
    assert named_options(options, answer) == named


def test_only_the_expected_option_alone_passes_and_the_reason_shows_what_was_named() -> None:
    spec = parse_judge({"kind": "choice", "expected": "Paris", "options": list(CITIES)})
    assert score(spec, "Paris").hard
    assert [score(spec, answer).reason for answer in ("Paris", "London", "London, Paris", "Rome")] == [
        'names "Paris"',
        'names "London"; expected "Paris"',
        'names "London", "Paris"; expected "Paris"',
        'names none of the options; expected "Paris"',
    ]
