"""Rollout: what becomes of replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_ask import SKILL, MemoryAsk

from skillopt_mcp.judges.kinds.choice import Choice
from skillopt_mcp.judges.kinds.combined import All
from skillopt_mcp.judges.kinds.numeric import Numeric
from skillopt_mcp.judges.kinds.regex import Regex
from skillopt_mcp.judges.kinds.text import Contains, Exact
from skillopt_mcp.records.calls import Call, Message, Reply, Rollout
from skillopt_mcp.records.judging import Judge
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Attempt, rollout, trajectories

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


def attempts(*tasks: Task) -> list[Attempt]:
    """Return one attempt per task."""
    return [Attempt(SKILL, each, "r/1") for each in tasks]


def prompt(call: Call) -> str:
    """Return the prompt of a rollout call."""
    assert isinstance(call.request, Rollout)
    return call.request.task.prompt


def test_a_missing_reply_is_no_score() -> None:
    ask = MemoryAsk(lambda call: Reply("the line is dead", fault="timeout"))
    [trial] = rollout(ask, attempts(task(1)))
    assert (trial.hard, trial.soft, trial.missing) == (None, None, True)
    assert trial.reason == "missing (timeout): the line is dead"
    assert trajectories([trial]) == []


def test_trials_come_in_the_order_of_the_attempts() -> None:
    ask = MemoryAsk(lambda call: prompt(call).removeprefix("say ") if prompt(call) != "say 2" else "wrong")
    trials = rollout(ask, attempts(task(3), task(2), task(1)))
    assert [(trial.task.id, trial.hard) for trial in trials] == [(3, True), (2, False), (1, True)]
    assert len(ask.batches) == 1


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
