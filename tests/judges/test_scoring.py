"""Scoring: what holds for every judge and every answer."""

from __future__ import annotations

import re

from hypothesis import assume, given
from hypothesis import strategies as st

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.scoring import score
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.records.judging import JudgeSpec, Score

ANSWERS = st.text(st.characters(), max_size=80) | st.from_regex(r"(Answer: |not |A |b\) |[-−$]?[0-9,.]{1,9}e?% ?){0,9}")
THRESHOLDS = {"f1", "anls", "weighted"}
WORDS = st.text(min_size=1, max_size=12)
PATTERNS = st.sampled_from(["a", "^x+$", r"\d+", "(a|b)*c", r"\bé", "."])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.one_of(
    st.builds(lambda e, c: {"kind": "exact", "expected": e, "case_sensitive": c}, WORDS, st.booleans()),
    st.builds(lambda e, a: {"kind": "contains", "expected": e, "any": a}, st.lists(WORDS, max_size=3), st.booleans()),
    st.builds(lambda p, f: {"kind": "regex", "pattern": p, "full": f}, PATTERNS, st.booleans()),
    st.builds(lambda e: {"kind": "numeric", "expected": e}, FLOATS),
    st.builds(
        lambda options: {"kind": "choice", "expected": options[0], "options": options},
        st.lists(WORDS | st.sampled_from("ABCabc12"), min_size=2, max_size=5),
    ),
    st.builds(lambda e: {"kind": "f1", "expected": e}, st.lists(WORDS, min_size=1, max_size=3)),
    st.builds(lambda e, t: {"kind": "anls", "expected": e, "threshold": t}, WORDS, st.floats(0.1, 1)),
    st.builds(lambda f: {"kind": "json", "fields": f}, st.dictionaries(WORDS, st.integers() | WORDS, min_size=1)),
    st.builds(
        lambda rows, a: {"kind": "table", "expected": rows, "any_order": a},
        st.lists(st.lists(WORDS, min_size=2, max_size=3), min_size=1, max_size=4),
        st.booleans(),
    ),
    st.builds(lambda n, m: {"kind": "length", "min": n, "max": m}, st.integers(0, 9), st.none() | st.integers(9, 20)),
    st.builds(lambda e: {"kind": "heading", "expected": e}, WORDS),
)
VALUES = (
    LEAVES
    | st.builds(lambda judges: {"kind": "all", "judges": judges}, st.lists(LEAVES, min_size=1, max_size=3))
    | st.builds(
        lambda judges, threshold: {
            "kind": "weighted",
            "judges": [{"judge": judge, "weight": n + 1} for n, judge in enumerate(judges)],
            "threshold": threshold,
        },
        st.lists(LEAVES, min_size=1, max_size=3),
        st.floats(0.1, 1),
    )
)


def spec_of(value: object) -> JudgeSpec:
    """Return the spec of a generated value; what cannot be one is no case for these tests."""
    try:
        return parse_judge(value)
    except BadInput:
        assume(False)
        raise


@given(VALUES, ANSWERS)
def test_every_answer_gets_a_score_within_bounds_and_a_reason_on_one_line(value: object, answer: str) -> None:
    given_score = score(spec_of(value), answer)
    assert isinstance(given_score, Score)
    assert 0.0 <= given_score.soft <= 1.0
    # Those with a threshold of their own pass below a full mark.
    assert given_score.hard or given_score.soft < 1.0
    if not THRESHOLDS & set(re.findall(r"'kind': '(\w+)'", str(value))):
        assert given_score.hard is (given_score.soft == 1.0)
    assert given_score.reason
    assert "\n" not in given_score.reason
    given_score.reason.encode()


@given(WORDS)
def test_an_expected_text_passes_its_own_judges(text: str) -> None:
    for kind in ("exact", "contains"):
        assert score(spec_of({"kind": kind, "expected": text.strip()}), f" {text}\n").hard
    assert score(spec_of({"kind": "choice", "expected": text, "options": [text, text + "!?x"]}), text).hard


@given(FLOATS)
def test_an_expected_number_passes_its_own_judge(number: float) -> None:
    assert score(spec_of({"kind": "numeric", "expected": number}), f"It is {number!r}.").hard


def test_all_passes_when_every_judge_passes_and_averages_soft() -> None:
    spec = parse_judge(
        {
            "kind": "all",
            "judges": [
                {"kind": "contains", "expected": ["alpha", "beta"]},
                {"kind": "numeric", "expected": 7},
                {"kind": "all", "judges": [{"kind": "regex", "pattern": "^a"}]},
            ],
        }
    )
    assert score(spec, "alpha beta 7") == Score(hard=True, soft=1.0, reason="all 3 judges passed")
    assert score(spec, "alpha 8") == Score(
        hard=False,
        soft=0.5,
        reason='lacks "beta" (1 of 2 found); last number 8, expected 7 within 1e-09',
    )
