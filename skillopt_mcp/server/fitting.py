"""Fitting: results and errors as a host reads them, their longest texts cut so that the model sees the rest."""

from __future__ import annotations

import json
from typing import cast

import pydantic_core
from pydantic import BaseModel

MAX_BYTES = 10_000
MAX_ERROR = 1_000
_SHORTEST = 120
_NOTE = "[... cut to fit ...]"

Json = dict[str, object] | list[object]


def fitted(result: BaseModel) -> bytes:
    """Return the result as JSON of less than MAX_BYTES; what is cut is noted in its place."""
    try:
        text = result.model_dump_json().encode()
    except pydantic_core.PydanticSerializationError:
        # A file name may hold what is not Unicode; it must not take the answer with it.
        text = json.dumps(result.model_dump(), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    if len(text) < MAX_BYTES:
        return text
    value: Json = pydantic_core.from_json(text)
    while len(text) >= MAX_BYTES and _cut_longest(value):
        text = pydantic_core.to_json(value)
    return text


def fitted_error(text: str) -> str:
    """Return the text of an error, cut in its middle where somebody named a thing too long to repeat."""
    plain = text.encode("utf-8", "replace").decode()
    return plain if len(plain) <= MAX_ERROR else _cut(plain, MAX_ERROR, " ")


def _cut(text: str, n_left: int, around: str) -> str:
    return f"{text[: n_left // 2]}{around}{_NOTE}{around}{text[-(n_left // 2) :]}"


def _cut_longest(value: Json) -> bool:
    """Cut the longest text in a JSON value to three quarters, in place; return whether there was one to cut."""
    container, key, longest = max(_texts(value), key=lambda place: len(place[2]))
    if len(longest) <= _SHORTEST:
        return False
    container[key] = _cut(longest, max(_SHORTEST, len(longest) * 3 // 4), "\n")
    return True


def _texts(value: Json) -> list[tuple[dict[object, object], object, str]]:
    """Return every text in a JSON value with the container and the key that it stands under."""
    found: list[tuple[dict[object, object], object, str]] = []
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(item, str):
            found.append((cast(dict[object, object], value), key, item))
        elif isinstance(item, dict | list):
            found += _texts(item)
    return found
