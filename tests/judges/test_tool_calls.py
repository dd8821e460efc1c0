"""Tool calls: only what was recorded counts."""

from __future__ import annotations

import json

import pytest

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import quoted
from skillopt_mcp.judges.scoring import score
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.records.calls import TOOL_CALL, Message
from skillopt_mcp.records.judging import Score, Unscored

SEARCH = Message(TOOL_CALL, '{"query": "cats", "limit": 5}', "search")
READ = Message(TOOL_CALL, '{"path": "a.txt"}', "read")
RESULT = Message("tool", '{"query": "dogs"}', "search")


def judged(messages: list[Message], answer: str = "", **spec: object) -> Score:
    """Return the score of an attempt with these messages."""
    found = score(parse_judge({"kind": "tool_called", "name": "search", **spec}), answer, messages)
    assert isinstance(found, Score)
    return found


def test_a_recorded_call_of_the_tool_passes() -> None:
    assert judged([Message("user", "hi"), READ, SEARCH]).hard
    missed = judged([Message("user", "hi"), READ])
    assert missed == Score(hard=False, soft=0.0, reason='"search" called 0 times as wanted, 0 in all; 1 wanted')


def test_prose_and_results_are_no_calls() -> None:
    told = Message("assistant", '[tool_call search]\n{"query": "cats"}\nI called search.', "search")
    assert not judged([told, RESULT], answer='tool_call: search {"query": "cats"}').hard


def test_an_attempt_without_a_record_has_no_score() -> None:
    found = score(parse_judge({"kind": "tool_called", "name": "search"}), "I called search.")
    assert found == Unscored("no message of the attempt was recorded, so nobody knows which tools it called")


@pytest.mark.parametrize(
    ("arguments", "passes"),
    [
        ({"query": "cats"}, True),
        ({"query": "cats", "limit": 5}, True),
        ({"query": "dogs"}, False),
        ({"limit": "5"}, False),
        ({"depth": None}, False),
    ],
)
def test_the_arguments_that_are_wanted_must_be_among_those_given(arguments: dict[str, object], passes: bool) -> None:
    found = judged([SEARCH, READ], arguments=arguments)
    assert found.hard is passes
    told = f"0 times as wanted, 1 in all; 1 wanted with {quoted(json.dumps(arguments))}"
    assert found.reason == ('"search" called 1 times as wanted, 1 in all' if passes else f'"search" called {told}')


def test_arguments_that_are_no_object_match_nothing() -> None:
    for content in ("", "not json", "[]", "[" * 100_000):
        assert not judged([Message(TOOL_CALL, content, "search")], arguments={"query": "cats"}).hard


def test_calls_are_counted_between_min_and_max() -> None:
    assert judged([SEARCH] * 2, min=2, max=2).hard
    few = judged([SEARCH], min=4)
    assert (few.hard, few.soft) == (False, 0.25)
    many = judged([SEARCH] * 3, max=2)
    assert many == Score(hard=False, soft=0.0, reason='"search" called 3 times as wanted, 3 in all; at most 2 allowed')
    assert judged([READ], min=0, max=0).hard
    assert not judged([SEARCH], min=0, max=0).hard


@pytest.mark.parametrize(
    "spec", [{"name": " "}, {"name": "x" * 201}, {"min": 3, "max": 2}, {"min": 0}, {"arguments": {"a": float("nan")}}]
)
def test_a_judge_that_asks_for_nothing_possible_is_refused(spec: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        parse_judge({"kind": "tool_called", "name": "search", **spec})
