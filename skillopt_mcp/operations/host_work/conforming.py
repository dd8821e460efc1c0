"""Conforming: where a reply of a host breaks the schema that its work was handed out with, in words that mend it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol, cast

from pydantic import BaseModel

from skillopt_mcp.backends.api.schemas import strict_schema
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.operations.paging import shortened

_SHOWN = 3
_FAULT_BYTES = 160
_OF_KEYS = ("required", "additionalProperties")


class _Breach(Protocol):
    """What is used of an error of jsonschema."""

    message: str
    validator: str
    absolute_path: Sequence[str | int]
    instance: object
    schema: Mapping[str, object]


class _Validator(Protocol):
    """What is used of a jsonschema validator."""

    def iter_errors(self, instance: object) -> Iterable[_Breach]: ...


def broken(value: Mapping[str, object], model: type[BaseModel]) -> str:
    """Return what in a JSON object breaks the schema of a reply as it is published, and how it should be; or ""."""
    places: dict[str, list[str]] = {}
    for breach in _validator(model).iter_errors(value):
        where = ".".join(map(str, breach.absolute_path)) or "the object"
        at = places.setdefault(_fault(breach), [])
        # A place that lacks two keys breaks the schema twice.
        if where not in at:
            at.append(where)
    told = [f"{_some(at, ', ')}: {fault}" for fault, at in places.items()]
    return _some(told, "; ")


def _fault(breach: _Breach) -> str:
    properties, value = breach.schema.get("properties"), breach.instance
    if breach.validator in _OF_KEYS and isinstance(properties, dict) and isinstance(value, dict):
        lacking = ", ".join(quoted(name) for name in properties if name not in value)
        besides = _some([shortened(quoted(str(name)), 60) for name in value if name not in properties], ", ")
        faults = filter(None, (lacking and f"{lacking} missing", besides and f"{besides} not known"))
        return f"{' and '.join(faults)} (needed are {', '.join(properties)}, and no others)"
    return shortened(breach.message, _FAULT_BYTES)


def _some(parts: Sequence[str], between: str) -> str:
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return between.join(parts[:_SHOWN]) + more


@cache
def _validator(model: type[BaseModel]) -> _Validator:
    # Loaded when a reply is met: it costs a tenth of the start.
    found = importlib.import_module("jsonschema.validators")
    return cast(_Validator, found.Draft202012Validator(strict_schema(model)))
