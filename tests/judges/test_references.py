"""References: an answer made from what a judge expects passes it."""

from __future__ import annotations

import pytest

from skillopt_mcp.judges.references import reference_answers
from skillopt_mcp.judges.scoring import score
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.records.judging import Score


@pytest.mark.parametrize(
    "expected", ["docs(billing): ", ["docs(billing): "], ["a: ", "b"], ["b", "a: "], [" a", "b\n"], "plain"]
)
def test_what_contains_expects_passes_it_with_blanks_at_its_ends_too(expected: object) -> None:
    spec = parse_judge({"kind": "contains", "expected": expected})
    found = [score(spec, answer) for answer in reference_answers(spec)]
    assert found
    assert all(isinstance(each, Score) and each.hard for each in found)
