"""Parsing: a model's reply as the record its stage asked for, or one line that says why it is unusable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
_MAX_BROKEN = 1_000
_MAX_DIGITS = 300
_SURROGATE = re.compile("[\ud800-\udfff]")
_OBJECT_START = re.compile(r'\{\s*["}]')


def parse_reply(text: str, model: type[M]) -> M | str:
    """Return the last JSON object in `text` that is a valid `model`, or a one-line reason why there is none.

    An object counts only when it has a field of the model beyond its reasoning: so that the inside of a reply that
    breaks off is not taken for an empty one.
    """
    found = found_reply(text, model)
    return found if isinstance(found, str) else found[1]


def found_reply(text: str, model: type[M]) -> tuple[dict[str, object], M] | str:
    """Return the object that `parse_reply` takes, as it was written and as a `model`, or why there is none."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return f"the reply is longer than {MAX_BYTES:,} bytes"
    wanted = [name for name in model.model_fields if name != "reasoning"]
    problem = f"the reply has no JSON object with {' or '.join(map(repr, wanted))}"
    parsed: tuple[dict[str, object], M] | None = None
    for found in _objects(text):
        if isinstance(found, str):
            problem = found
        elif any(name in found for name in wanted):
            result = _validated(found, model)
            parsed, problem = (parsed, result) if isinstance(result, str) else ((found, result), problem)
    return problem if parsed is None else parsed


def _objects(text: str) -> Iterator[dict[str, object] | str]:
    """Yield each outermost JSON object of `text`, and a reason for each that is broken."""
    position, n_broken = 0, 0
    while (start := _OBJECT_START.search(text, position)) and n_broken < _MAX_BROKEN:
        try:
            value, position = _DECODER.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            # What was read of a broken object is part of it: going on behind it also keeps the scan linear.
            position, n_broken = max(error.pos, start.start() + 1), n_broken + 1
            yield f"the JSON object at character {start.start()} is broken at character {error.pos}: {error.msg}"
        except RecursionError:
            yield f"the JSON is nested deeper than {MAX_DEPTH}"
            return
        else:
            yield _defect(value) or value


def _validated(value: dict[str, object], model: type[M]) -> M | str:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the object"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        return f"{where}: {first['msg']}{more}"


def _defect(value: object) -> str | None:
    level = [value]
    for _ in range(MAX_DEPTH):
        if any(isinstance(each, str) and _SURROGATE.search(each) for each in level):
            return "the JSON holds half of a surrogate pair, which is no character"
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return None
    return f"the JSON is nested deeper than {MAX_DEPTH}"


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _whole_number(digits: str) -> int | None:
    # Python refuses to read integers of more than 4,300 digits; no count of ours has 300.
    return int(digits) if len(digits) <= _MAX_DIGITS else None


def _no_constant(name: str) -> None:
    """Return None for NaN and the infinities, which no field takes."""


_DECODER = json.JSONDecoder(strict=False, parse_int=_whole_number, parse_constant=_no_constant)
