"""JSON edits: change one value of a JSON text and keep every other byte, comments and trailing commas too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from skillopt_mcp.errors import BadInput

# A string, or what only some hosts allow: a comment, a comma before the end.
_TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=[ \t\r\n]*[}\]])')
_BLANK = re.compile(r"[ \t\r\n]*")


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"'{name}' is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


@dataclass(slots=True)
class Span:
    """A value from `start` to `end`; `entries` are those of an object or array that a path leads to or through."""

    start: int
    end: int
    value: JsonValue
    entries: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class Entry:
    """A member of an object or an element of an array (then `key` is None), from its key to the end of its value."""

    start: int
    key: str | None
    span: Span


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """Return a text with spaces in the place of what a pattern finds, but for strings and line ends."""
    return pattern.sub(lambda at: at[0] if at[0].startswith('"') else re.sub(r"[^\n]", " ", at[0]), text)


class _Reader:
    """Reads strict JSON with the spans along a path; what no path leads to, the standard library decodes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def whole(self, path: Sequence[str]) -> Span:
        span = self._value(self._skip(0), path)
        if self._skip(span.end) < len(self._text):
            raise self._wrong(self._skip(span.end), "something follows the end")
        return span

    def _value(self, at: int, path: Sequence[str] | None) -> Span:
        opened = self._text[at : at + 1]
        if path is None or opened not in ("{", "["):
            value, end = self._decoded(at)
            return Span(at, end, value)
        start, entries, close = at, list[Entry](), "}" if opened == "{" else "]"
        at = self._skip(at + 1)
        while not (self._text.startswith(close, at) and not entries):
            first, key = at, None
            if opened == "{":
                key, at = self._key(at)
            span = self._value(at, path[1:] if path and path[0] == key else None)
            entries.append(Entry(first, key, span))
            at = self._skip(span.end)
            if self._text.startswith(close, at):
                break
            if not self._text.startswith(",", at):
                raise self._wrong(at, "a comma is expected")
            at = self._skip(at + 1)
            if self._text.startswith(close, at):
                raise self._wrong(at, "a comma is before the end")
        values = [entry.span.value for entry in entries]
        value = values if opened == "[" else {str(e.key): v for e, v in zip(entries, values, strict=True)}
        return Span(start, at + 1, value, entries)

    def _key(self, at: int) -> tuple[str, int]:
        if not self._text.startswith('"', at):
            raise self._wrong(at, "a key in double quotes is expected")
        key, at = self._decoded(at)
        at = self._skip(at)
        if not self._text.startswith(":", at):
            raise self._wrong(at, "a colon is expected")
        return str(key), self._skip(at + 1)

    def _decoded(self, at: int) -> tuple[JsonValue, int]:
        try:
            value, end = _DECODER.raw_decode(self._text, at)
        except json.JSONDecodeError as error:
            raise self._wrong(error.pos, error.msg.lower()) from None
        except RecursionError:
            raise self._wrong(at, "too many levels") from None
        except ValueError as error:
            raise self._wrong(at, str(error)) from None
        return value, end

    def _skip(self, at: int) -> int:
        found = _BLANK.match(self._text, at)
        return found.end() if found else at

    def _wrong(self, at: int, what: str) -> BadInput:
        line, column = self._text.count("\n", 0, at) + 1, at - self._text.rfind("\n", 0, at)
        return BadInput(f"line {line}, column {column}: {what}")


_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n]*|/\*[^\n]*?\*/)?")
_INDENT = re.compile(r"\n([ \t]+)\S")
_BYTE_ORDER_MARK = "\ufeff"


class JsonText:
    """A JSON text under edit; with `comments` it may have comments and trailing commas, as some hosts read it."""

    def __init__(self, text: str, *, comments: bool) -> None:
        """Read a text; an empty one is an empty object. Raises BadInput when it is no JSON object."""
        self._mark, text = (_BYTE_ORDER_MARK, text[1:]) if text.startswith(_BYTE_ORDER_MARK) else ("", text)
        self._text = text if text.strip() else "{}\n"
        self._comments = comments
        self._newline = "\r\n" if "\r\n" in text else "\n"
        unit = _INDENT.search(text)
        self._unit = unit[1] if unit else "  "
        self._plain = bool(text.strip()) and "\n" not in text.strip()
        if not isinstance(self.value, dict):
            raise BadInput("line 1, column 1: an object {...} is expected")

    @property
    def text(self) -> str:
        """Return the text as it is now."""
        return self._mark + self._text

    @property
    def value(self) -> JsonValue:
        """Return what the text says now."""
        return self._root(()).value

    def set(self, path: Sequence[str], value: JsonValue) -> None:
        """Give the member at `path` a value; objects on the way to it are made. Raises BadInput for another kind."""
        span, depth = self._root(path), 0
        for depth, key in enumerate(path):
            entry = _member(span, key)
            if entry is None:
                break
            span = entry.span
            if depth < len(path) - 1 and not isinstance(span.value, dict):
                raise BadInput(f"'{'.'.join(path[: depth + 1])}' is no object")
        else:
            if span.value != value:
                self._replace(span, value)
            return
        for key in reversed(path[depth + 1 :]):
            value = {key: value}
        self._add(span, path[depth], value)

    def append(self, path: Sequence[str], value: JsonValue) -> None:
        """Put an element at the end of the array at `path`, which is made if need be. Raises BadInput."""
        span = self._find(path)
        if span is None:
            self.set(path, [value])
        elif isinstance(span.value, list):
            self._add(span, None, value)
        else:
            raise BadInput(f"'{'.'.join(path)}' is no array")

    def remove(self, path: Sequence[str]) -> None:
        """Take out the member at `path`, and the objects around it that it leaves empty."""
        span = self._find(path[:-1])
        entry = _member(span, path[-1]) if span else None
        if span is None or entry is None:
            return
        self._cut(span, entry)
        if len(span.entries) == 1 and len(path) > 1:
            self.remove(path[:-1])

    def remove_elements(self, path: Sequence[str], chosen: Callable[[JsonValue], bool]) -> None:
        """Take the chosen elements out of the array at `path`; then what this leaves empty."""
        while True:
            span = self._find(path)
            entry = next((each for each in span.entries if chosen(each.span.value)), None) if span else None
            if span is None or entry is None or not isinstance(span.value, list):
                return
            self._cut(span, entry)
            if len(span.entries) == 1:
                self.remove(path)

    def replace_elements(self, path: Sequence[str], change: Callable[[JsonValue], JsonValue]) -> None:
        """Put what a change makes of it in the place of each element of the array at `path` that it changes."""
        span = self._find(path)
        # From the last one on, so that the places of those before it stay.
        for entry in reversed(span.entries if span and isinstance(span.value, list) else []):
            if (changed := change(entry.span.value)) != entry.span.value:
                self._replace(entry.span, changed)

    def _root(self, path: Sequence[str]) -> Span:
        text = _blanked(_TRAILING, _blanked(_TOKENS, self._text)) if self._comments else self._text
        return _Reader(text).whole(path)

    def _trailing_comma(self, entry: Entry) -> int | None:
        """Return where a comma ends that follows the last entry, None where there is none."""
        text = _blanked(_TOKENS, self._text) if self._comments else self._text
        comma = re.compile(r"[ \t\r\n]*,").match(text, entry.span.end)
        return comma.end() if comma else None

    def _find(self, path: Sequence[str]) -> Span | None:
        span = self._root(path)
        for key in path:
            entry = _member(span, key)
            if entry is None:
                return None
            span = entry.span
        return span

    def _replace(self, span: Span, value: JsonValue) -> None:
        shown = self._shown(value, self._indent_at(span.start))
        self._text = self._text[: span.start] + shown + self._text[span.end :]

    def _add(self, span: Span, key: str | None, value: JsonValue) -> None:
        """Put an entry behind the last one and the comment on its line."""
        outer = self._indent_at(span.start)
        inner = self._indent_at(span.entries[0].start) if span.entries else outer + self._unit
        name = "" if key is None else json.dumps(key, ensure_ascii=False) + (":" if self._is_tight else ": ")
        new = name + self._shown(value, inner)
        if not span.entries:
            self._fill(span, new, inner, outer)
            return
        last = span.entries[-1].span.end
        comma = self._trailing_comma(span.entries[-1])
        on_a_line = self._on_a_line(span.entries[-1])
        rest = _REST_OF_LINE.match(self._text, comma or last) if on_a_line else None
        at = rest.end() if rest and rest[0].strip() else comma or last
        gap = f"{self._newline}{inner}" if on_a_line else "" if self._is_tight else " "
        head = self._text[:last] + ("" if comma else ",") + self._text[last:at]
        self._text = f"{head}{gap}{new}{',' if comma else ''}{self._text[at:]}"

    def _fill(self, span: Span, new: str, inner: str, outer: str) -> None:
        """Put an entry into an object or array that has none; a comment in it stays before it."""
        body = self._text[span.start + 1 : span.end - 1]
        if self._plain:
            filled = body.rstrip() + new
        else:
            filled = f"{body.rstrip()}{self._newline}{inner}{new}{self._newline}{outer}"
        self._text = self._text[: span.start + 1] + filled + self._text[span.end - 1 :]

    def _cut(self, span: Span, entry: Entry) -> None:
        """Take an entry out: its line, its comma, and where it was the last one the comma before it."""
        at = span.entries.index(entry)
        before = span.entries[at - 1].span.end if at else span.start + 1
        comma = self._trailing_comma(entry)
        blank = len(self._text[: entry.start]) - len(self._text[: entry.start].rstrip(" \t\r\n"))
        start = entry.start - min(blank, entry.start - before)
        head, tail = self._text[:start], self._text[comma or entry.span.end :]
        if at and not comma:
            # The comma before it was its own.
            own = self._text.index(",", before)
            head = head[:own] + head[own + 1 :]
        if len(span.entries) == 1 and not head[span.start + 1 :].strip():
            head, tail = head[: span.start + 1], tail[len(tail) - len(tail.lstrip(" \t\r\n")) :]
        self._text = head + tail

    def _on_a_line(self, entry: Entry) -> bool:
        start = self._text.rfind("\n", 0, entry.start)
        return start >= 0 and not self._text[start : entry.start].strip()

    def _indent_at(self, at: int) -> str:
        """Return the blanks that the line at this place begins with."""
        line = self._text[self._text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    @property
    def _is_tight(self) -> bool:
        return self._plain and '": ' not in self._text and '":' in self._text

    def _shown(self, value: JsonValue, indent: str) -> str:
        if self._plain:
            separators = (",", ":") if self._is_tight else (", ", ": ")
            return json.dumps(value, ensure_ascii=False, separators=separators)
        shown = json.dumps(value, ensure_ascii=False, indent=self._unit)
        return shown.replace("\n", self._newline + indent)


def _member(span: Span, key: str) -> Entry | None:
    """Return the member of an object. Raises BadInput when two of them share the key."""
    found = [entry for entry in span.entries if entry.key == key]
    if len(found) > 1:
        raise BadInput(f"the key '{key}' stands there {len(found)} times")
    return found[0] if found else None
