"""JSON rows: one list of rows, or one row a line; a row in which a key comes twice is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.tasks.formats.registry import task_format

_MAX_BAD_SHOWN = 20


class Repeated(NamedTuple):
    """A row that is none: in it, or in what it holds, this key comes twice."""

    key: str


def decode_json(text: str) -> object:
    """Decode a JSON text, each object with a key that comes twice as `Repeated`. Raises ValueError, RecursionError."""
    return json.loads(text, object_pairs_hook=make_object)


def make_object(pairs: Sequence[tuple[str, object]]) -> Mapping[str, object] | Repeated:
    """Make the object of keys and their values, or say which key comes twice in it or in one of the values."""
    made = dict(pairs)
    if len(made) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        return Repeated(name)
    # Not by recursion: what a decoder reads may nest deeper than that goes.
    left = list(made.values())[::-1]
    while left:
        each = left.pop()
        if isinstance(each, Repeated):
            return each
        if isinstance(each, list):
            left += each
    return made


@task_format("JSON list, JSON lines", (".json", ".jsonl"))
def read_json(text: str, where: str) -> list[object]:
    """Read a JSON list, or JSON lines. Raises BadInput naming the lines that are none."""
    rows, bad = list[object](), list[str]()
    first: Exception | None = None
    is_list = text.lstrip().startswith("[")
    for n, line in enumerate([text] if is_list else text.split("\n"), 1):
        try:
            rows += [decode_json(line)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            first = first or error
            bad.append(str(n))
            if len(bad) > _MAX_BAD_SHOWN:
                break
    if first:
        place = where if is_list else f"{where} line {bad[0]}"
        more = " and more" if len(bad) > _MAX_BAD_SHOWN else ""
        others = f", nor line {', '.join(bad[1:_MAX_BAD_SHOWN])}{more}" if len(bad) > 1 else ""
        raise BadInput(f"{place} is not JSON ({first}){others}: a file is one list, or one object a line") from first
    return cast(list[object], rows[0]) if is_list else rows
