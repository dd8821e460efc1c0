"""Base: what kinds of judges are made of: the part of an answer they look at, and how they ask."""

from __future__ import annotations

import re
import unicodedata
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

from skillopt_mcp.core.calls import Ask
from skillopt_mcp.core.judging import Attempt, Judge, Outcome

# Enough for any final answer; keeps every judge within milliseconds on an answer of many megabytes.
LOOKED_AT = 100_000
ENDING = 20_000
# How much a reason quotes of what was expected: enough to find the rule behind it.
QUOTED = 200
MAX_NAME_CHARS = 200
# Ordering a run of combining marks takes time quadratic in its length, and real text has none as long as this.
_MARKS = re.compile(rb"[^\0]{32}")


class Asking(Judge):
    """Base of the kinds that ask a model or a program: the questions of all attempts go out together."""

    needs_answer_only: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def score_all(cls, ask: Ask, attempts: Sequence[tuple[Self, Attempt]]) -> list[Outcome]:
        """Return the outcome of each judge for its attempt."""


def take_end(answer: str, limit: int = LOOKED_AT) -> str:
    """Return the last `limit` characters of the trimmed answer: the conclusion stands at the end."""
    return answer.strip()[-limit:]


def is_whole(answer: str) -> bool:
    """Whether `take_end` shows all of the answer."""
    return len(answer.strip()) <= LOOKED_AT


def comparable(text: str, *, case_sensitive: bool = False) -> str:
    """Return the text in Unicode NFC, case folded unless `case_sensitive`: equal texts then have equal characters."""
    if text.isascii():
        return text if case_sensitive else text.lower()
    composed = _composed(text)
    return composed if case_sensitive else _composed(composed.casefold())


def on_one_line(text: str) -> str:
    """Return the text as `comparable` has it, with one space where blanks are."""
    return " ".join(comparable(text).split())


def quoted(text: str, limit: int = 80) -> str:
    """Return the text in double quotes, on one line, cut to `limit` characters and safe to encode, for a message."""
    line = " ".join(text[: 4 * limit].split()).encode("utf-8", "replace").decode()
    return f'"{line[:limit]}..."' if len(line) > limit or len(text) > 4 * limit else f'"{line}"'


def is_encodable(text: str) -> bool:
    """Whether the text can be stored as UTF-8: one with a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_name(text: str) -> bool:
    """Whether the text can name a tool or an environment."""
    return bool(text.strip()) and len(text) <= MAX_NAME_CHARS and is_encodable(text)


def _composed(text: str) -> str:
    if _MARKS.search(bytes(map(unicodedata.combining, text))):
        return text
    return unicodedata.normalize("NFC", text)
