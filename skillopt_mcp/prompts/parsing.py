"""Parsing: a model's reply as the record its stage asked for, or one line that says why it is unusable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from skillopt_mcp.core.replies import OPS, PatchReply

M = TypeVar("M", bound=BaseModel)

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
_MAX_BROKEN = 1_000
_MAX_DIGITS = 300
_SURROGATE = re.compile("[\ud800-\udfff]")
_OBJECT_START = re.compile(r'\{\s*["}]')


def parse_reply(text: str, model: type[M]) -> M | str:
    """Return the last JSON object in `text` that can be read as `model`, or a one-line reason why there is none.

    An object counts only when it has a field of the model beyond its reasoning: so that the inside of a reply that
    breaks off is not taken for an empty one.
    """
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return f"the reply is longer than {MAX_BYTES:,} bytes"
    wanted = [name for name in model.model_fields if name != "reasoning"]
    problem = f"the reply has no JSON object with {' or '.join(map(repr, wanted))}"
    parsed: M | None = None
    for found in _objects(text):
        if isinstance(found, str):
            problem = found
            continue
        found = _unwrap(found, wanted)
        if any(name in found for name in wanted):
            result = _validate(found, model)
            parsed, problem = (parsed, result) if isinstance(result, str) else (result, problem)
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
            yield _find_defect(value) or value


def _unwrap(value: dict[str, object], wanted: Sequence[str]) -> dict[str, object]:
    """Return an object without its nulls, which are defaults, and without the {"patch": ...} around SkillOpt's."""
    inner = value.get("patch")
    if isinstance(inner, dict) and not any(name in value for name in wanted):
        value = {name: each for name, each in value.items() if name != "patch"} | inner
    return {name: _drop_nulls(each) for name, each in value.items() if each is not None}


def _drop_nulls(value: object) -> object:
    """Return the value without the nulls of the objects that it lists."""
    if not isinstance(value, list):
        return value
    return [{k: v for k, v in each.items() if v is not None} if isinstance(each, dict) else each for each in value]


def _validate(value: dict[str, object], model: type[M]) -> M | str:
    try:
        reply = model.model_validate(value)
        edits = reply.edits if isinstance(reply, PatchReply) else []
        if edits and not any(edit.op in OPS for edit in edits):
            return f"edits.0.op: Input should be one of {', '.join(OPS)}"
        return reply
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the object"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        return f"{where}: {first['msg']}{more}"


def _find_defect(value: object) -> str | None:
    level = [value]
    for _ in range(MAX_DEPTH):
        if any(isinstance(each, str) and _SURROGATE.search(each) for each in level):
            return "the JSON holds half of a surrogate pair, which is no character"
        level = [inner for outer in level for inner in _list_values(outer)]
        if not level:
            return None
    return f"the JSON is nested deeper than {MAX_DEPTH}"


def _list_values(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _parse_integer(digits: str) -> int | None:
    # Python refuses to read integers of more than 4,300 digits; no count of ours has 300.
    return int(digits) if len(digits) <= _MAX_DIGITS else None


def _no_constant(name: str) -> None:
    """Return None for NaN and the infinities, which no field takes."""


_DECODER = json.JSONDecoder(strict=False, parse_int=_parse_integer, parse_constant=_no_constant)
