"""Markdown: fenced code (CommonMark 4.5, 5.1 and 5.2), protected regions and links of a document."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import re2

from skillopt_mcp.core.text import BOM, Unified, dominant_ending
from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.frontmatter import FrontMatter

_OPENING = re.compile(rb"(`{3,})[^`]*$|(~{3,})")
_ITEM = re.compile(rb"(?:[-*+]|[0-9]{1,9}[.)])(?=[ \t])")
_NESTED = re2.compile(rb"(?:\A|[\r\n])[ \t>*+.)0-9-]+(?:```|~~~)")
_CODE_INDENT = 4
_LIST_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Fenced:
    """One block of fenced code, fences included. Not `closed`: the document ended before its closing fence came."""

    start: int
    end: int
    closed: bool


@dataclass(frozen=True, slots=True)
class _Line:
    """A line after its indentation: `depth` counts quote marks, `column` is where `text` begins (tab stops of 4)."""

    depth: int
    column: int
    text: bytes


def fenced_code(content: bytes, start: int) -> tuple[Fenced, ...]:
    """The fenced code from offset `start` on, in order."""
    if b"```" not in content and b"~~~" not in content:
        return ()
    found: list[Fenced] = []
    items: list[int] = []
    mark, opened, container, quotes = b"", 0, 0, 0  # of the fence that is open, where there is a mark
    depth, at = 0, start
    flat = _NESTED.search(content, start) is None
    for raw in content[start:].splitlines(keepends=True):
        if flat and raw[0] not in b"`~":
            # No list or quote holds a fence, so other lines cannot matter.
            at += len(raw)
            continue
        line = _measure_line(raw)
        if mark and (line.depth < quotes or (line.text and line.column < container)):
            # The list item or the quote in which the fence was opened has ended.
            found.append(Fenced(opened, at, closed=True))
            mark = b""
        if mark:
            is_marked = line.text.startswith(mark) and not line.text.strip(mark[:1])
            if is_marked and line.column - container < _CODE_INDENT and line.depth == quotes:
                found.append(Fenced(opened, at + len(raw), closed=True))
                mark = b""
        elif line.text:
            if line.depth != depth:
                items.clear()
                depth = line.depth
            line = _enter_items(line, items)
            inner = items[-1] if items else 0
            opening = _OPENING.match(line.text) if line.column - inner < _CODE_INDENT else None
            if opening:
                mark, opened, container, quotes = opening[1] or opening[2], at, inner, line.depth
        at += len(raw)
    if mark:
        found.append(Fenced(opened, at, closed=False))
    return tuple(found)


def _measure_line(raw: bytes) -> _Line:
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


def _enter_items(line: _Line, items: list[int]) -> _Line:
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


_MARKER = re.compile(rb"<!--\s*(SLOW_UPDATE|APPENDIX)_(START|END)\s*-->")
_BLANK_REST = re.compile(rb"[ \t]*(?:\r\n|\n|\r|\Z)")
_MARKER_TEXT = re.compile(r"<!--\s*(?:SLOW_UPDATE|APPENDIX)_(?:START|END)", re.IGNORECASE)


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
        merged: list[tuple[int, int]] = []
        for start, end in sorted([*self._find_regions(b"SLOW_UPDATE"), *self._find_regions(b"APPENDIX")]):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return tuple(merged)

    def region(self, kind: str) -> tuple[int, int] | None:
        """The inside of the first whole region of a kind, as (start, end) between its two markers, or None."""
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
        """The stretches that no anchor may touch, as (start, end): byte order mark, front matter, protected regions."""
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
    def _markers(self) -> list[re.Match[bytes]]:
        """The markers that are not inside closed fenced code, in order."""
        if b"_START" not in self.content and b"_END" not in self.content:
            return []
        markers = list(_MARKER.finditer(self.content, self.body_start))
        # Only now is the fenced code worth finding.
        blocks = [block for block in self.code if block.closed] if markers else []
        kept, at = [], 0
        for marker in markers:
            while at < len(blocks) and blocks[at].end <= marker.start():
                at += 1
            if at == len(blocks) or marker.start() < blocks[at].start:
                kept.append(marker)
        return kept

    def _find_regions(self, kind: bytes) -> Iterator[tuple[int, int]]:
        """Yield the regions of a kind, each with the rest of its markers' lines where these are blank."""
        opened: int | None = None
        for marker in self._markers:
            if marker[1] != kind:
                continue
            if opened is None:
                start = marker.start()
                while start > self.body_start and self.content[start - 1] in b" \t":
                    start -= 1
                begins_line = start == self.body_start or self.content[start - 1] in b"\r\n"
                opened = start if begins_line else marker.start()
            if marker[2] == b"END":
                rest = _BLANK_REST.match(self.content, marker.end())
                yield opened, rest.end() if rest else marker.end()
                opened = None
        if opened is not None:
            yield opened, len(self.content)


@lru_cache(maxsize=32)
def parse(content: bytes) -> Document:
    """Return the document of these bytes; any bytes are one. A loop parses its current version again and again."""
    return Document(content)


def has_marker(text: str) -> bool:
    """Whether `text` holds a marker of a protected region, or the beginning of one."""
    return _MARKER_TEXT.search(text) is not None


# RE2 takes time in proportion to the text, whatever brackets it holds. What a backslash takes the meaning from is read
# as a pair of its own.
_LINK = re2.compile(r"""\\.|\[(?:\\.|[^\[\]\\\n])*\]\(\s*(?:<([^<>\n]*)>|<?([^)\s>]+)>?)(?:\s+["'][^)]*)?\)""")
_LABEL = re2.compile(r"\\.|\[((?:\\.|[^\[\]\\])+)\]")
_DEFINITION = re2.compile(
    r"""[ ]{0,3}\[([^\^\[\]\\](?:\\.|[^\[\]\\])*)\]:[ \t]*(?:<([^<>]*)>|([^\s<]\S*))"""
    r"""(?:[ \t]+(?:"[^"]*"|'[^']*'|\([^()]*\)))?[ \t]*"""
)
_MENTION = re.compile(r"(?:references|scripts|assets)/[\w./-]+\.\w+")
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|/|~")
_COMMENT_OR_CODE = re.compile(r"<!--|`+")
# Patterns that begin with one byte are searched fast.
_GUESS = re.compile(rb"\](?:\(\s*<?([^)\s>]+)|:[ \t]*<?([^\s>]+))")
_GUESS_MENTION = re.compile(rb"`\s*((?:references|scripts|assets)/[^`\s]+)")
# Inline code ends with its paragraph, at the latest.
_BREAK = re.compile(r"\n[ \t]*(?=\n|\Z|#|>|[-*+][ \t]|[0-9]{1,9}[.)][ \t])")


def find_links(content: bytes) -> Iterator[tuple[str, str, bool]]:
    """Yield the links of a document that lead to files, and then its mentions of files in a skill's own folders.

    Each is a path as it is written, without a fragment, the path that it names, and whether it is a mention: inline
    code that is but a path.
    """
    document = parse(content)
    pieces, at = [], document.body_start
    for block in document.code:
        pieces.append(content[at : block.start])
        at = block.end
    text, codes = _strip_inline(b"\n\n".join([*pieces, content[at:]]).decode("utf-8", "replace"))
    for target in (*(found[1] or found[2] or "" for found in _LINK.finditer(text)), *_find_targets(text)):
        written = target.partition("#")[0]
        if written and not _ELSEWHERE.match(written):
            yield written, written.replace("%20", " "), False
    yield from ((code, code, True) for code in codes if _MENTION.fullmatch(code))


def guess_links(content: bytes) -> Iterator[tuple[str, bool]]:
    """Yield the paths that `find_links` may find, and whether each is a mention; also those in code, but in no time."""
    for found in _GUESS.finditer(content):
        path = (found[1] or found[2]).decode("utf-8", "replace").partition("#")[0].replace("%20", " ")
        if path and not _ELSEWHERE.match(path):
            yield path, False
    yield from ((found[1].decode("utf-8", "replace"), True) for found in _GUESS_MENTION.finditer(content))


def _find_targets(text: str) -> Iterator[str]:
    """Yield the targets of the link definitions that the text refers to (CommonMark 4.7, each on one line)."""
    if "]:" not in text:
        return
    defined: dict[str, str] = {}
    lines: list[str] = []
    may_begin = True
    for line in text.splitlines():
        definition = _DEFINITION.fullmatch(line) if may_begin and "]:" in line else None
        if definition:
            defined.setdefault(_normalize_label(definition[1]), definition[2] or definition[3] or "")
        else:
            lines.append(line)
            # A paragraph goes on, and no definition begins in it.
            may_begin = not line.strip() or line.startswith("#")
    if defined:
        used = {_normalize_label(found[1]) for found in _LABEL.finditer("\n".join(lines)) if found[1]}
        yield from (target for label, target in defined.items() if label in used)


def _normalize_label(written: str) -> str:
    return " ".join(written.split()).casefold()


def _strip_inline(text: str) -> tuple[str, list[str]]:
    """Return the text without comments and inline code, and the texts in that code (CommonMark 4.6 and 6.1)."""
    kept, codes = list[str](), list[str]()
    marks = [found.span() for found in _COMMENT_OR_CODE.finditer(text)]
    # Where runs of backticks begin, by their length: found once, so that none is looked for again and again.
    runs: dict[int, list[int]] = {}
    for start, end in marks:
        if text[start] == "`":
            runs.setdefault(end - start, []).append(start)
    breaks = [found.start() for found in _BREAK.finditer(text)] if runs else []
    at = 0
    for start, end in marks:
        if start < at:
            continue
        kept.append(text[at:start])
        if text[start] == "<":
            closed = text.find("-->", end)
            at = len(text) if closed < 0 else closed + len("-->")
            continue
        is_escaped = text[start - 1 : start] == "\\"
        n = end - start - is_escaped
        like = runs.get(n, [])
        next_run, next_break = bisect_left(like, end), bisect_left(breaks, end)
        if next_run == len(like) or (next_break < len(breaks) and breaks[next_break] < like[next_run]):
            kept.append(text[start:end])
            at = end
        else:
            codes.append(text[end : like[next_run]].strip())
            at = like[next_run] + n
    return "".join([*kept, text[at:]]), codes
