"""JSON spans: where each value of a JSON text stands; with comments and trailing commas where a host allows them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from skillopt_mcp.errors import BadInput

_BLANK = re.compile(r"[ \t\r\n]*")
_COMMENTS = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_DEEPEST = 200


@dataclass(slots=True)
class Span:
    """A value from `start` to `end`; `entries` are those of an object or array that a path leads to or through."""

    start: int
    end: int
    value: JsonValue
    entries: list[Entry] = field(default_factory=list)
    trailing_comma: bool = False


@dataclass(slots=True)
class Entry:
    """A member of an object or an element of an array (then `key` is None), from its key to the end of its value."""

    start: int
    key: str | None
    span: Span


def read_spans(text: str, path: Sequence[str] = (), *, comments: bool) -> Span:
    """Return the outermost value, with the spans on the path. Raises BadInput with line and column."""
    return _Reader(text, path, comments=comments).whole()


def _no_constant(name: str) -> JsonValue:
    raise ValueError(name)


# What no path leads to is read by the standard library: such files may have many megabytes.
_DECODER = json.JSONDecoder(parse_constant=_no_constant)


class _Reader:
    def __init__(self, text: str, path: Sequence[str], *, comments: bool) -> None:
        self._text = text
        self._path = path
        self._comments = comments
        self._skipped = _COMMENTS if comments else _BLANK
        self._at = 0

    def whole(self) -> Span:
        self._skip()
        span = self._value(0, on_path=True)
        self._skip()
        if self._at < len(self._text):
            raise self._wrong("something follows the end")
        return span

    def _value(self, depth: int, *, on_path: bool) -> Span:
        opened = self._text[self._at : self._at + 1]
        if not on_path and not self._comments:
            return self._decoded()
        if opened in ("{", "["):
            if depth == _DEEPEST:
                raise self._wrong("too many levels")
            return self._object(depth, on_path=on_path) if opened == "{" else self._array(depth)
        found = (_STRING if opened == '"' else _PLAIN).match(self._text, self._at)
        if not found:
            raise self._wrong("a value is expected")
        self._at = found.end()
        return Span(found.start(), found.end(), json.loads(found[0]))

    def _decoded(self) -> Span:
        start = self._at
        try:
            value, self._at = _DECODER.raw_decode(self._text, start)
        except json.JSONDecodeError as error:
            self._at = error.pos
            raise self._wrong(error.msg.lower()) from None
        except ValueError as error:
            raise self._wrong(f"'{error}' is no value of JSON") from None
        except RecursionError:
            raise self._wrong("too many levels") from None
        return Span(start, self._at, value)

    def _object(self, depth: int, *, on_path: bool) -> Span:
        entries, start = list[Entry](), self._at
        values: dict[str, JsonValue] = {}
        trailing = False
        while self._next(entries, "}", trailing=trailing):
            key = _STRING.match(self._text, self._at)
            if not key:
                raise self._wrong("a key in double quotes is expected")
            self._at = key.end()
            self._skip()
            self._expect(":")
            self._skip()
            name = json.loads(key[0])
            span = self._value(depth + 1, on_path=on_path and depth < len(self._path) and name == self._path[depth])
            entries.append(Entry(key.start(), name, span))
            values[name] = span.value
            trailing = self._comma("}")
        return Span(start, self._at, values, entries, trailing)

    def _array(self, depth: int) -> Span:
        entries, start = list[Entry](), self._at
        trailing = False
        while self._next(entries, "]", trailing=trailing):
            span = self._value(depth + 1, on_path=False)
            entries.append(Entry(span.start, None, span))
            trailing = self._comma("]")
        return Span(start, self._at, [entry.span.value for entry in entries], entries, trailing)

    def _next(self, entries: list[Entry], end: str, *, trailing: bool) -> bool:
        """Step to the next entry; False, and past the end, when there is none."""
        if not entries:
            self._at += 1
        self._skip()
        if self._text.startswith(end, self._at):
            if trailing and not self._comments:
                raise self._wrong("a comma stands before the end")
            self._at += 1
            return False
        if entries and not trailing:
            raise self._wrong("a comma is expected")
        return True

    def _comma(self, end: str) -> bool:
        self._skip()
        if not self._text.startswith(",", self._at):
            if not self._text.startswith(end, self._at):
                raise self._wrong("a comma is expected")
            return False
        self._at += 1
        return True

    def _expect(self, mark: str) -> None:
        if not self._text.startswith(mark, self._at):
            raise self._wrong(f"'{mark}' is expected")
        self._at += 1

    def _skip(self) -> None:
        found = self._skipped.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _wrong(self, what: str) -> BadInput:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        return BadInput(f"line {line}, column {column}: {what}")
