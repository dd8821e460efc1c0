"""Patterns: the judge that searches an answer with a regular expression, in time linear in the answer (RE2)."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import re2

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import TOLD, is_whole, looked_at, quoted
from skillopt_mcp.records.judging import Regex, Score

MAX_PATTERN_CHARS = 2_000
_MAX_PROGRAM = 20_000


class Pattern(Protocol):
    """What is used of a compiled RE2 pattern."""

    @property
    def programsize(self) -> int: ...

    def search(self, text: bytes) -> object | None: ...

    def fullmatch(self, text: bytes) -> object | None: ...


def score_regex(spec: Regex, answer: str) -> Score:
    """Return whether the pattern is found in the trimmed answer (with `full`, matches all of it).

    Of an answer longer than 100,000 characters the end is searched, and none so long matches in full.
    """
    pattern = compiled(spec.pattern)
    text = looked_at(answer).encode("utf-8", "replace")
    matched = is_whole(answer) and pattern.fullmatch(text) if spec.full else pattern.search(text)
    if matched:
        return Score(hard=True, soft=1.0, reason=f"matches {quoted(spec.pattern)}")
    return Score(
        hard=False,
        soft=0.0,
        reason=f"{quoted(answer)} does not match {quoted(spec.pattern, TOLD)}",
    )


def check_pattern(spec: Regex) -> None:
    """Raise BadInput when the pattern is empty, too large, or none that RE2 can run."""
    if not spec.pattern:
        raise BadInput('regex judge: pattern "" matches every answer; give what the answer must contain')
    if len(spec.pattern) > MAX_PATTERN_CHARS:
        raise BadInput(
            f"regex judge: pattern {quoted(spec.pattern, 20)} has {len(spec.pattern)} characters; "
            f"give at most {MAX_PATTERN_CHARS}"
        )
    if compiled(spec.pattern).programsize > _MAX_PROGRAM:
        raise BadInput(
            f"regex judge: pattern {quoted(spec.pattern)} is too large once expanded; use smaller repetitions"
        )


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise BadInput(
            f"regex judge: pattern {quoted(pattern)} does not compile ({quoted(_first_line(error), 60)}); "
            "use RE2 syntax: no look-around, no back-references, \\z for the end of the text"
        ) from error
    return compiled


def _first_line(error: Exception) -> str:
    # RE2's error carries bytes.
    what = error.args[0] if error.args else ""
    return what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what)
