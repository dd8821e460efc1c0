"""Budget: the optimizer says how many edits a step makes, within what is possible."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_ask import BRIEF, SKILL, MemoryAsk, adds, question, silent

from skillopt_mcp.records.calls import Reply
from skillopt_mcp.records.edits import Patch
from skillopt_mcp.records.evidence import Mean
from skillopt_mcp.stages.select import Budget, autonomous_budget

TRAIN = Mean(0.25, 0.5, 40)
POOL = Patch(tuple(adds(f"rule {n}", f"trial:{n}") for n in range(3)))


def test_nothing_is_asked_when_there_is_nothing_to_decide() -> None:
    assert autonomous_budget(MemoryAsk(silent), SKILL, Patch(()), BRIEF, TRAIN, fallback=2) == Budget(0)


@given(said=st.integers(-9, 99), n_edits=st.integers(1, 6))
def test_the_number_stays_between_nothing_and_what_pool_and_budget_allow(said: int, n_edits: int) -> None:
    pool = Patch(tuple(adds(f"rule {n}") for n in range(n_edits)))
    decided = autonomous_budget(MemoryAsk(lambda call: json.dumps({"n": said})), SKILL, pool, BRIEF, TRAIN, fallback=2)
    assert decided == Budget(max(0, min(said, n_edits, BRIEF.budget)))


@pytest.mark.parametrize("reply", ["four", '{"n": "many"}', '{"n": 1.5}', Reply("", fault="server")])
def test_without_a_usable_number_the_fallback_serves_and_it_is_said(reply: str | Reply) -> None:
    decided = autonomous_budget(MemoryAsk(lambda call: reply), SKILL, POOL, BRIEF, TRAIN, fallback=2)
    assert decided.n == 2
    assert decided.unusable[0].startswith("budget: ")


def test_one_call_shows_the_edits_and_how_the_attempts_went() -> None:
    ask = MemoryAsk(lambda call: '{"n": 1}')
    autonomous_budget(ask, SKILL, POOL, BRIEF, TRAIN, fallback=2)
    [call] = ask.sent
    assert (call.stage, question(call).schema) == ("budget", "budget")
    assert "mean hard 0.250, mean soft 0.500, over 40" in question(call).evidence
    assert "rule 2" in question(call).evidence
