"""JSON value: the judge that finds the one JSON value of an answer and compares it with a schema and with fields."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from pydantic import ConfigDict, Field, JsonValue

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Score, judge
from skillopt_mcp.documents.markdown import fenced_code
from skillopt_mcp.tasks.judges.base import QUOTED, is_encodable, is_whole, quoted, take_end
from skillopt_mcp.tasks.judges.kinds.numeric import Margin
from skillopt_mcp.tasks.judges.kinds.regex import MAX_PATTERN_CHARS, compiled

MAX_SPEC_CHARS = 20_000
MAX_FIELDS = 100
MAX_DEPTH = 64
# What needs no reference, no format and no pairwise comparison, so that validation takes time linear in the answer.
KEYWORDS = frozenset({
    "$schema", "$comment", "title", "description", "default", "examples", "type", "enum", "const", "properties",
    "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties", "dependentRequired", "items",
    "prefixItems", "minItems", "maxItems", "contains", "minContains", "maxContains", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "allOf", "anyOf",
    "oneOf", "not", "if", "then", "else",
})  # fmt: skip
_ONE = frozenset({"additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else"})
_LISTS = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})
_START = re.compile(r"[{\[]")
_MAX_BROKEN = 200


class _Missing:
    """The place of a value that is not there: None is a value of JSON."""


@judge("json")
class Json(Judge):
    """The answer holds one JSON value, valid under `schema`, equal in `fields` (path such as `items.0.id` -> value).

    `schema` is a JSON Schema without references and formats. Soft is the share of these conditions that hold; numbers
    are equal within `tolerance`.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
    json_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    fields: dict[str, JsonValue] = Field(default_factory=dict, max_length=MAX_FIELDS)
    tolerance: Margin = 1e-9

    def score(self, attempt: Attempt) -> Score:
        """Return whether the answer holds exactly one JSON value, and how many of the conditions it fulfils.

        The value is the whole answer, or the only fenced block that is JSON, or the only object (else array) in the
        prose.
        """
        found = found_values(attempt.answer)
        if len(found) != 1:
            n = f"{len(found) or 'no'} JSON value{'s' if found else ''}"
            return Score(hard=False, soft=0.0, reason=f"{n} in {quoted(attempt.answer)}, expected one")
        [value] = found
        breach = None if self.json_schema is None else _breach(self.json_schema, value)
        wrong = [path for path, wanted in self.fields.items() if not _equal(at(value, path), wanted, self.tolerance)]
        n_conditions = (self.json_schema is not None) + len(self.fields) or 1
        soft = 1 - ((breach is not None) + len(wrong)) / n_conditions
        if breach is None and not wrong:
            return Score(hard=True, soft=1.0, reason=f"one JSON value, {n_conditions} conditions hold")
        reasons = [f"{path}: {_shown(at(value, path))}, expected {_shown(self.fields[path])}" for path in wrong[:3]]
        if breach is not None:
            reasons.insert(0, f"the schema is violated: {breach}")
        return Score(hard=False, soft=max(0.0, soft), reason="; ".join(reasons))

    def check(self) -> None:
        if self.json_schema is None and not self.fields:
            raise BadInput('json judge: neither "schema" nor "fields" is given; give one of them')
        check_values("json", [self.json_schema, self.fields])
        if self.json_schema is not None:
            _check_schema(self.json_schema)

    def references(self) -> list[str]:
        return [] if self.json_schema else [json.dumps(_built([(steps_of(p), v) for p, v in self.fields.items()]))]


def found_values(answer: str) -> list[JsonValue]:
    """Return the JSON values that an answer holds; an answer too long to be looked at whole holds none."""
    if not is_whole(answer):
        return []
    text = take_end(answer)
    whole = _parsed(text)
    if not isinstance(whole, _Missing):
        return [whole]
    fenced = [value for block in _fenced(text) if not isinstance(value := _parsed(block), _Missing)]
    if fenced:
        return fenced
    values = list(_inside(text))
    return [value for value in values if isinstance(value, dict)] or values


def at(value: JsonValue, path: str) -> JsonValue | _Missing:
    """Return what stands at a path: names and indexes with dots between (`items.0.id`), or a JSON pointer.

    The path "" is the value itself.
    """
    for step in steps_of(path):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 7 and int(step) < len(value):
            value = value[int(step)]
        else:
            return _Missing()
    return value


def steps_of(path: str) -> list[str]:
    """Return the names and indexes that a path leads over."""
    if path.startswith("/"):
        return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]
    return path.split(".") if path else []


def equal_values(first: JsonValue, second: JsonValue, tolerance: float) -> bool:
    """Return whether two JSON values are equal, numbers within the tolerance; true is no number."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, int | float) and isinstance(second, int | float):
        return first == second or _near(first, second, tolerance)
    if isinstance(first, dict) and isinstance(second, dict):
        same = first.keys() == second.keys()
        return same and all(equal_values(value, second[key], tolerance) for key, value in first.items())
    if isinstance(first, list) and isinstance(second, list):
        same = len(first) == len(second)
        return same and all(equal_values(a, b, tolerance) for a, b in zip(first, second, strict=True))
    return type(first) is type(second) and first == second


def check_values(kind: str, values: JsonValue | Mapping[str, JsonValue]) -> None:
    """Raise BadInput when the values of a spec are no JSON, too large, or not storable."""
    try:
        text = json.dumps(values, allow_nan=False, ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{kind} judge: a value is no plain JSON ({quoted(str(error), 60)}); correct it") from error
    if len(text) > MAX_SPEC_CHARS or not is_encodable(text):
        raise BadInput(
            f"{kind} judge: values of {len(text):,} characters; give at most {MAX_SPEC_CHARS:,}, all of UTF-8"
        )


def _check_schema(schema: Mapping[str, JsonValue]) -> None:
    """Raise BadInput when a part of the schema is none, or has a keyword outside KEYWORDS."""
    try:
        _class().check_schema(schema)
    except _module().SchemaError as error:
        raise BadInput(f"json judge: the schema is not valid ({quoted(str(error.message), 80)}); correct it") from None
    level: list[Mapping[str, JsonValue]] = [schema]
    while level:
        for part in level:
            for name in part:
                if name not in KEYWORDS:
                    raise BadInput(f"json judge: schema keyword {quoted(name, 40)} is not supported; remove it")
            pattern = part.get("pattern")
            if isinstance(pattern, str):
                if len(pattern) > MAX_PATTERN_CHARS:
                    raise BadInput(f"json judge: the pattern {quoted(pattern, 20)} is too long; shorten it")
                compiled(pattern)
        level = [inner for part in level for inner in _parts(part)]


def _parts(schema: Mapping[str, JsonValue]) -> Iterator[Mapping[str, JsonValue]]:
    """Yield the schemas inside a schema."""
    for name, value in schema.items():
        if name == "properties" and isinstance(value, dict):
            inner = list(value.values())
        elif name in _LISTS and isinstance(value, list):
            inner = value
        else:
            inner = [value] if name in _ONE else []
        yield from (each for each in inner if isinstance(each, dict))


def _fenced(text: str) -> Iterator[str]:
    """Yield what stands inside each block of fenced code that has both its fences."""
    content = text.encode("utf-8", "surrogatepass")
    for block in fenced_code(content, 0):
        _, *inner = content[block.start : block.end].splitlines()
        if block.closed and inner and not inner.pop().strip(b" \t>`~"):
            yield b"\n".join(inner).decode("utf-8", "surrogatepass")


def _near(first: float, second: float, tolerance: float) -> bool:
    try:
        return abs(first - second) <= tolerance
    except OverflowError:
        # A whole number above all others of a computer is near to none of them.
        return False


def _parsed(text: str) -> JsonValue | _Missing:
    try:
        value: JsonValue = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return _Missing()
    return value if _depth(value) <= MAX_DEPTH else _Missing()


def _inside(text: str) -> Iterator[JsonValue]:
    """Yield each outermost object and array in prose."""
    position, n_broken = 0, 0
    while (start := _START.search(text, position)) and n_broken < _MAX_BROKEN:
        try:
            value, position = _DECODER.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            # What was read of a broken value is part of it: going on behind it also keeps the scan linear.
            position, n_broken = max(error.pos, start.start() + 1), n_broken + 1
        except (ValueError, RecursionError):
            return
        else:
            if _depth(value) <= MAX_DEPTH:
                yield value


def _depth(value: JsonValue) -> int:
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth


def _equal(given: JsonValue | _Missing, wanted: JsonValue, tolerance: float) -> bool:
    return not isinstance(given, _Missing) and equal_values(given, wanted, tolerance)


def _breach(schema: Mapping[str, JsonValue], value: JsonValue) -> str | None:
    """Return where and how a value first violates a schema, None where it does not."""
    first = next(iter(_validator(json.dumps(schema)).iter_errors(value)), None)
    if first is None:
        return None
    return f"{'.'.join(map(str, first.absolute_path)) or 'the value'}: {quoted(first.message, QUOTED)}"


def _shown(value: JsonValue | _Missing) -> str:
    return "nothing" if isinstance(value, _Missing) else quoted(json.dumps(value, ensure_ascii=False), QUOTED)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _built(fields: Sequence[tuple[list[str], JsonValue]]) -> JsonValue:
    """Return the smallest value that has the fields, given as steps and value; a step of digits is an index."""
    inner: dict[str, list[tuple[list[str], JsonValue]]] = {}
    for steps, value in fields:
        if not steps:
            return value
        inner.setdefault(steps[0], []).append((steps[1:], value))
    values = {step: _built(rest) for step, rest in inner.items()}
    if not all(step.isascii() and step.isdigit() and len(step) < 4 for step in values):
        return values
    items: list[JsonValue] = [None] * (max(map(int, values)) + 1)
    for step, value in values.items():
        items[int(step)] = value
    return items


@lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    """Return a validator of values by a schema (JSON)."""
    return _class()(json.loads(schema))


@lru_cache(maxsize=1)
def _class() -> Any:
    def pattern(_: object, wanted: str, value: object, __: object) -> Iterator[Exception]:
        if isinstance(value, str) and not compiled(wanted).search(value.encode("utf-8", "replace")):
            yield _module().ValidationError("does not match the pattern")

    def multiple_of(checker: object, step: float, value: float, schema: object) -> Iterator[Exception]:
        try:
            yield from divided(checker, step, value, schema)
        except OverflowError:
            # Its quotient is above all floats: a whole number has one all the same, an infinite one has none.
            if isinstance(value, float) or Fraction(value) % Fraction(step):
                yield _module().ValidationError("is not a multiple")

    found = importlib.import_module("jsonschema.validators")
    divided = found.Draft202012Validator.VALIDATORS["multipleOf"]
    return found.extend(found.Draft202012Validator, {"pattern": pattern, "multipleOf": multiple_of})


def _module() -> Any:
    # Loaded when a schema is met: it costs a tenth of the start.
    return importlib.import_module("jsonschema")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant)
