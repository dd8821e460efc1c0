"""Hostile answers: none takes a judge longer than its length allows, and none that it stumbles over goes unscored."""

from __future__ import annotations

import time

import pytest
from scripted_judge import attempted

from skillopt_mcp.core.calls import TOOL_CALL, Message
from skillopt_mcp.core.judging import Judge, Score
from skillopt_mcp.tasks.judges.judging import judge_all, parse_judge, score
from skillopt_mcp.tasks.judges.kinds.text import Exact

SCHEMA = {
    "anyOf": [
        {"type": "array", "items": {"anyOf": [{"const": 5}, {"type": "string", "pattern": "^[a-z]*b"}]}},
        {"type": "object", "properties": {"a": {"multipleOf": 0.5}}, "additionalProperties": False},
    ]
}
JUDGES: dict[str, dict[str, object]] = {
    "exact": {"expected": "x"},
    "contains": {"expected": ["x" * 100 + "y", "a" * 3_000 + "b"]},
    "regex": {"pattern": "^(?:a|x)*b"},
    "numeric": {"expected": 5},
    "choice": {"expected": "A", "options": ["A", "B", "not so"]},
    "f1": {"expected": "x y z", "exact": True},
    "anls": {"expected": "x" * 2_000},
    "json": {"schema": SCHEMA, "fields": {"a": 1.5}},
    "tool_called": {"name": "search", "arguments": {"a": 1.5}},
    "length": {"max": 5, "unit": "words"},
    "heading": {"expected": "x"},
}
# What is repeated, between a beginning and an end.
SHAPES = [
    ("", "```x\n", ""),
    ("", "```\n\n", "x"),
    ("", "`", ""),
    ("`" * 50, "\n```", ""),
    ("", "- ```\n", "x"),
    ("# a", " ", "b"),
    ("# a", " #", "b"),
    ("", "111,", "1111"),
    ("", "1.1e", ""),
    ("[", "1,", "1]"),
    ("", '{"a":', ""),
    ("", '{"', ""),
    ("", "{} ", ""),
    ('{"a":', "9", "}"),
    ("", "answer is ", ""),
    ("answer", "*", "x"),
    ("A", " ", "A"),
    ("a", "\u0301", ""),
]


def of(kind: str) -> Judge:
    return parse_judge({"kind": kind, **JUDGES[kind]})


def seconds(spec: Judge, answer: str) -> float:
    """Return how long the processor works to score an answer, which is all that an attempt did as well."""
    started = time.process_time()
    score(spec, answer, [Message(TOOL_CALL, answer, "search")])
    return time.process_time() - started


@pytest.mark.parametrize("kind", JUDGES)
@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_answer_takes_about_four_times_as_long(kind: str, shape: tuple[str, str, str]) -> None:
    first, again, last = shape
    short, long = (f"{first}{again * (n // len(again))}{last}" for n in (12_000, 48_000))
    spec = of(kind)
    # Libraries that are loaded when used are loaded now.
    seconds(spec, "{}")
    # A collection of garbage in between is none of its time.
    assert any(seconds(spec, long) < 0.25 + 10 * seconds(spec, short) for _ in range(3))


HUGE = ["1" + "0" * 400, "-1" + "0" * 400, "1e400", "9" * 4_000]


@pytest.mark.parametrize("number", HUGE)
def test_a_number_above_all_others_is_wrong_and_not_missing(number: str) -> None:
    answer = f'{{"a": {number}}}'
    messages = (Message(TOOL_CALL, answer, "search"),)
    step = {"schema": {"properties": {"a": {"type": "number", "multipleOf": 0.7}}}}
    called = JUDGES["tool_called"]
    for judge in ({"kind": "json", "fields": {"a": 1.5}}, {"kind": "json", **step}, {"kind": "tool_called", **called}):
        [found] = judge_all(pytest.fail, [attempted(answer, judge, messages=messages)])
        assert isinstance(found, Score), found
        assert not found.hard
        assert "stumbled" not in found.reason


def test_a_whole_number_above_all_others_is_the_multiple_that_it_is() -> None:
    halves = parse_judge({"kind": "json", "schema": {"properties": {"a": {"multipleOf": 0.5}}}})
    assert [passed(halves, f'{{"a": {number}}}') for number in HUGE] == [True, True, False, True]
    assert [passed(halves, f'{{"a": {number}}}') for number in ("2.5", "2.4", '"x"')] == [True, False, True]
    fields = parse_judge({"kind": "json", "fields": {"a": int(HUGE[0])}})
    assert [passed(fields, f'{{"a": {number}}}') for number in HUGE] == [True, False, False, False]


@pytest.mark.parametrize("error", [OverflowError("too large"), RecursionError("too deep")])
def test_an_answer_that_a_judge_stumbles_over_has_failed(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    [found] = judge_all(pytest.fail, [attempted("odd", stumbling(monkeypatch, error))])
    assert isinstance(found, Score)
    assert (found.hard, found.soft) == (False, 0.0)
    assert found.reason.startswith(f'the judge stumbled over "odd": {type(error).__name__}: "')


def stumbling(monkeypatch: pytest.MonkeyPatch, error: Exception) -> dict[str, object]:
    """Return a judge that raises an error."""

    def stumble(*_: object) -> Score:
        raise error

    monkeypatch.setattr(Exact, "score", stumble)
    return {"kind": "exact", **JUDGES["exact"]}


def passed(judge: Judge, answer: str) -> bool:
    found = score(judge, answer)
    return isinstance(found, Score) and found.hard
