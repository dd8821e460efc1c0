"""Rollout: what becomes of replies, and what an evaluation of a version costs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_ask import SKILL, MemoryAsk

from skillopt_mcp.core.calls import Call, Message, Reply, Rollout
from skillopt_mcp.core.judging import Judge
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.judges.kinds.choice import Choice
from skillopt_mcp.tasks.judges.kinds.combined import All
from skillopt_mcp.tasks.judges.kinds.numeric import Numeric
from skillopt_mcp.tasks.judges.kinds.regex import Regex
from skillopt_mcp.tasks.judges.kinds.text import Contains, Exact
from skillopt_mcp.training.stages.rollout import Evaluation, PlannedRollout, evaluate, rollout, trajectories

WORD = "zyzzyva"
JUDGES: list[Judge] = [
    Exact(expected=WORD),
    Exact(expected=[WORD, f"{WORD}s"], case_sensitive=True),
    Contains(expected=[WORD, "an answer"]),
    Regex(pattern=f"{WORD}+"),
    Choice(expected=WORD, options=[WORD, "ox", "emu"]),
    Numeric(expected=86420135.25),
    All(judges=[Exact(expected=WORD), Contains(expected=f"{WORD} {WORD}")]),
]


def task(n: int, judge: Judge | None = None) -> Task:
    """Return the n-th task; without a judge of its own it wants its number."""
    return Task(n, 1, f"t{n}", f"say {n}", judge or Exact(expected=str(n)), "train", f"d{n}")


def attempts(*tasks: Task) -> list[PlannedRollout]:
    """Return one attempt per task."""
    return [PlannedRollout(SKILL, each, "r/1") for each in tasks]


def prompt(call: Call) -> str:
    """Return the prompt of a rollout call."""
    assert isinstance(call.request, Rollout)
    return call.request.task.prompt


def test_a_reply_that_was_lost_on_the_way_is_no_score() -> None:
    ask = MemoryAsk(lambda call: Reply("the line is dead", fault="connection"))
    [trial] = rollout(ask, attempts(task(1)))
    assert (trial.hard, trial.soft, trial.missing) == (None, None, True)
    assert trial.reason == "missing (connection): the line is dead"
    assert trajectories([trial]) == []


def test_an_answer_that_the_target_did_not_give_is_a_failure_that_reflection_reads() -> None:
    ask = MemoryAsk(lambda call: Reply("cut off at 48 tokens", fault="truncated"))
    [trial] = rollout(ask, attempts(task(1)))
    assert (trial.hard, trial.soft, trial.missing) == (False, 0.0, False)
    [trajectory] = trajectories([trial])
    assert (trajectory.answer, trajectory.reason) == ("", "missing (truncated): cut off at 48 tokens")


def test_trials_come_in_the_order_of_the_attempts() -> None:
    ask = MemoryAsk(lambda call: prompt(call).removeprefix("say ") if prompt(call) != "say 2" else "wrong")
    trials = rollout(ask, attempts(task(3), task(2), task(1)))
    assert [(trial.task.id, trial.hard) for trial in trials] == [(3, True), (2, False), (1, True)]
    assert len(ask.rounds) == 1


def test_judges_see_the_answer_and_nothing_else_of_the_reply() -> None:
    said = Reply("2", messages=(Message("assistant", "1"),))
    meant = Reply("1", messages=(Message("assistant", "2"),))
    assert rollout(MemoryAsk(lambda call: said), attempts(task(1)))[0].hard is False
    assert rollout(MemoryAsk(lambda call: meant), attempts(task(1)))[0].hard is True


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.kind)
@given(answer=st.text(max_size=30) | st.sampled_from(["", "ox", "ox emu", "42", "zyzzy", "86420135"]))
def test_what_reflection_reads_of_a_failure_quotes_the_expected_answer(judge: Judge, answer: str) -> None:
    [trial] = rollout(MemoryAsk(lambda call: answer), attempts(task(1, judge)))
    [trajectory] = trajectories([trial])
    assert trajectory.reason == trial.reason
    if not trial.hard:
        assert WORD in trajectory.reason or "86420135.25" in trajectory.reason


OTHER = SkillFiles((SkillFile(MAIN_FILE, b"another"),))
Outcome = bool | float | None


def scored(n: int) -> Task:
    """Return the n-th task; soft is the share of ten letters that the answer holds."""
    return Task(n, 1, f"t{n}", f"task {n}", Contains(expected=list("abcdefghij")), "val", f"d{n}")


def evaluation(outcomes: Mapping[int, Outcome]) -> Evaluation:
    """Return the evaluation with these outcomes by task: passed, a soft score below 1, or missing."""

    def answer(call: Call) -> str | Reply:
        assert isinstance(call.request, Rollout)
        outcome = outcomes[call.request.task.id]
        return Reply("", fault="internal") if outcome is None else "abcdefghij"[: round(10 * outcome)]

    return evaluate(MemoryAsk(answer), SKILL, [scored(n) for n in outcomes], "hard", draw="r/val")


def test_an_evaluation_is_paid_once_under_its_draw_and_serves_again() -> None:
    ask = MemoryAsk(lambda call: "abcdefghij")
    first = evaluate(ask, SKILL, [scored(1), scored(2)], "hard", draw="r/val")
    assert evaluate(ask, SKILL, [scored(1), scored(2)], "hard", draw="r/val") == first
    assert len(ask.sent) == 2
    evaluate(ask, OTHER, [scored(1), scored(2)], "hard", draw="r/val")
    evaluate(ask, SKILL, [scored(1), scored(2)], "hard", draw="another run/val")
    assert len(ask.sent) == 6


def test_the_score_is_the_runs_metric_over_the_trials_that_have_one() -> None:
    ask = MemoryAsk(lambda call: "abcdefghij" if "prompt='task 1'" in str(call.request) else "abcde")
    hard, soft, mixed = (
        evaluate(ask, SKILL, [scored(1), scored(2)], metric, draw="r/val").score for metric in ("hard", "soft", "mixed")
    )
    assert (hard, soft, mixed) == (0.5, 0.75, 0.625)
    mostly_soft = evaluate(ask, SKILL, [scored(1), scored(2)], "mixed", draw="r/val", mixed_weight=0.8)
    assert mostly_soft.score == pytest.approx(0.7)
    assert evaluation({1: True, 2: None}).score == 1.0
    assert evaluation({1: True, 2: None}).mean.n_missing == 1
