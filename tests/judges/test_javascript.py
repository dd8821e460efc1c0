"""JavaScript's patterns: what is taken over means what Node says of it, and what is not is named."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from javascript_patterns import NODE, Node, flags, patterns, texts

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.tasks.judges.javascript import BadPattern, NoEqualPattern, compile_javascript

ROWS = json.loads((Path(__file__).parent / "javascript_patterns.json").read_text())


def compare(pattern: str, flags: str, text: str, said: tuple[bool, int] | None) -> None:
    """Fail where a pattern that is taken over says something else than JavaScript."""
    try:
        found = compile_javascript(pattern, flags)
    except BadPattern:
        assert said is None
        return
    except NoEqualPattern:
        return
    assert said is not None
    try:
        assert found.search(text) == said[0]
    except BadInput:
        return
    # Node steps into the middle of a pair when it looks on after a match of nothing.
    if found.is_countable and not ("u" in flags and max(text, default="") > "\uffff"):
        assert found.count(text, 1_000) == said[1]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"/{row[0]}/{row[1]}".encode("unicode_escape").decode()[:40])
def test_stored_verdicts_of_node_hold(row: tuple[str, str, str, list[int] | None]) -> None:
    pattern, flags, text, said = row
    compare(pattern, flags, text, said and (bool(said[0]), said[1]))


@pytest.mark.skipif(not NODE, reason="needs node")
def test_a_pattern_matches_what_it_matches_in_node() -> None:
    with Node() as node:

        @settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
        @given(patterns, flags, texts)
        def check(pattern: str, flags: str, text: str) -> None:
            compare(pattern, flags, text, node.ask(pattern, flags, text))

        check()


@pytest.mark.parametrize(
    ("pattern", "flags", "construct"),
    [
        (r"a(?=b)", "", "lookahead"),
        (r"(?<!a)b", "", "lookbehind"),
        (r"(a)\1", "", "backreference"),
        (r"(?<q>['\"]).*\k<q>", "", "backreference"),
        (r"a{1001}", "", "repetition over 1000"),
        (r"(?:a{40}){40}", "", "repetitions of more than 1,000"),
        (r"\p{Script=Greek}", "u", r"\p{Script=Greek}"),
        (r"(?i:a)", "", "inline flags"),
        (r"[\w--[a-c]]", "v", "flag v"),
        (r"(?<é>a)", "", "a group's name"),
        ("a" * 2_001, "", "2,000 characters"),
        ("(" * 900 + ")" * 900, "", "nested too deep"),
    ],
)
def test_what_has_no_equal_is_named(pattern: str, flags: str, construct: str) -> None:
    with pytest.raises(NoEqualPattern) as raised:
        compile_javascript(pattern, flags)
    assert construct in str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [(each, "") for each in ("(a", "a)", "(?i)a", "*", "[b-a]")] + [(r"\-", "u"), ("a", "x"), ("a", "ii"), ("a", "uv")],
)
def test_what_javascript_refuses_is_told_apart(pattern: str, flags: str) -> None:
    with pytest.raises(BadPattern):
        compile_javascript(pattern, flags)


def test_a_text_that_is_not_certain_has_no_verdict() -> None:
    for pattern, given_flags, text in [(r"\bk", "iu", "\u212a"), ("k", "i", "\u0378"), ("k", "u", "\U0010ffff")]:
        with pytest.raises(BadInput):
            compile_javascript(pattern, given_flags).search(text)


def test_a_long_answer_takes_time_linear_in_it() -> None:
    found = compile_javascript(r"^(?:\w+\s?)*\w+!$", "im")
    began = time.process_time()
    assert not found.search("aa " * 300_000)
    assert compile_javascript("a", "").count("a" * 300_000, 20) == 20
    assert time.process_time() - began < 5
