"""Recompute: verdicts that follow from what decisions keep."""

from __future__ import annotations

import random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from skillopt_mcp.gates.confirm import ConfirmRule, confirm
from skillopt_mcp.gates.recompute import ConfirmInputs, StrictInputs, confirm_verdict, search_comparison, search_verdict
from skillopt_mcp.gates.search import TaskScore, compare
from skillopt_mcp.records.evidence import Metric, Pair, SearchGate

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


@pytest.mark.parametrize("gain", [0.0, 0.4, -0.4])
def test_a_confirm_verdict_follows_from_its_pairs_and_ignores_those_beyond(gain: float) -> None:
    chance = random.Random(gain)
    pairs = [Pair(float(chance.random() < 0.5), float(chance.random() < 0.5 + gain)) for _ in range(300)]
    rule = ConfirmRule(alpha=0.03, max_pairs=300)
    end = confirm(pairs, rule)
    inputs = ConfirmInputs(
        confirmation="t-1", n_pairs=end.n_pairs, alpha=rule.alpha, beta=rule.beta, min_effect=rule.min_effect,
    )  # fmt: skip
    assert confirm_verdict(pairs, inputs.model_dump_json()) == end.verdict
    earlier = inputs.model_copy(update={"n_pairs": end.n_pairs - 1})
    assert confirm_verdict(pairs, earlier.model_dump_json()) == "undecided"


def test_no_pairs_decide_nothing() -> None:
    inputs = ConfirmInputs(confirmation="t-1", n_pairs=0, alpha=0.9, beta=0.9, min_effect=0.05).model_dump_json()
    assert confirm_verdict([Pair(0.0, 1.0)], inputs) == "undecided"
    assert confirm_verdict([Pair(0.0, 1.0)], inputs.replace('"n_pairs":0', '"n_pairs":1')) == "accept"


@pytest.mark.parametrize("inputs", ["", "{}", '{"metric": "hard"}', '{"n_pairs": 3}'])
def test_inputs_that_are_none_are_refused(inputs: str) -> None:
    with pytest.raises(ValidationError):
        search_verdict("strict", inputs)
    with pytest.raises(ValidationError):
        confirm_verdict([], inputs)


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
