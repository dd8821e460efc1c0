"""Decoding: rows as JSON tells them, but for those in which a key comes twice, of which JSON keeps the last."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class Repeated(NamedTuple):
    """A row that is none: in it, or in what it holds, this key comes twice."""

    key: str


def decoded(text: str) -> object:
    """Return the value of a JSON text, each object with a key that comes twice as `Repeated`. Raises ValueError."""
    return json.loads(text, object_pairs_hook=_object)


def whole(row: Mapping[str, object]) -> Mapping[str, object] | Repeated:
    """Return a row, or what is wrong within one of its values."""
    return next((found for value in row.values() if (found := _repeated(value))), row)


def _object(pairs: list[tuple[str, object]]) -> Mapping[str, object] | Repeated:
    made = dict(pairs)
    if len(made) == len(pairs):
        return whole(made)
    [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
    return Repeated(name)


def _repeated(value: object) -> Repeated | None:
    # Not by recursion: what a decoder reads may nest deeper than that goes.
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, Repeated):
            return each
        if isinstance(each, list):
            left += each
    return None
