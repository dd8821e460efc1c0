"""Trees: small YAML and TOML texts as plain values, read strictly: no anchors, no tags, no depth, no surprises."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import cast

import yaml

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.environments.options import Scalar, plain_value
from skillopt_mcp.errors import BadInput

Value = Scalar | list["Value"] | dict[str, "Value"]
Tree = dict[str, Value]
MAX_BYTES = 1 << 16
MAX_DEPTH = 6
MAX_VALUES = 2_000


def parse_yaml(text: str, where: str) -> Tree:
    """Return the mapping of a YAML text. Plain scalars are read as YAML 1.2 does, so 2:1:7 stays a text.

    Raises BadInput, at once, for what is too large or too deep, and for anchors, aliases, tags and keys given twice.
    """
    _check_size(text, where)
    try:
        # Events come one by one, so that a hostile text is given up where it turns bad.
        return _Reader(yaml.parse(text, Loader=yaml.BaseLoader), where).document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise BadInput(f"{where}{line} is not YAML: {getattr(error, 'problem', None) or 'it cannot be read'}") from None
    # PyYAML lets a bad escape such as "\Uffffffff" out as the error of chr().
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{where} is not YAML: {error}") from None


def parse_toml(text: str, where: str) -> Tree:
    """Return the table of a TOML text. Raises BadInput as `parse_yaml` does."""
    _check_size(text, where)
    try:
        tree: Tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where} is not TOML: {str(error)[:200]}") from None
    _check_shape(tree, where)
    return tree


class _Reader:
    """The values of an event stream."""

    def __init__(self, events: Iterator[yaml.Event], where: str) -> None:
        self._events, self._where, self._n = events, where, 0

    def document(self) -> Tree:
        """Return the one mapping of the text; an empty text has none."""
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return {}
        value = self._value(self._next(), 0)
        next(self._events)
        if not isinstance(next(self._events), yaml.StreamEndEvent):
            raise BadInput(f"{self._where} holds more than one document: leave one")
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise BadInput(f"{self._where} is no mapping: write settings as key: value")
        return value

    def _next(self) -> yaml.Event:
        event = next(self._events)
        self._n += 1
        if self._n > MAX_VALUES:
            raise BadInput(f"{self._where} has more than {MAX_VALUES:,} values: settings are few")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise BadInput(f"{self._where} line {_line(event)} has an anchor or alias: write the value out")
        if getattr(event, "tag", None) is not None:
            raise BadInput(f"{self._where} line {_line(event)} has a tag: write a plain value")
        return event

    def _value(self, event: yaml.Event, depth: int) -> Value:
        if isinstance(event, yaml.ScalarEvent):
            text = str(event.value)
            return plain_value(text) if event.style in (None, "") else text
        if depth >= MAX_DEPTH:
            raise BadInput(f"{self._where} line {_line(event)} is nested too deep: settings have {MAX_DEPTH} levels")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(depth + 1)
        items: list[Value] = []
        while not isinstance(item := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(item, depth + 1))
        return items

    def _mapping(self, depth: int) -> Tree:
        found: Tree = {}
        while not isinstance(key := self._next(), yaml.MappingEndEvent):
            if not isinstance(key, yaml.ScalarEvent):
                raise BadInput(f"{self._where} line {_line(key)} has a key that is no text")
            name = str(key.value)
            if name in found or name == "<<":
                raise BadInput(
                    f"{self._where} line {_line(key)} has the key {quoted(name)} twice, or merges: name it once"
                )
            found[name] = self._value(self._next(), depth)
        return found


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _check_size(text: str, where: str) -> None:
    if len(text) > MAX_BYTES:
        raise BadInput(f"{where} has {len(text):,} characters, {MAX_BYTES:,} are allowed: settings are few")


def _check_shape(tree: Tree, where: str) -> None:
    """Raise BadInput when a table is too large or too deep, or holds what settings never are."""
    level: list[object] = [tree]
    n, depth = 0, 0
    while level:
        n, depth = n + len(level), depth + 1
        if n > MAX_VALUES or depth > MAX_DEPTH + 1:
            raise BadInput(f"{where} has more than {MAX_VALUES:,} values or {MAX_DEPTH} levels: settings are few")
        for value in level:
            if not isinstance(value, str | int | float | list | dict | None):
                raise BadInput(f"{where} holds a {type(value).__name__}: settings are texts, numbers and truth values")
        level = [inner for value in level for inner in _inner(value)]


def _inner(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return list(cast(Mapping[str, object], value).values())
    return list(value) if isinstance(value, list) else []
