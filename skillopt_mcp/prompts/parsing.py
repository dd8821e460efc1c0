"""Parsing: a model's reply as the record its stage asked for, or one line that says why it is unusable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from skillopt_mcp.core.replies import OPS, PatchReply

M = TypeVar("M", bound=BaseModel)

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
_MAX_BROKEN = 1_000
_MAX_DIGITS = 300
_SURROGATE = re.compile("[\ud800-\udfff]")
# Written in code, such a tag is spoken of.
_START = re.compile(r"""(?<!`)<think(?:ing)?>|\{\s*["}]""", re.IGNORECASE)
_END_OF_THOUGHT = re.compile("</think(?:ing)?>", re.IGNORECASE)


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
    for found in _find_objects(text):
        if isinstance(found, str):
            problem = found
            continue
        inner = found.get("patch")
        if isinstance(inner, dict) and not any(name in found for name in wanted):  # as SkillOpt's prompts have it
            found = {name: each for name, each in found.items() if name != "patch"} | inner

        # A null is a default, in the objects that a field lists, too.
        given = {name: each for name, each in found.items() if each is not None}
        for name, each in given.items():
            if isinstance(each, list):
                given[name] = [
                    {k: v for k, v in row.items() if v is not None} if isinstance(row, dict) else row for row in each
                ]
        if not any(name in given for name in wanted):
            continue

        try:
            reply = model.model_validate(given)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the object"
            more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
            problem = f"{where}: {first['msg']}{more}"
            continue
        edits = reply.edits if isinstance(reply, PatchReply) else []
        if edits and not any(edit.op in OPS for edit in edits):
            problem = f"edits.0.op: Input should be one of {', '.join(OPS)}"
        else:
            parsed = reply
    return problem if parsed is None else parsed


def _find_objects(text: str) -> Iterator[dict[str, object] | str]:
    """Yield each outermost JSON object of `text` that no thinking block holds, and a reason for each that is broken."""
    position, n_broken = 0, 0
    while (start := _START.search(text, position)) and n_broken < _MAX_BROKEN:
        if start[0][0] == "<":
            closed = _END_OF_THOUGHT.search(text, start.end())
            if closed is None:
                yield f"the thinking block at character {start.start()} is not closed"
                return
            position = closed.end()
            continue
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


def _find_defect(value: object) -> str | None:
    level = [value]
    for _ in range(MAX_DEPTH):
        if any(isinstance(each, str) and _SURROGATE.search(each) for each in level):
            return "the JSON holds half of a surrogate pair, which is no character"
        lists = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [inner for values in lists for inner in values]
        if not level:
            return None
    return f"the JSON is nested deeper than {MAX_DEPTH}"


def _parse_integer(digits: str) -> int | None:
    # Python refuses to read integers of more than 4,300 digits; no count of ours has 300.
    return int(digits) if len(digits) <= _MAX_DIGITS else None


def _no_constant(name: str) -> None:
    """Return None for NaN and the infinities, which no field takes."""


_DECODER = json.JSONDecoder(strict=False, parse_int=_parse_integer, parse_constant=_no_constant)
