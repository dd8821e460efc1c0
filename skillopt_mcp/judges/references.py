"""References: an answer that a judge must pass, made from what it expects."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from skillopt_mcp.judges.json_values import steps_of
from skillopt_mcp.judges.tables import rows_of
from skillopt_mcp.judges.text import listed
from skillopt_mcp.records.judging import (
    F1,
    All,
    Anls,
    Choice,
    Contains,
    Exact,
    Heading,
    Json,
    JudgeSpec,
    Numeric,
    Part,
    Table,
    Weighted,
)

_INDEX_DIGITS = 4
_MORE = "more"


def reference_answers(spec: JudgeSpec) -> list[str]:
    """Return answers of which a sensible judge passes at least one; [] when what it expects makes none."""
    match spec:
        case Exact() | F1() | Anls():
            return [listed(spec.expected)[0]]
        case Contains():
            told = "\n".join(listed(spec.expected)[: 1 if spec.any else None])
            # A blank at its end stands between words, in an answer.
            return [told] if told == told.strip() else [f"{_MORE}{told}{_MORE}"]
        case Numeric():
            return [repr(spec.expected)]
        case Choice():
            return [spec.expected]
        case Table():
            return ["\n".join("\t".join(row) for row in rows_of(spec.expected))]
        case Heading():
            return ["\n".join(f"{'#' * (spec.level or 2)} {title.strip()}" for title in listed(spec.expected))]
        case Json():
            # Under a schema more may be wanted than the fields tell.
            fields = [(steps_of(path), value) for path, value in spec.fields.items()]
            return [] if spec.json_schema else [json.dumps(_built(fields))]
        case All() | Weighted():
            parts = [reference_answers(each.judge if isinstance(each, Part) else each) for each in spec.judges]
            alone = [answer for part in parts for answer in part]
            return [*alone, "\n\n".join(alone)] if all(parts) else []
        case _:
            return []


def _built(fields: Sequence[tuple[list[str], JsonValue]]) -> JsonValue:
    """Return the smallest value that has the fields, given as steps and value; a step of digits is an index."""
    inner: dict[str, list[tuple[list[str], JsonValue]]] = {}
    for steps, value in fields:
        if not steps:
            return value
        inner.setdefault(steps[0], []).append((steps[1:], value))
    values = {step: _built(rest) for step, rest in inner.items()}
    if not all(step.isascii() and step.isdigit() and len(step) < _INDEX_DIGITS for step in values):
        return values
    items: list[JsonValue] = [None] * (max(map(int, values)) + 1)
    for step, value in values.items():
        items[int(step)] = value
    return items
