"""Conforming: where a reply of a host breaks the schema that its work was handed out with, in words that mend it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from skillopt_mcp.backends.api.schemas import strict_schema
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.judges.schemas import Breach, validator
from skillopt_mcp.operations.paging import shortened

_SHOWN = 3
_FAULT_BYTES = 160
_OF_KEYS = ("required", "additionalProperties")


def broken(value: Mapping[str, object], model: type[BaseModel]) -> str:
    """Return what in a JSON object breaks the schema of a reply as it is published, and how it should be; or ""."""
    places: dict[str, list[str]] = {}
    for breach in validator(json.dumps(strict_schema(model))).iter_errors(value):
        where = ".".join(map(str, breach.absolute_path)) or "the object"
        at = places.setdefault(_fault(breach), [])
        # A place that lacks two keys breaks the schema twice.
        if where not in at:
            at.append(where)
    told = [f"{_some(at, ', ')}: {fault}" for fault, at in places.items()]
    return _some(told, "; ")


def _fault(breach: Breach) -> str:
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
