"""Shapes: length and heading, and that they cannot decide alone."""

from __future__ import annotations

import pytest

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.scoring import score
from skillopt_mcp.judges.shapes import is_shape_only
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.records.judging import SPECS, Heading, Score

LENGTH = {"kind": "length", "max": 9}
HEADING = {"kind": "heading", "expected": "Summary"}
EXACT = {"kind": "exact", "expected": "x"}


def judged(answer: str, **spec: object) -> Score:
    """Return the score of an answer."""
    found = score(parse_judge(spec), answer)
    assert isinstance(found, Score)
    return found


@pytest.mark.parametrize(
    ("unit", "answer", "n"),
    [("words", " one two\nthree ", 3), ("characters", " añb ", 3), ("lines", "a\n\nb\n", 3), ("lines", "", 0)],
)
def test_length_counts_the_trimmed_answer(unit: str, answer: str, n: int) -> None:
    assert judged(answer, kind="length", unit=unit, max=n).reason == f"{n} {unit}"
    if n:
        assert judged(answer, kind="length", unit=unit, max=n - 1).reason == f"{n} {unit}, expected 0 to {n - 1}"
    assert judged(answer, kind="length", unit=unit, min=n + 1).reason == f"{n} {unit}, expected {n + 1} or more"


def test_soft_falls_with_the_distance_from_the_length() -> None:
    assert judged("a b", kind="length", min=4).soft == 0.5
    assert judged("a b c d", kind="length", max=1).soft == 0.25


def test_headings_are_found_outside_of_code() -> None:
    answer = "# Report\n\n## Summary ##\n\ntext\n\n```\n## Costs\n```\n"
    assert judged(answer, kind="heading", expected=["summary", "Report"]).hard
    assert not judged(answer, kind="heading", expected="Summary", level=1).hard
    half = judged(answer, kind="heading", expected=["Summary", "Costs"])
    assert half == Score(hard=False, soft=0.5, reason='lacks the heading "Costs"')
    assert not judged("Summary", kind="heading", expected="Summary").hard
    assert not judged("````\n```\n# Costs\n````\n", kind="heading", expected="Costs").hard
    assert not judged("- ~~~\n  # Costs\n", kind="heading", expected="Costs").hard


@pytest.mark.parametrize(("line", "title"), [("# C#", "C#"), ("# a \t##  ", "a"), ("## b ##\r", "b"), ("# # c", "# c")])
def test_marks_that_close_a_heading_are_no_part_of_its_title(line: str, title: str) -> None:
    assert headings_of(f"{line}\ntext") == {title}


def headings_of(answer: str) -> set[str]:
    """Return which of some titles an answer has as a heading."""
    titles = ["C#", "C", "a", "a \t##", "b", "# c", "c"]
    return {
        title
        for title in titles
        if score(Heading(kind="heading", expected=title), answer).hard  # type: ignore[union-attr]
    }


@pytest.mark.parametrize(
    ("spec", "alone"),
    [
        (LENGTH, True),
        (HEADING, True),
        (EXACT, False),
        ({"kind": "all", "judges": [LENGTH, HEADING]}, True),
        ({"kind": "all", "judges": [LENGTH, EXACT]}, False),
        ({"kind": "all", "judges": [LENGTH, {"kind": "all", "judges": [HEADING]}]}, True),
        ({"kind": "weighted", "judges": [{"judge": LENGTH}, {"judge": HEADING}]}, True),
        ({"kind": "weighted", "judges": [{"judge": LENGTH}, {"judge": EXACT}]}, False),
        ({"kind": "weighted", "judges": [{"judge": LENGTH, "weight": 9}, {"judge": EXACT}]}, True),
        ({"kind": "weighted", "judges": [{"judge": LENGTH}, {"judge": EXACT}], "threshold": 0.5}, True),
    ],
)
def test_a_judge_that_form_alone_can_pass_is_shape_only(spec: object, alone: bool) -> None:
    assert is_shape_only(parse_judge(spec)) is alone


def test_the_two_shape_judges_say_so_in_their_description() -> None:
    marked = {kind for kind, spec in SPECS.items() if "cannot promote alone" in (spec.__doc__ or "")}
    assert marked == {"length", "heading"}


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "length"},
        {"kind": "length", "min": 5, "max": 4},
        {"kind": "length", "max": 1, "unit": "pages"},
        {"kind": "heading", "expected": "# Title"},
        {"kind": "heading", "expected": "a\nb"},
        {"kind": "heading", "expected": []},
    ],
)
def test_a_shape_that_says_nothing_is_refused(spec: object) -> None:
    with pytest.raises(BadInput):
        parse_judge(spec)
