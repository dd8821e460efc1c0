"""Regex: the judge that searches an answer with a regular expression, in time linear in the answer (RE2)."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import re2

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Score, judge
from skillopt_mcp.tasks.judges.base import QUOTED, is_whole, quoted, take_end

MAX_PATTERN_CHARS = 2_000
_MAX_PROGRAM = 20_000


class Pattern(Protocol):
    """What is used of a compiled RE2 pattern."""

    @property
    def programsize(self) -> int: ...

    def search(self, text: bytes) -> object | None: ...

    def fullmatch(self, text: bytes) -> object | None: ...


@judge("regex")
class Regex(Judge):
    """A linear-time (RE2) pattern is found in the trimmed answer (with `full`, matches all of it)."""

    pattern: str
    full: bool = False

    def score(self, attempt: Attempt) -> Score:
        pattern = compiled(self.pattern)
        text = take_end(attempt.answer).encode("utf-8", "replace")
        matched = is_whole(attempt.answer) and pattern.fullmatch(text) if self.full else pattern.search(text)
        if matched:
            return Score(hard=True, soft=1.0, reason=f"matches {quoted(self.pattern)}")
        reason = f"{quoted(attempt.answer)} does not match {quoted(self.pattern, QUOTED)}"
        return Score(hard=False, soft=0.0, reason=reason)

    def check(self) -> None:
        n = len(self.pattern)
        if not 1 <= n <= MAX_PATTERN_CHARS:
            raise BadInput(f"regex judge: pattern must have 1-{MAX_PATTERN_CHARS:,} characters, got {n:,}")
        if compiled(self.pattern).programsize > _MAX_PROGRAM:
            raise BadInput(f"regex judge: pattern {quoted(self.pattern)} is too large; use smaller repetitions")


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    """Return the compiled pattern. Raises BadInput."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        # RE2's error carries bytes.
        what = error.args[0] if error.args else ""
        why = what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what)
        raise BadInput(
            f"regex judge: pattern {quoted(pattern)} does not compile ({quoted(why, 60)}); "
            "use RE2 syntax: no look-around, no back-references, \\z for the end of the text"
        ) from error
    return compiled
