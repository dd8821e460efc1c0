"""Select: which edits stay when there are too many, and how many the optimizer asks for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_ask import BRIEF, SKILL, MemoryAsk, adds, question, silent

from skillopt_mcp.core.calls import Reply
from skillopt_mcp.core.edits import Patch
from skillopt_mcp.core.evidence import Mean
from skillopt_mcp.training.stages.select import EditBudget, Selection, autonomous_budget, select

POOL = Patch(
    (
        adds("success of three", "1", "2", "3", from_failure=False),
        adds("failure of one", "1"),
        adds("failure of two", "1", "2"),
        adds("success of none", from_failure=False),
        adds("another failure of two", "3", "4"),
    ),
    "why",
)


def selected(reply: str | Reply, budget: int, pool: Patch = POOL) -> tuple[list[int], Selection]:
    """Return the numbers (1-based) of the edits that stay, and the selection."""
    selection = select(MemoryAsk(lambda call: reply), SKILL, pool, replace(BRIEF, budget=budget))
    return [pool.edits.index(edit) + 1 for edit in selection.patch.edits], selection


def ranking(*numbers: object) -> str:
    """Return a reply with this ranking."""
    return json.dumps({"reasoning": "so", "ranking": numbers})


def test_the_ranking_decides_and_what_is_left_out_is_kept_best_first() -> None:
    numbers, selection = selected(ranking(4, 1, 2, 3, 5), 2)
    assert numbers == [4, 1]
    assert [POOL.edits.index(edit) + 1 for edit in selection.left_out] == [2, 3, 5]


def test_an_underfilled_ranking_is_filled_up_by_failures_first_and_then_support() -> None:
    assert selected(ranking(4), 4)[0] == [4, 3, 5, 2]
    assert selected(ranking(), 5 - 1)[0] == [3, 5, 2, 1]


def test_doubles_and_numbers_out_of_range_are_passed_over() -> None:
    assert selected(ranking(0, -1, 6, 10**30, 2, 2, 2), 3)[0] == [2, 3, 5]


@pytest.mark.parametrize("reply", ["no", ranking("first"), ranking(None), Reply("", fault="server"), "[1, 2]"])
def test_without_a_usable_ranking_failures_and_support_decide_and_a_note_says_so(reply: str | Reply) -> None:
    numbers, selection = selected(reply, 2)
    assert numbers == [3, 5]
    assert len(selection.unusable) == 1
    assert selection.unusable[0].startswith("rank: ")


def test_the_question_names_the_budget() -> None:
    ask = MemoryAsk(lambda call: ranking(1, 2, 3))
    select(ask, SKILL, POOL, replace(BRIEF, budget=3))
    assert "Only 3 of them can be made now." in question(ask.sent[0]).instructions
    assert (ask.sent[0].stage, ask.sent[0].draw) == ("rank", "r/e1s1")


@given(st.lists(st.integers(-3, 9), max_size=10), st.integers(0, 7))
def test_exactly_as_many_edits_stay_as_the_budget_and_the_pool_allow(numbers: list[int], budget: int) -> None:
    kept, _ = selected(ranking(*numbers), budget)
    assert len(kept) == len(set(kept)) == min(budget, len(POOL.edits))


TRAIN = Mean(0.25, 0.5, 40)
RULES = Patch(tuple(adds(f"rule {n}", f"trial:{n}") for n in range(3)))


def test_nothing_is_asked_when_there_is_nothing_to_decide() -> None:
    assert autonomous_budget(MemoryAsk(silent), SKILL, Patch(()), BRIEF, TRAIN, fallback=2) == EditBudget(0)


@given(said=st.integers(-9, 99), n_edits=st.integers(1, 6))
def test_the_number_stays_between_nothing_and_what_pool_and_budget_allow(said: int, n_edits: int) -> None:
    pool = Patch(tuple(adds(f"rule {n}") for n in range(n_edits)))
    decided = autonomous_budget(MemoryAsk(lambda call: json.dumps({"n": said})), SKILL, pool, BRIEF, TRAIN, fallback=2)
    assert decided == EditBudget(max(0, min(said, n_edits, BRIEF.budget)))


@pytest.mark.parametrize("reply", ["four", '{"n": "many"}', '{"n": 1.5}', Reply("", fault="server")])
def test_without_a_usable_number_the_fallback_serves_with_a_note(reply: str | Reply) -> None:
    decided = autonomous_budget(MemoryAsk(lambda call: reply), SKILL, RULES, BRIEF, TRAIN, fallback=2)
    assert decided.n == 2
    assert decided.unusable[0].startswith("budget: ")


def test_one_call_shows_the_edits_and_how_the_attempts_went() -> None:
    ask = MemoryAsk(lambda call: '{"n": 1}')
    autonomous_budget(ask, SKILL, RULES, BRIEF, TRAIN, fallback=2)
    [call] = ask.sent
    assert (call.stage, question(call).schema) == ("budget", "budget")
    assert "mean hard 0.250, mean soft 0.500, over 40" in question(call).evidence
    assert "rule 2" in question(call).evidence
