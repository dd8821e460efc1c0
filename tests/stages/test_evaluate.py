"""Evaluate: what a version's evaluation costs, and what the search gate makes of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_ask import SKILL, MemoryAsk

from skillopt_mcp.gates.search import Comparison, compare
from skillopt_mcp.judges.kinds.text import Contains
from skillopt_mcp.records.calls import Call, Reply, Rollout
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Evaluation, evaluate, task_scores

OTHER = SkillFiles((SkillFile(MAIN_FILE, b"another"),))
Outcome = bool | float | None


def task(n: int) -> Task:
    """Return the n-th task; soft is the share of ten letters that the answer holds."""
    return Task(n, 1, f"t{n}", f"task {n}", Contains(expected=list("abcdefghij")), "val", f"d{n}")


def evaluation(outcomes: Mapping[int, Outcome]) -> Evaluation:
    """Return the evaluation with these outcomes by task: passed, a soft score below 1, or missing."""

    def answer(call: Call) -> str | Reply:
        assert isinstance(call.request, Rollout)
        outcome = outcomes[call.request.task.id]
        return Reply("", fault="timeout") if outcome is None else "abcdefghij"[: round(10 * outcome)]

    return evaluate(MemoryAsk(answer), SKILL, [task(n) for n in outcomes], "hard", draw="r/val")


def compared(candidate: list[Outcome], current: list[Outcome], best: list[Outcome] | None = None) -> Comparison:
    """Return the comparison of evaluations on the same tasks, by position."""
    ours, theirs = (evaluation(dict(enumerate(each))) for each in (candidate, current))
    highest = theirs if best is None else evaluation(dict(enumerate(best)))
    return compare(task_scores(ours), task_scores(theirs), task_scores(highest), "hard")


def test_an_evaluation_is_paid_once_under_its_draw_and_serves_again() -> None:
    ask = MemoryAsk(lambda call: "abcdefghij")
    first = evaluate(ask, SKILL, [task(1), task(2)], "hard", draw="r/val")
    assert evaluate(ask, SKILL, [task(1), task(2)], "hard", draw="r/val") == first
    assert len(ask.sent) == 2
    evaluate(ask, OTHER, [task(1), task(2)], "hard", draw="r/val")
    evaluate(ask, SKILL, [task(1), task(2)], "hard", draw="another run/val")
    assert len(ask.sent) == 6


def test_the_score_is_the_runs_metric_over_the_trials_that_have_one() -> None:
    ask = MemoryAsk(lambda call: "abcdefghij" if "prompt='task 1'" in str(call.request) else "abcde")
    hard, soft, mixed = (
        evaluate(ask, SKILL, [task(1), task(2)], metric, draw="r/val").score for metric in ("hard", "soft", "mixed")
    )
    assert (hard, soft, mixed) == (0.5, 0.75, 0.625)
    mostly_soft = evaluate(ask, SKILL, [task(1), task(2)], "mixed", draw="r/val", mixed_weight=0.8)
    assert mostly_soft.score == pytest.approx(0.7)
    assert evaluation({1: True, 2: None}).score == 1.0
    assert evaluation({1: True, 2: None}).mean.n_missing == 1


def test_better_than_current_but_not_than_the_best_is_accepted_and_the_best_stays() -> None:
    assert compared([True, False, False], [False] * 3, [True, True, False]).verdict == "accept"
    assert compared([True, False, False], [False] * 3, [True, False, False]).verdict == "accept"
    assert compared([True, True, False], [False] * 3, [True, False, False]).verdict == "accept_best"


def test_missing_trials_are_no_zeros_and_no_gains() -> None:
    assert compared([True, None], [True, False]) == Comparison("reject", 1.0, 1.0, 1)
    assert compared([False, True], [None, True]) == Comparison("reject", 1.0, 1.0, 1)
    assert compared([None, True, True], [True, False, True]) == Comparison("accept_best", 1.0, 0.5, 2)


OUTCOMES = st.lists(st.tuples(*[st.sampled_from([True, False, None])] * 2), min_size=1, max_size=8)


@given(OUTCOMES)
def test_the_verdict_is_that_of_the_common_tasks_alone(outcomes: list[tuple[bool | None, bool | None]]) -> None:
    common = [(ours, theirs) for ours, theirs in outcomes if ours is not None and theirs is not None]
    verdict = compared([ours for ours, _ in outcomes], [theirs for _, theirs in outcomes]).verdict
    gain = sum(ours for ours, _ in common) - sum(theirs for _, theirs in common)
    assert verdict == ("accept_best" if gain > 0 else "reject")
