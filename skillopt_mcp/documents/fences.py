"""Fences: where fenced code begins and ends, inside lists and quotes too (CommonMark 4.5, 5.1 and 5.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPENING = re.compile(rb"(`{3,})[^`]*$|(~{3,})")
_ITEM = re.compile(rb"(?:[-*+]|[0-9]{1,9}[.)])(?=[ \t])")
_NESTED = re.compile(rb"(?:\A|[\r\n])[ \t>*+.)0-9-]+(?:```|~~~)")
_CODE_INDENT = 4
_LIST_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Fenced:
    """One block of fenced code, fences included. Not `closed`: the document ended before its closing fence came."""

    start: int
    end: int
    closed: bool


@dataclass(frozen=True, slots=True)
class _Open:
    start: int
    mark: bytes
    container: int
    depth: int


@dataclass(frozen=True, slots=True)
class _Line:
    """A line after its indentation: `depth` counts quote marks, `column` is where `text` begins (tab stops of 4)."""

    depth: int
    column: int
    text: bytes


def fenced_code(content: bytes, start: int) -> tuple[Fenced, ...]:
    """Return the fenced code from offset `start` on, in order."""
    if b"```" not in content and b"~~~" not in content:
        return ()
    found: list[Fenced] = []
    items: list[int] = []
    fence: _Open | None = None
    depth, at = 0, start
    flat = _NESTED.search(content, start) is None
    for raw in content[start:].splitlines(keepends=True):
        if flat and raw[0] not in b"`~":
            # No list or quote holds a fence, so other lines cannot matter.
            at += len(raw)
            continue
        line = _line(raw)
        if fence and _leaves(line, fence):
            found.append(Fenced(fence.start, at, closed=True))
            fence = None
        if fence:
            if _closes(line, fence):
                found.append(Fenced(fence.start, at + len(raw), closed=True))
                fence = None
        elif line.text:
            if line.depth != depth:
                items.clear()
                depth = line.depth
            line = _entered(line, items)
            fence = _opened(line, items[-1] if items else 0, at)
        at += len(raw)
    if fence:
        found.append(Fenced(fence.start, at, closed=False))
    return tuple(found)


def _line(raw: bytes) -> _Line:
    depth = column = margin = at = 0
    while at < len(raw):
        byte = raw[at]
        if byte == 0x20:
            column += 1
        elif byte == 0x09:
            column += 4 - column % 4
        elif byte == 0x3E and column - margin < _CODE_INDENT:
            depth, column, margin = depth + 1, 0, 1
        else:
            break
        at += 1
    return _Line(depth, max(column - margin, 0), raw[at:].strip())


def _entered(line: _Line, items: list[int]) -> _Line:
    """Return the line after its list markers; `items` then holds the columns where the open items' text begins."""
    while items and line.column < items[-1]:
        items.pop()
    while len(items) < _LIST_DEPTH and (marker := _ITEM.match(line.text)):
        if line.column - (items[-1] if items else 0) >= _CODE_INDENT:
            break
        rest = line.text[marker.end() :]
        text = rest.lstrip(b" \t")
        gap = len(rest) - len(text)
        width = marker.end() + (gap if gap <= _CODE_INDENT else 1)
        items.append(line.column + width)
        line = _Line(line.depth, line.column + marker.end() + gap, text)
    return line


def _opened(line: _Line, container: int, at: int) -> _Open | None:
    if line.text[:3] not in (b"```", b"~~~") or line.column - container >= _CODE_INDENT:
        return None
    match = _OPENING.match(line.text)
    return _Open(at, match[1] or match[2], container, line.depth) if match else None


def _leaves(line: _Line, fence: _Open) -> bool:
    """Return whether the line is outside the list item or the quote in which the fence was opened."""
    return line.depth < fence.depth or (bool(line.text) and line.column < fence.container)


def _closes(line: _Line, fence: _Open) -> bool:
    mark = fence.mark[:1]
    return (
        line.text.startswith(fence.mark)
        and not line.text.strip(mark)
        and line.column - fence.container < _CODE_INDENT
        and line.depth == fence.depth
    )
