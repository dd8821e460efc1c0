"""Recompute: verdicts that follow from what decisions keep."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from skillopt_mcp.core.evidence import Metric, SearchGate
from skillopt_mcp.gates.recompute import StrictInputs, search_comparison, search_verdict
from skillopt_mcp.gates.search import TaskScore, compare

SCORES = st.lists(
    st.builds(
        lambda n, score: TaskScore(n, None if score is None else score == 1.0, score),
        st.integers(0, 5),
        st.none() | st.sampled_from([0.0, 0.3, 1.0]),
    ),
    max_size=6,
    unique_by=lambda score: score.task_id,
)


@given(SCORES, SCORES, st.none() | SCORES, st.sampled_from(["hard", "soft", "mixed"]))
def test_a_strict_verdict_follows_from_its_inputs(
    candidate: list[TaskScore], current: list[TaskScore], best: list[TaskScore] | None, metric: Metric
) -> None:
    inputs = StrictInputs(metric=metric, candidate=candidate, current=current, best=best).model_dump_json()
    expected = compare(candidate, current, current if best is None else best, metric).verdict
    assert search_verdict("strict", inputs) == expected


@pytest.mark.parametrize("inputs", ["", "{}", '{"metric": "hard"}', '{"n_pairs": 3}'])
def test_inputs_that_are_none_are_refused(inputs: str) -> None:
    with pytest.raises(ValidationError):
        search_verdict("strict", inputs)


@given(SCORES, SCORES, st.none() | SCORES)
def test_recorded_evidence_answers_what_another_gate_would_have_said(
    candidate: list[TaskScore], current: list[TaskScore], best: list[TaskScore] | None
) -> None:
    inputs = StrictInputs(metric="soft", candidate=candidate, current=current, best=best)
    strict = search_comparison("strict", inputs)
    assert search_comparison("fresh", inputs) == strict
    gates: list[SearchGate] = ["paired_se", "no_regression"]
    for gate in gates:
        other = search_comparison(gate, inputs)
        assert other.verdict in (strict.verdict, "reject")
        assert (other.candidate, other.current, other.n) == (strict.candidate, strict.current, strict.n)
        assert search_verdict(gate, inputs.model_dump_json()) == other.verdict


@pytest.mark.parametrize("gate", get_args(SearchGate))
def test_the_weight_of_soft_decides_where_hard_and_soft_disagree_in_every_gate(gate: SearchGate) -> None:
    candidate = [TaskScore(n, False, 0.9 - n / 100) for n in range(10)]
    current = [TaskScore(n, n == 0, 0.3) for n in range(10)]
    inputs = StrictInputs(metric="mixed", mixed_weight=0.9, candidate=candidate, current=current)
    accepted = inputs.model_copy(update={"again": (candidate, candidate)})
    assert search_verdict(gate, accepted.model_dump_json()) == "accept_best"
    mostly_hard = accepted.model_copy(update={"mixed_weight": 0.05})
    assert search_verdict(gate, mostly_hard.model_dump_json()) == "reject"


def test_evidence_from_before_the_weight_was_kept_weighs_hard_and_soft_alike() -> None:
    scores = [TaskScore(1, True, 0.5)]
    kept = StrictInputs(metric="mixed", candidate=scores, current=scores).model_dump()
    kept.pop("mixed_weight")
    assert StrictInputs.model_validate(kept).mixed_weight == 0.5
