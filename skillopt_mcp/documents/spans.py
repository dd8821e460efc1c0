"""Spans: a document's bytes cut into front matter, body, fenced code and protected regions, losing none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.fences import Fenced, fenced_code
from skillopt_mcp.documents.frontmatter import FrontMatter
from skillopt_mcp.documents.lines import BOM, Unified, dominant_ending

Kind = Literal["front_matter", "body", "code", "protected"]

_MARKER = re.compile(rb"<!--\s*(SLOW_UPDATE|APPENDIX)_(START|END)\s*-->")
_BLANK_REST = re.compile(rb"[ \t]*(?:\r\n|\n|\r|\Z)")
_MARKER_TEXT = re.compile(r"<!--\s*(?:SLOW_UPDATE|APPENDIX)_(?:START|END)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a document: bytes from `start` up to, not including, `end`."""

    kind: Kind
    start: int
    end: int


@dataclass(frozen=True)
class Document:
    """A document and its parts. Front matter that cannot be read is body: nothing about it is known.

    Protected regions run from marker to marker, the markers and the rest of their lines included.
    """

    content: bytes

    @cached_property
    def front(self) -> FrontMatter | None:
        """Return the front matter, or None when it is absent or opaque."""
        return frontmatter.read(self.content)

    @cached_property
    def body_start(self) -> int:
        """Return the offset after the front matter, or after a byte order mark."""
        if self.front:
            return self.front.end
        return len(BOM) if self.content.startswith(BOM) else 0

    @cached_property
    def code(self) -> tuple[Fenced, ...]:
        """Return the fenced code of the body, in order."""
        return fenced_code(self.content, self.body_start)

    @cached_property
    def protected(self) -> tuple[tuple[int, int], ...]:
        """Return the protected regions as (start, end), in order and disjoint.

        Markers inside closed fenced code are text. A START without its END protects all that follows, an END without
        its START itself alone.
        """
        regions = [region for kind in (b"SLOW_UPDATE", b"APPENDIX") for region in self._regions(self._markers, kind)]
        return _merged(regions)

    def region(self, kind: str) -> tuple[int, int] | None:
        """Return what the first whole region of a kind encloses, as (start, end) between its two markers, or None."""
        opened: int | None = None
        for marker in self._markers:
            if marker[1] != kind.encode():
                continue
            if marker[2] == b"END" and opened is not None:
                return opened, marker.start()
            if marker[2] == b"START" and opened is None:
                opened = marker.end()
        return None

    @cached_property
    def reserved(self) -> tuple[tuple[int, int], ...]:
        """Return what anchors may not touch, as (start, end): byte order mark, front matter, protected regions."""
        return ((0, self.body_start), *self.protected) if self.body_start else self.protected

    @cached_property
    def unified(self) -> Unified:
        """Return the content with one kind of line ending, for matching."""
        return Unified(self.content)

    @cached_property
    def ending(self) -> bytes:
        """Return the dominant line ending."""
        return dominant_ending(self.content)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Return the spans in order; together they are the whole content."""
        cuts: list[Span] = []
        if self.front:
            cuts.append(Span("front_matter", 0, self.front.end))
        code = [(block.start, block.end) for block in self.code]
        free = [piece for block in code for piece in _without(block, self.protected)]
        cuts += [Span("protected", start, end) for start, end in self.protected]
        cuts += [Span("code", start, end) for start, end in free]
        whole: list[Span] = []
        at = 0
        for cut in sorted(cuts, key=lambda span: span.start):
            if cut.start > at:
                whole.append(Span("body", at, cut.start))
            whole.append(cut)
            at = cut.end
        return (*whole, Span("body", at, len(self.content))) if at < len(self.content) else tuple(whole)

    @cached_property
    def _markers(self) -> list[re.Match[bytes]]:
        if b"_START" not in self.content and b"_END" not in self.content:
            return []
        markers = list(_MARKER.finditer(self.content, self.body_start))
        # Only now is the fenced code worth finding.
        return _outside(markers, self.code) if markers else []

    def _regions(self, markers: list[re.Match[bytes]], kind: bytes) -> list[tuple[int, int]]:
        regions = []
        opened: int | None = None
        for marker in markers:
            if marker[1] != kind:
                continue
            if marker[2] == b"START":
                opened = self._line_start(marker.start()) if opened is None else opened
            else:
                start = self._line_start(marker.start()) if opened is None else opened
                regions.append((start, self._line_end(marker.end())))
                opened = None
        return regions if opened is None else [*regions, (opened, len(self.content))]

    def _line_start(self, at: int) -> int:
        start = at
        while start > self.body_start and self.content[start - 1] in b" \t":
            start -= 1
        return start if start == self.body_start or self.content[start - 1] in b"\r\n" else at

    def _line_end(self, at: int) -> int:
        rest = _BLANK_REST.match(self.content, at)
        return rest.end() if rest else at


@lru_cache(maxsize=32)
def parse(content: bytes) -> Document:
    """Return the document of these bytes; any bytes are one. A loop parses its current version again and again."""
    return Document(content)


def has_marker(text: str) -> bool:
    """Return whether `text` holds a marker of a protected region, or the beginning of one."""
    return _MARKER_TEXT.search(text) is not None


def _outside(markers: list[re.Match[bytes]], code: tuple[Fenced, ...]) -> list[re.Match[bytes]]:
    kept = []
    blocks = [block for block in code if block.closed]
    at = 0
    for marker in markers:
        while at < len(blocks) and blocks[at].end <= marker.start():
            at += 1
        if at == len(blocks) or marker.start() < blocks[at].start:
            kept.append(marker)
    return kept


def _merged(regions: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(regions):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _without(block: tuple[int, int], regions: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    pieces = []
    at, end = block
    for start, stop in regions:
        if stop <= at or start >= end:
            continue
        if start > at:
            pieces.append((at, start))
        at = max(at, stop)
    return [*pieces, (at, end)] if at < end else pieces
