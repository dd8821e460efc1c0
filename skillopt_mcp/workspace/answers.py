"""Answers: texts cut to what one answer to a host can hold, and pages of longer ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.text import quoted, truncate_middle

if TYPE_CHECKING:
    from skillopt_mcp.core.results import Result

ANSWER_BYTES = 9_500
LEAST_BYTES = 200
R = TypeVar("R", bound="Result")


def size(text: str) -> int:
    """How many bytes a text takes inside a JSON document."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) - 2


def shorten(text: str, n_bytes: int) -> str:
    """Return the text in at most `n_bytes` of JSON, with its middle left out where it has more."""
    limit = min(len(text), n_bytes)
    cut = truncate_middle(text, limit)
    while size(cut) > n_bytes:
        limit = limit * 9 // 10
        cut = truncate_middle(text, limit)
    return cut


def fit_answer(result: R, field: str) -> R:
    """Return the result with the text in `field` shortened, so that all of it is one answer."""
    rest = len(result.model_copy(update={field: ""}).model_dump_json().encode())
    text = shorten(str(getattr(result, field)), max(ANSWER_BYTES - rest, LEAST_BYTES))
    return result.model_copy(update={field: text})


def page_start(cursor: str | None) -> int:
    """Where a page begins. Raises BadInput for a cursor that no page gave."""
    if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
        raise BadInput(f"unknown cursor {quoted(cursor)}: use the one that the last page gave, or none")
    return int(cursor or 0)
