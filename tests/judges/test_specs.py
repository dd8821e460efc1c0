"""Specs: what is refused before a task is stored, and how briefly."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.specs import check_spec, parse_judge
from skillopt_mcp.records.judging import (
    KINDS,
    SPECS,
    All,
    Choice,
    Exact,
    JudgeSpec,
    Numeric,
    Regex,
    parse_spec_json,
    spec_json,
)

KNOWN = f"use one of {', '.join(KINDS)}"


def nested(depth: int) -> dict[str, object]:
    """Return an `all` judge around an `all` judge, and so on."""
    judge: dict[str, object] = {"kind": "exact", "expected": "a"}
    for _ in range(depth):
        judge = {"kind": "all", "judges": [judge]}
    return judge


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, f'a judge is an object with a "kind", not "5"; {KNOWN}'),
        (None, f'there is no judge: give an object with a "kind"; {KNOWN}'),
        ({}, f'the judge has no "kind"; {KNOWN}'),
        ({"kind": "rubrik"}, f'unknown judge kind "rubrik"; {KNOWN}'),
        ({"kind": ["exact"]}, f"unknown judge kind a list; {KNOWN}"),
        ({"kind": "all", "judges": [{"kind": "foo"}]}, f'unknown judge kind "foo"; {KNOWN}'),
        ({"kind": "exact"}, 'judge field "exact.expected": field required'),
        ({"kind": "exact", "expected": 4}, 'judge field "exact.expected": input should be a valid string, not "4"'),
        (
            {"kind": "contains", "expected": ["a", 4]},
            'judge field "contains.expected.1": input should be a valid string, not "4"',
        ),
        ({"kind": "exact", "expected": "a", "fold": 1}, 'judge field "exact.fold" is not known; remove it'),
        (
            {"kind": "numeric", "expected": 1, "tolerance": -1},
            'judge field "numeric.tolerance": input should be greater than or equal to 0, not "-1"',
        ),
        (
            {"kind": "numeric", "expected": 10**100_000},
            'judge field "numeric.expected": input should be a valid number, not a huge integer',
        ),
        (nested(300), 'all judge: more than "20" judges or "5" levels; use fewer'),
    ],
)
def test_what_is_no_judge_is_refused_in_one_line(value: object, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_judge(value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "value",
    [
        {"kind": "exact", "expected": ""},
        {"kind": "exact", "expected": []},
        {"kind": "exact", "expected": ["a", " \n"]},
        {"kind": "exact", "expected": "\ud800"},
        {"kind": "exact", "expected": "x" * 20_001},
        {"kind": "contains", "expected": ""},
        {"kind": "contains", "expected": ["a"] * 101},
        {"kind": "regex", "pattern": ""},
        {"kind": "regex", "pattern": "("},
        {"kind": "regex", "pattern": "\ud800"},
        {"kind": "regex", "pattern": "x" * 2_001},
        {"kind": "regex", "pattern": r"\pL{1000}"},
        {"kind": "numeric", "expected": float("nan")},
        {"kind": "numeric", "expected": float("inf")},
        {"kind": "numeric", "expected": 1, "tolerance": float("inf")},
        {"kind": "numeric", "expected": 1, "relative": float("inf")},
        {"kind": "choice", "expected": "C", "options": ["A", "B"]},
        {"kind": "choice", "expected": "a", "options": ["a"]},
        {"kind": "choice", "expected": "a", "options": ["a", "A "]},
        {"kind": "choice", "expected": "a", "options": ["a", " "]},
        {"kind": "choice", "expected": "a", "options": ["a", "\ud800"]},
        {"kind": "choice", "expected": "0", "options": [str(n) for n in range(101)]},
        {"kind": "all", "judges": []},
        {"kind": "all", "judges": [{"kind": "exact", "expected": "a"}] * 20},
        {"kind": "all", "judges": [{"kind": "regex", "pattern": "("}]},
    ],
)
def test_a_judge_that_could_never_judge_is_refused(value: object) -> None:
    with pytest.raises(BadInput) as caught:
        parse_judge(value)
    message = str(caught.value)
    assert "\n" not in message
    assert "http" not in message
    assert len(message) < 300
    message.encode()


@pytest.mark.parametrize("pattern", ["a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", r"(a)\1", "(?>a)", "a*+", r"a\Z"])
def test_patterns_that_need_backtracking_are_refused_with_the_way_out(pattern: str) -> None:
    with pytest.raises(BadInput, match="use RE2 syntax: no look-around, no back-references"):
        parse_judge({"kind": "regex", "pattern": pattern})


def test_a_spec_made_in_code_is_checked_the_same_way() -> None:
    check_spec(All(kind="all", judges=[Numeric(kind="numeric", expected=1), Exact(kind="exact", expected="a")]))
    with pytest.raises(BadInput, match='expected "C" is not among the options "A", "B"'):
        check_spec(Choice(kind="choice", expected="C", options=["A", "B"]))
    with pytest.raises(BadInput, match="does not compile"):
        check_spec(All(kind="all", judges=[Regex(kind="regex", pattern="[")]))
    with pytest.raises(BadInput, match="at least one judge"):
        check_spec(All.model_construct(kind="all", judges=[]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


FIELDS = sorted(
    {field.alias or name for spec in SPECS.values() for name, field in spec.model_fields.items()} - {"kind"}
)


def spec_or_message(value: object) -> JudgeSpec | str:
    """Return the spec of a value, or what is said of a value that is none."""
    try:
        return parse_judge(value)
    except BadInput as error:
        return str(error)


@given(
    st.dictionaries(st.sampled_from(FIELDS), JSON),
    st.sampled_from([*KINDS, "other"]),
)
def test_any_value_is_a_spec_that_can_be_stored_or_bad_input(fields: dict[str, object], kind: str) -> None:
    spec = spec_or_message({"kind": kind, **fields})
    if isinstance(spec, str):
        assert "\n" not in spec
        assert len(spec) < 400
    else:
        assert parse_spec_json(spec_json(spec)) == spec


EXAMPLES: list[dict[str, object]] = [
    {"kind": "json", "schema": {"type": "object", "properties": {"a": {"type": "null"}}}, "fields": {"a": None}},
    {"kind": "table", "expected": [["a", "b"]], "any_order": True},
    {"kind": "tool_called", "name": "search", "arguments": {"q": [1, None]}, "min": 0, "max": 3},
    {"kind": "weighted", "judges": [{"judge": {"kind": "f1", "expected": ["a", "b"]}, "weight": 2.0}]},
    {"kind": "rubric", "rubric": "Be right.", "votes": 3},
    {"kind": "command", "name": "pytest-fast"},
]


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: str(value["kind"]))
def test_a_spec_is_stored_as_it_was_given(value: dict[str, object]) -> None:
    text = spec_json(parse_judge(value))
    assert json.loads(text) == value
    assert parse_spec_json(text) == parse_judge(value)


def test_every_kind_is_described_in_a_sentence_and_parsed_by_its_name() -> None:
    for kind, spec in SPECS.items():
        assert (spec.__doc__ or "").strip().endswith(".")
        assert spec.model_fields["kind"].annotation == Literal[kind]  # type: ignore[valid-type]


@pytest.mark.parametrize(
    "inner", [{"kind": "exact"}, {"kind": "nope"}, 5, {"kind": "all", "judges": [{"kind": "regex", "pattern": "("}]}]
)
def test_a_bad_part_of_a_weighted_judge_is_named(inner: object) -> None:
    with pytest.raises(BadInput):
        parse_judge({"kind": "weighted", "judges": [{"judge": inner}]})


def test_judges_nested_too_deep_are_refused_in_every_combination() -> None:
    value: dict[str, object] = {"kind": "exact", "expected": "a"}
    for _ in range(300):
        value = {"kind": "weighted", "judges": [{"judge": value}]}
    with pytest.raises(BadInput, match='more than "20" judges or "5" levels'):
        parse_judge(value)
