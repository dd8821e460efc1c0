"""Kinds: what each kind of judge makes of an answer, and what is refused."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skillopt_mcp.core.calls import EVALUATION, TOOL_CALL, Message
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import KINDS, Judge, Score, judge_json, judge_of
from skillopt_mcp.tasks.judges.judging import parse_judge, score
from skillopt_mcp.tasks.judges.kinds.reported import environment_evaluation, host_evaluation

LONG = "x " * 1_000_000
REPORT = "# Report\n\n## Summary ##\n\ntext\n\n```\n## Costs\n```\n"


def of(kind: str, *fields: object) -> dict[str, object]:
    """Return a judge with an expectation: `expected`, or what the kind needs instead."""
    name = {"regex": "pattern", "length": "unit", "json": "fields"}.get(kind, "expected")
    return {"kind": kind, name: fields[0], **(fields[1] if len(fields) > 1 else {})}  # type: ignore[dict-item]


SCORES: list[tuple[dict[str, object], str, float, bool | None]] = [  # judge, answer, soft, hard (None: soft is 1)
    (of("exact", "Paris"), "  paris\n", 1, None),
    (of("exact", "Paris"), "Paris.", 0, None),
    (of("exact", "Straße"), "STRASSE", 1, None),
    (of("exact", "café"), "CAFE\u0301", 1, None),
    (of("exact", ["yes", "true"]), "True", 1, None),
    (of("exact", ["yes", "true"]), "no", 0, None),
    (of("exact", " padded "), "padded", 1, None),
    (of("exact", "Paris", {"case_sensitive": True}), "paris", 0, None),
    (of("exact", "Café", {"case_sensitive": True}), "Cafe\u0301", 1, None),
    (of("exact", "y" * 20_000), "y" * 200_000, 0, None),
    (of("contains", ["Alpha", "beta"]), "alpha BETA", 1, None),
    (of("contains", ["alpha", "beta"]), "alpha", 0.5, None),
    (of("contains", "alpha", {"case_sensitive": True}), "ALPHA", 0, None),
    (of("contains", ["alpha", "beta"], {"any": True}), "beta", 1, None),
    (of("contains", ["alpha", "beta"], {"any": True}), "gamma", 0, None),
    (of("contains", "done"), LONG + "done", 1, None),
    (of("contains", "done"), "done" + LONG, 0, None),
    (of("contains", "ok"), "e" + "\u0301\u0316" * 500_000 + "ok", 1, None),
    (of("regex", r"\d{4}-\d\d"), "on 2024-05 then", 1, None),
    (of("regex", r"\d{4}-\d\d", {"full": True}), "on 2024-05 then", 0, None),
    (of("regex", r"\d{4}-\d\d", {"full": True}), " 2024-05\n", 1, None),
    (of("regex", r"(?i)DONE$"), "all done\n", 1, None),
    (of("regex", r"^é.$"), "é漢", 1, None),
    (of("regex", "x"), "\ud800", 0, None),
    (of("regex", "^x+y"), "x" * 2_000_000, 0, None),
    (of("regex", "done$"), LONG + "done", 1, None),
    (of("regex", "^done"), "done" + LONG, 0, None),
    (of("regex", "(?s).+", {"full": True}), LONG, 0, None),
    (of("numeric", 42), "42.0", 1, None),
    (of("numeric", 42), "42.001", 0, None),
    (of("numeric", 42), "none", 0, None),
    (of("numeric", 42, {"tolerance": 0.01}), "42.001", 1, None),
    (of("numeric", 200, {"relative": 0.05}), "about 190", 1, None),
    (of("numeric", 200, {"relative": 0.05}), "about 189", 0, None),
    (of("numeric", -200, {"relative": 0.05}), "-209", 1, None),
    (of("numeric", 1), "1e999", 0, None),
    (of("choice", "Paris", {"options": ["London", "Paris"]}), "Paris", 1, None),
    (of("choice", "Paris", {"options": ["London", "Paris"]}), "London, Paris", 0, None),
    (of("f1", "the Eiffel Tower"), "Eiffel tower!", 1, None),
    (of("f1", "Denver Broncos"), "the Broncos", 2 / 3, False),
    (of("f1", "cat cat dog", {"threshold": 0.6}), "cat dog dog", 2 / 3, True),
    (of("f1", "red green blue"), "red green", 0.8, True),
    (of("f1", "red green blue", {"threshold": 0.81}), "red green", 0.8, False),
    (of("f1", ["Paris", "Paris, France"]), "Paris France", 1, None),
    (of("f1", "the"), "a", 1, None),
    (of("f1", "New York City", {"exact": True}), "the new york city!", 1, None),
    (of("f1", "New York City", {"exact": True}), "york new city", 1, False),
    (of("anls", "hello"), "hallo", 0.8, True),
    (of("anls", "abcd"), "abxx", 0.5, False),
    (of("anls", "abcd"), "axxx", 0, None),
    (of("anls", ["dog", "hello"]), "hell", 0.8, True),
    (of("length", "words", {"max": 3}), " one two\nthree ", 1, None),
    (of("length", "words", {"max": 1}), "a b c d", 0.25, None),
    (of("length", "words", {"min": 4}), "a b", 0.5, None),
    (of("length", "characters", {"max": 3}), " añb ", 1, None),
    (of("length", "lines", {"max": 2}), "a\n\nb\n", 2 / 3, None),
    (of("length", "lines", {"max": 0}), "", 1, None),
    (of("heading", ["summary", "Report"]), REPORT, 1, None),
    (of("heading", "Summary", {"level": 1}), REPORT, 0, None),
    (of("heading", ["Summary", "Costs"]), REPORT, 0.5, None),
    (of("heading", "Summary"), "Summary", 0, None),
    (of("heading", "Costs"), "- ~~~\n  # Costs\n", 0, None),
    (of("heading", ["C#"]), "# C#", 1, None),
    (of("heading", ["a", "b"]), "# a \t##  \n## b ##\r", 1, None),
]


@pytest.mark.parametrize(("judge", "answer", "soft", "hard"), SCORES, ids=range(len(SCORES)))
def test_an_answer_has_the_score_of_its_judge(
    judge: dict[str, object], answer: str, soft: float, hard: bool | None
) -> None:
    found = score(parse_judge(judge), answer)
    assert isinstance(found, Score)
    assert (found.hard, found.soft) == (soft == 1 if hard is None else hard, pytest.approx(soft))


SEARCH = Message(TOOL_CALL, '{"query": "cats", "limit": 5}', "search")
PROSE = Message("assistant", '[tool_call search]\n{"query": "cats"}', "search")
MAZE = environment_evaluation("maze", Score(False, 0.25, "the exit was at B2"))


def evaluation(text: str, name: str | None = "maze") -> Message:
    return Message(EVALUATION, text, name)


@pytest.mark.parametrize(
    ("judge", "messages", "soft"),
    [
        ({}, [Message("user", "hi"), SEARCH], 1),
        ({}, [PROSE, Message("tool", "{}", "search")], 0),
        ({}, [], None),
        ({"arguments": {"query": "cats", "limit": 5}}, [SEARCH], 1),
        ({"arguments": {"limit": "5"}}, [SEARCH], 0),
        ({"arguments": {"depth": None}}, [SEARCH], 0),
        ({"arguments": {"a": 1}}, [Message(TOOL_CALL, "[" * 1_500, "search")], 0),
        ({"min": 2, "max": 2}, [SEARCH] * 2, 1),
        ({"min": 4}, [SEARCH], 0.25),
        ({"max": 2}, [SEARCH] * 3, 0),
        ({"min": 0, "max": 0}, [PROSE], 1),
        ({"kind": "environment", "name": "maze"}, [PROSE, MAZE], 0.25),
        ({"kind": "environment", "name": "maze"}, [], None),
        ({"kind": "environment", "name": "maze"}, [MAZE, MAZE], None),
        ({"kind": "environment", "name": "maze"}, [Message("assistant", MAZE.content, "maze")], None),
        ({"kind": "environment", "name": "maze"}, [evaluation(MAZE.content, "other")], None),
        ({"kind": "environment", "name": "maze"}, [evaluation('{"hard": 1, "soft": 1}')], None),
        ({"kind": "environment", "name": "maze"}, [evaluation('{"hard": true, "soft": 1.5}')], None),
        ({"kind": "environment", "name": "maze"}, [evaluation("[" * 1_500)], None),
        ({"kind": "host", "criteria": "Be kind."}, [host_evaluation(0.75)], 0.75),
        ({"kind": "host", "criteria": "Be kind."}, [host_evaluation(1), host_evaluation(1)], None),
        ({"kind": "host", "criteria": "Be kind."}, [evaluation("nan", "host")], None),
        ({"kind": "host", "criteria": "Be kind."}, [], None),
    ],
)
def test_only_what_was_recorded_counts(judge: dict[str, object], messages: list[Message], soft: float | None) -> None:
    found = score(parse_judge({"kind": "tool_called", "name": "search"} | judge if not judge.get("kind") else judge),
                  "I called search. " + MAZE.content, messages)  # fmt: skip
    assert (found.soft if isinstance(found, Score) else None) == soft


LENGTH, HEADING, EXACT = {"kind": "length", "max": 9}, of("heading", "Summary"), of("exact", "x")


def both(first: object, second: object, **fields: object) -> dict[str, object]:
    return {"kind": "weighted", "judges": [{"judge": first, **fields}, {"judge": second}]}


@pytest.mark.parametrize(
    ("judge", "alone"),
    [
        (EXACT, False),
        ({"kind": "all", "judges": [LENGTH, {"kind": "all", "judges": [HEADING]}]}, True),
        ({"kind": "all", "judges": [LENGTH, EXACT]}, False),
        (both(LENGTH, HEADING), True),
        (both(LENGTH, EXACT), False),
        (both(LENGTH, EXACT, weight=9), True),
        (both(LENGTH, EXACT) | {"threshold": 0.5}, True),
    ],
)
def test_a_judge_that_form_alone_can_pass_is_of_form_only(judge: object, alone: bool) -> None:
    assert parse_judge(judge).is_form_only() is alone


@pytest.mark.parametrize(
    "judge",
    [
        of("contains", "docs(billing): "), of("contains", ["b", "a: "]), of("contains", [" a", "b\n"]),
        of("exact", " padded "), of("numeric", 0.1), of("choice", "b", {"options": ["a", "b"]}), of("f1", ["x y", "z"]),
        of("heading", ["A", "B"], {"level": 3}),
        of("json", {"items.1.id": "x", "n": None}), {"kind": "all", "judges": [of("contains", "a"), HEADING]},
    ],
)  # fmt: skip
def test_the_reference_of_a_judge_passes_it(judge: object) -> None:
    parsed = parse_judge(judge)
    found = [score(parsed, answer) for answer in parsed.references()]
    assert any(isinstance(each, Score) and each.hard for each in found)


REFUSED: list[object] = [
    5, None, {}, {"kind": "rubrik"}, {"kind": ["exact"]}, {"kind": "exact"}, of("exact", 4), of("contains", ["a", 4]),
    of("exact", ""), of("exact", []), of("exact", ["a", " \n"]), of("exact", "\ud800"), of("exact", "x" * 20_001),
    of("contains", ["a"] * 101), of("exact", "a", {"fold": 1}), of("anls", "x" * 2_001),
    of("regex", ""), of("regex", "("), of("regex", "\ud800"), of("regex", "x" * 2_001), of("regex", r"\pL{1000}"),
    *(of("regex", pattern) for pattern in ("a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", r"(a)\1", "(?>a)", "a*+", r"a\Z")),
    of("numeric", float("nan")), of("numeric", 10**100_000), of("numeric", 1, {"tolerance": float("inf")}),
    of("numeric", 1, {"tolerance": -1}), of("numeric", 1, {"relative": float("inf")}),
    of("choice", "C", {"options": ["A", "B"]}), of("choice", "a", {"options": ["a"]}),
    of("choice", "a", {"options": ["a", "A "]}), of("choice", "a", {"options": ["a", " "]}),
    of("choice", "0", {"options": [str(n) for n in range(101)]}),
    {"kind": "length"}, {"kind": "length", "min": 5, "max": 4}, {"kind": "length", "max": 1, "unit": "pages"},
    of("heading", "# Title"), of("heading", "a\nb"), of("heading", []),
    {"kind": "tool_called", "name": " "}, {"kind": "tool_called", "name": "a", "min": 3, "max": 2},
    {"kind": "tool_called", "name": "a", "min": 0}, {"kind": "environment", "name": "\ud800"},
    {"kind": "host", "criteria": " "}, {"kind": "rubric", "rubric": " "}, {"kind": "rubric", "rubric": "x" * 20_001},
    {"kind": "rubric", "rubric": "x", "votes": 10}, {"kind": "command", "name": "rm -rf /"},
    {"kind": "command", "name": "x", "argv": ["sh"]},
    {"kind": "all", "judges": []}, {"kind": "all", "judges": [EXACT] * 100}, {"kind": "all", "judges": [{"kind": "x"}]},
    {"kind": "all", "judges": [of("regex", "(")]}, {"kind": "weighted", "judges": []}, both(EXACT, EXACT, weight=0),
    both(EXACT, EXACT, weight=float("inf")), both(EXACT, EXACT) | {"threshold": 0}, both(EXACT, of("exact", "")),
    {"kind": "weighted", "judges": [EXACT]}, both(EXACT, 5),
]  # fmt: skip


@pytest.mark.parametrize("value", REFUSED, ids=range(len(REFUSED)))
def test_what_could_never_judge_is_refused_in_one_short_line(value: object) -> None:
    with pytest.raises(BadInput) as caught:
        parse_judge(value)
    message = str(caught.value)
    assert "\n" not in message
    assert "http" not in message
    assert len(message.encode()) < 320


def test_a_refusal_names_the_field_and_what_there_is() -> None:
    for value, parts in (
        (of("exact", "a", {"fold": 1}), ['"exact" has no field "fold"', "expected, case_sensitive"]),
        ({"kind": "rubrik"}, ['"rubrik"', "rubric"]),
        (of("contains", ["a", 4]), ["contains judge", "expected.1", '"4"']),
        (of("regex", "(?=a)"), ["RE2", "no look-around"]),
    ):
        with pytest.raises(BadInput) as caught:
            parse_judge(value)
        assert all(part in str(caught.value) for part in parts), caught.value


@pytest.mark.parametrize("around", [lambda judge: [judge], lambda judge: [{"judge": judge}]], ids=["all", "weighted"])
def test_judges_nested_too_deep_are_refused(around: object) -> None:
    value: dict[str, object] = EXACT
    for _ in range(300):
        inner = around(value)  # type: ignore[operator]
        value = {"kind": "weighted" if "judge" in inner[0] else "all", "judges": inner}
    with pytest.raises(BadInput, match="5 levels"):
        parse_judge(value)


WORDS = st.text(min_size=1, max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.one_of(
    st.builds(of, st.sampled_from(["exact", "contains", "f1", "anls", "heading"]), WORDS | st.lists(WORDS, max_size=3)),
    st.builds(of, st.just("regex"), st.sampled_from(["a", "^x+$", r"\d+", "(a|b)*c", r"\bé", "."])),
    st.builds(of, st.just("numeric"), FLOATS),
    st.builds(
        lambda options: of("choice", options[0], {"options": options}),
        st.lists(WORDS | st.sampled_from("ABCabc12"), min_size=2, max_size=5),
    ),
    st.builds(of, st.just("json"), st.dictionaries(WORDS, st.integers() | WORDS, min_size=1)),
    st.builds(lambda n, m: {"kind": "length", "min": n, "max": m}, st.integers(0, 9), st.none() | st.integers(9, 20)),
)
JUDGES = st.one_of(
    LEAVES,
    st.builds(lambda judges: {"kind": "all", "judges": judges}, st.lists(LEAVES, min_size=1, max_size=3)),
    st.builds(lambda a, b, t: both(a, b, weight=2.5) | {"threshold": t}, LEAVES, LEAVES, st.floats(0.1, 1)),
)
ANSWERS = st.text(st.characters(), max_size=80) | st.from_regex(r"(Answer: |not |A |b\) |[-−$]?[0-9,.]{1,9}e?% ?){0,9}")


def judge_or_none(value: object) -> Judge | None:
    try:
        return parse_judge(value)
    except BadInput:
        return None


@given(JUDGES, ANSWERS)
def test_every_answer_gets_a_score_within_bounds_and_every_judge_is_stored_as_it_is(value: object, answer: str) -> None:
    judge = judge_or_none(value)
    assume(judge)
    assert judge
    found = score(judge, answer)
    assert isinstance(found, Score)
    assert 0.0 <= found.soft <= 1.0
    # Those with a threshold of their own pass below a full mark.
    assert found.hard or found.soft < 1.0
    if not re.search("f1|anls|weighted", judge_json(judge)):
        assert found.hard is (found.soft == 1.0)
    assert "\n" not in found.reason
    found.reason.encode()
    assert judge_of(json.loads(judge_json(judge))) == judge


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({field.alias or name for cls in KINDS.values() for name, field in cls.model_fields.items()})


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.sampled_from([*KINDS, "other"]))
def test_any_value_is_a_judge_that_can_be_stored_or_refused(fields: dict[str, object], kind: str) -> None:
    judge = judge_or_none({"kind": kind, **fields})
    assert judge is None or judge_of(json.loads(judge_json(judge))) == judge


# The name of a task depends on these bytes: kind first, then the fields in their order, without defaults.
STORED = """\
{"kind":"json","schema":{"type":"object","properties":{"a":{"type":"null"}}},"fields":{"a":null}}
{"kind":"numeric","expected":1e+22,"tolerance":1e-7}
{"kind":"contains","expected":["a","b"],"any":true}
{"kind":"tool_called","name":"search","arguments":{"q":[1,null]},"min":0,"max":3}
{"kind":"weighted","judges":[{"judge":{"kind":"f1","expected":["é","b"]},"weight":2.0},{"judge":{"kind":"exact","expected":"a"}}]}
{"kind":"rubric","rubric":"Be right.","votes":3}
{"kind":"command","name":"pytest-fast"}""".splitlines()


@pytest.mark.parametrize("text", STORED)
def test_a_judge_is_stored_byte_for_byte(text: str) -> None:
    assert judge_json(judge_of(json.loads(text))) == judge_json(parse_judge(json.loads(text))) == text
