"""Verdicts of the output graders of eval.yaml: skill-validator's (.NET) and vally's (JavaScript)."""

from __future__ import annotations

import pytest

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Score
from skillopt_mcp.tasks.judges.judging import parse_judge, score

VERDICTS: list[tuple[str, str, str, bool | None]] = [
    ("output_contains", "Ebbe", "die EBBE kommt", True),
    ("output_contains", "fluß", "FLUSS", False),  # each character by itself
    ("output_contains", "k", "\u212a", False),  # and none into ASCII
    ("output_contains", "É", "café", True),
    ("output_not_contains", "ebb", "EBB", False),
    ("output-contains", "İ", "i̇", True),  # JavaScript's lower case has two characters
    ("output-contains", "fluß", "FLUSS", False),
    ("output-not-contains", "ebb", "flow", True),
    ("output_matches", "berth", "BERTH 4", True),
    ("output_matches", "(?i)berth", "Berth", True),
    ("output_matches", "^b$", "a\nb", False),
    ("output_matches", "b$", "ab\n", True),
    ("output_matches", "b$", "ab\n\n", False),
    ("output_matches", "(a|b$)", "b\n", True),
    ("output_matches", "x$|y$", "x\n", True),
    ("output_matches", "(x$|y)", "x\n", True),
    ("output_matches", "a.c", "a\nc", False),
    ("output_matches", r"a\sc", "a\u00a0c", True),
    ("output_matches", "a.c", "a🚀c", False),  # two UTF-16 units
    ("output_matches", "a.{2}c", "a🚀c", True),
    ("output_matches", r"\bn\d", "n4", True),
    ("output_matches", r"\bn\d", "én4", None),  # \b of .NET knows é
    ("output_matches", "n4", "én4", True),
    ("output_matches", "a.b", "a\rb", None),  # . of .NET takes a carriage return
    ("output_not_matches", "(error|fail)", "FAILED", False),
    ("output_matches", "[^a]b", "AB", False),
    ("output_matches", "a]b{x", "a]b{x", True),
    ("output-matches", "berth", "BERTH", False),
    ("output-matches", "(?i)berth", "BERTH", True),
    ("output-matches", "(?ms)^a.b$", "x\na\nb\ny", True),
    ("output-matches", "b$", "ab\n", False),
    ("output-not-matches", "(?i)maybe", "Maybe", False),
    ("exit_success", "", "", False),
    ("exit-success", "", "x", True),
]


@pytest.mark.parametrize(("grader", "value", "answer", "passes"), VERDICTS)
def test_each_verdict_is_the_owners(grader: str, value: str, answer: str, passes: bool | None) -> None:
    outcome = score(parse_judge({"kind": "agent_output", "grader": grader, "value": value}), answer)
    assert (outcome.hard if isinstance(outcome, Score) else None) is passes, outcome.reason


@pytest.mark.parametrize(
    ("grader", "value"),
    [
        *(("output_matches", each) for each in (
            r"\Aa", r"a\z", r"(?<=a)b", r"(?>a)b", r"[a-z-[b]]", r"(?<n>a)\k<n>", r"(a)\1", r"\p{L}", r"(?m)^a",
            r"(?x) a",
            r"(a$|b)*", r"a$b", r"(b$|c)d", r"\x41", r"[]a]", "naïve", r"(?(a)b|c)", "a**", "(a", r"\e",
        )),
        ("output-matches", "a(?=b)"), ("output-matches", "(?i)(?s)a"), ("output-matches", "("), ("output-matches", " "),
        ("output_contains", " "), ("output_contains", "\ud800"),
    ],
)  # fmt: skip
def test_what_may_mean_another_thing_is_refused(grader: str, value: str) -> None:
    with pytest.raises(BadInput):
        parse_judge({"kind": "agent_output", "grader": grader, "value": value})
