"""JSON values: finding the one value, comparing fields, validating a subset of JSON Schema."""

from __future__ import annotations

import time

import pytest

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Score
from skillopt_mcp.tasks.judges.judging import parse_judge, score
from skillopt_mcp.tasks.judges.kinds.json_value import at, found_values

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[A-Z]"}, "ages": {"type": "array", "items": {"minimum": 0}}},
    "required": ["name"],
    "additionalProperties": False,
}


def judged(answer: str, **spec: object) -> Score:
    """Return the score of an answer under a json judge."""
    found = score(parse_judge({"kind": "json", **spec}), answer)
    assert isinstance(found, Score)
    return found


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        ('{"a": 1}', [{"a": 1}]),
        ("  [1, 2]\n", [[1, 2]]),
        ('"text"', ["text"]),
        ("null", [None]),
        ('Here you are:\n```json\n{"a": 1}\n```\nAs said in [1].', [{"a": 1}]),
        ('```\n{"a": 1}\n```\nor\n```\n{"a": 2}\n```', [{"a": 1}, {"a": 2}]),
        ('~~~~json\n{"a": 1}\n~~~~\nand {}', [{"a": 1}]),
        ('- As asked:\n  ```json\n  {"a": 1}\n  ```\n- not {}', [{"a": 1}]),
        ('````md\n```json\n{"a": 1}\n```\n````', [{"a": 1}]),
        ('```json\n{"a": 1}', [{"a": 1}]),
        ("- ```\n  7\nout of the list", []),
        ('1. The result\n   ```json\n{"a": 1}\n```\n', [{"a": 1}]),
        ('- ```json\n{"a": 1}\n```\n', [{"a": 1}]),
        ('> ```\n\n{"a": 1}', [{"a": 1}]),
        ('The result is {"a": {"b": [1]}}, see [2].', [{"a": {"b": [1]}}]),
        ('{"a": 1} and {"a": 2}', [{"a": 1}, {"a": 2}]),
        ("numbers [1, 2] only", [[1, 2]]),
        ('{"a": NaN}', []),
        ('{"a": 1', []),
        ("no value", []),
        ("", []),
        ("[" * 1_500, []),
        ("{" * 1_500 + "}" * 1_500, []),
        ("x" * 200_000 + '{"a": 1}', []),
        ("9" * 5_000, []),
    ],
)
def test_the_json_values_of_an_answer_are_found(answer: str, values: list[object]) -> None:
    assert found_values(answer) == values


def test_a_pile_of_broken_json_is_read_in_a_moment() -> None:
    started = time.process_time()
    for answer in (('{"a":' * 300 + "]") * 66, '{"a": "' * 14_000, ('[{"x": [' * 100 + "}") * 120, "{]" * 50_000):
        found_values(answer)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("path", "value"),
    [("a.b.0", 5), ("/a/b/0", 5), ("", {"a": {"b": [5]}, "x.y": 1}), ("/x.y", 1), ("a.b", [5])],
)
def test_a_path_names_what_stands_there(path: str, value: object) -> None:
    assert at({"a": {"b": [5]}, "x.y": 1}, path) == value


def test_fields_are_compared_each_and_soft_is_their_share() -> None:
    spec = {"fields": {"total": 12.5, "items.0.id": "x", "ok": True, "left": None}}
    assert judged('{"total": 12.5, "items": [{"id": "x"}], "ok": true, "left": null}', **spec).hard
    some = judged('{"total": 12, "items": [{"id": "x"}], "ok": 1, "left": null}', **spec)
    assert (some.hard, some.soft) == (False, 0.5)
    assert some.reason == 'total: "12", expected "12.5"; ok: "1", expected "true"'


def test_a_schema_counts_as_one_condition() -> None:
    assert judged('{"name": "Ann", "ages": [1]}', schema=SCHEMA).hard
    for wrong in ('{"name": "ann"}', '{"ages": []}', '{"name": "Ann", "ages": [-1]}', '{"name": "Ann", "x": 1}', "5"):
        given_score = judged(wrong, schema=SCHEMA)
        assert (given_score.hard, given_score.soft) == (False, 0.0)
    assert judged('{"name": "Ann", "ages": [1, -2]}', schema=SCHEMA).reason == (
        'the schema is violated: ages.1: "-2 is less than the minimum of 0"'
    )
    assert judged("5", schema=SCHEMA).reason.startswith('the schema is violated: the value: "5 is not')
    half = judged('{"name": "ann"}', schema=SCHEMA, fields={"name": "ann"})
    assert (half.hard, half.soft) == (False, 0.5)


def test_a_pattern_in_a_schema_is_matched_by_re2() -> None:
    # RE2 takes time in proportion to the text; Python's re, where a digit is any script's, can be kept busy for ever.
    for name, is_hard in (("3", True), ("٣", False)):
        assert judged(f'{{"name": "{name}"}}', schema={"properties": {"name": {"pattern": r"^\d$"}}}).hard is is_hard


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"schema": {"$ref": "https://example.com/schema.json"}},
        {"schema": {"properties": {"a": {"$ref": "#"}}}},
        {"schema": {"allOf": [{"unevaluatedProperties": False}]}},
        {"schema": {"properties": {"a": {"pattern": "(?=a)"}}}},
        {"schema": {"type": "thing"}},
        {"schema": {"minimum": "1"}},
        {"fields": {"a": float("nan")}},
        {"fields": {"a": "\ud800"}},
        {"fields": {"a": "x" * 20_001}},
        {"fields": {f"f{n}": n for n in range(101)}},
        {"fields": {"a": 1}, "tolerance": float("inf")},
    ],
)
def test_what_cannot_judge_json_is_refused(spec: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        parse_judge({"kind": "json", **spec})
