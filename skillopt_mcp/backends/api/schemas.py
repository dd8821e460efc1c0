"""Schemas: a reply model as the strict JSON schema that vendors hold a model's answer to."""

from __future__ import annotations

from functools import cache

from pydantic import BaseModel

_DROPPED = frozenset({"default", "title"})
Schema = dict[str, object]


@cache
def strict_schema(model: type[BaseModel]) -> Schema:
    """Return the JSON schema of `model` as strict servers want it: every field required, none besides, no defaults."""
    return _strict(model.model_json_schema())


@cache
def lenient_schema(model: type[BaseModel]) -> Schema:
    """Return `strict_schema` as a host is held to it: parts of the reply may lack what has a default value."""
    strict, parts = strict_schema(model), model.model_json_schema().get("$defs", {})
    return strict | {"$defs": {name: _lenient(part) for name, part in parts.items()}} if parts else strict


def _lenient(schema: Schema) -> Schema:
    strict, properties = _strict(schema), schema.get("properties")
    if not isinstance(properties, dict):
        return strict
    return strict | {"required": [name for name, value in properties.items() if "default" not in value]}


def _strict(schema: Schema) -> Schema:
    strict = {name: _inside(name, value) for name, value in schema.items() if name not in _DROPPED}
    properties = schema.get("properties")
    if isinstance(properties, dict):
        strict |= {"required": list(properties), "additionalProperties": False}
    return strict


def _inside(name: str, value: object) -> object:
    if name in ("properties", "$defs") and isinstance(value, dict):
        return {key: _strict(inner) for key, inner in value.items()}
    if isinstance(value, dict):
        return _strict(value)
    return (
        [_strict(inner) if isinstance(inner, dict) else inner for inner in value] if isinstance(value, list) else value
    )
