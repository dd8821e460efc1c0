"""Schemas: JSON Schema 2020-12, with patterns in linear time, and nothing that could fetch anything."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from skillopt_mcp.judges.patterns import compiled


class Breach(Protocol):
    """What is used of an error that jsonschema finds in a value."""

    message: str
    validator: str
    absolute_path: Sequence[str | int]
    instance: object
    schema: Mapping[str, object]


class Validator(Protocol):
    """What is used of a jsonschema validator."""

    def is_valid(self, instance: object) -> bool: ...
    def iter_errors(self, instance: object) -> Iterable[Breach]: ...


@lru_cache(maxsize=64)
def validator(schema: str) -> Validator:
    """Return what tells whether a value is valid under a schema (JSON), and where it is not."""
    made: Validator = _class()(json.loads(schema))
    return made


def flaw(schema: Mapping[str, object]) -> str:
    """Return why a schema is none; empty where it is one."""
    try:
        _class().check_schema(schema)
    except _module().SchemaError as error:
        return str(error.message)
    return ""


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
