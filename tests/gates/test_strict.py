"""Strict: SkillOpt's search gate."""

from __future__ import annotations

import pytest

from skillopt_mcp.core.evidence import SearchVerdict
from skillopt_mcp.gates.search import strict


@pytest.mark.parametrize(
    ("candidate", "current", "best", "verdict"),
    [
        (0.6, 0.5, 0.5, "accept_best"),
        (0.6, 0.5, 0.6, "accept"),
        (0.6, 0.5, 0.7, "accept"),
        (0.5, 0.5, 0.5, "reject"),
        (0.5, 0.5, 0.4, "reject"),
        (0.4, 0.5, 0.5, "reject"),
        (0.5000001, 0.5, 0.5, "accept_best"),
        (0.0, 0.0, 0.0, "reject"),
    ],
)
def test_only_a_higher_score_moves_and_a_tie_keeps_the_current_version(
    candidate: float, current: float, best: float, verdict: SearchVerdict
) -> None:
    assert strict(candidate, current, best) == verdict
