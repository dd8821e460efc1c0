"""Links: the paths that a Markdown text links to, or names in code, as it writes them; code and comments hold none."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import re2

from skillopt_mcp.documents.spans import parse

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
_OPENING = re.compile(r"<!--|`+")
_TICKS = re.compile(r"`+")
# Inline code ends with its paragraph, at the latest.
_BREAK = re.compile(r"\n[ \t]*(?=\n|\Z|#|>|[-*+][ \t]|[0-9]{1,9}[.)][ \t])")


@dataclass(frozen=True, slots=True)
class Link:
    """A path as `written`, without a fragment; `path` is what it names. A mention is inline code that is but a path."""

    written: str
    path: str
    is_mention: bool = False


def links(content: bytes) -> Iterator[Link]:
    """Yield the links of a document that lead to files, and then its mentions of files in a skill's own folders."""
    text, codes = _readable(_without_fences(content))
    for target in (*(found[1] or found[2] or "" for found in _LINK.finditer(text)), *_referred(text)):
        written = target.partition("#")[0]
        if written and not _ELSEWHERE.match(written):
            yield Link(written, written.replace("%20", " "))
    for code in codes:
        if _MENTION.fullmatch(code):
            yield Link(code, code, is_mention=True)


def _referred(text: str) -> Iterator[str]:
    """Yield the targets of the link definitions that the text refers to (CommonMark 4.7, each on one line)."""
    defined: dict[str, str] = {}
    lines: list[str] = []
    may_begin = True
    for line in text.splitlines():
        definition = _DEFINITION.fullmatch(line) if may_begin and "]:" in line else None
        if definition:
            defined.setdefault(_label(definition[1]), definition[2] or definition[3] or "")
        else:
            lines.append(line)
            # A paragraph goes on, and no definition begins in it.
            may_begin = not line.strip() or line.startswith("#")
    if defined:
        used = {_label(found[1]) for found in _LABEL.finditer("\n".join(lines)) if found[1]}
        yield from (target for label, target in defined.items() if label in used)


def _label(written: str) -> str:
    return " ".join(written.split()).casefold()


def _without_fences(content: bytes) -> str:
    """Return the body, each stretch of fenced code as an empty line."""
    document = parse(content)
    pieces = []
    at = document.body_start
    for block in document.code:
        pieces.append(content[at : block.start])
        at = block.end
    return b"\n\n".join([*pieces, content[at:]]).decode("utf-8", "replace")


def _readable(text: str) -> tuple[str, list[str]]:
    """Return the text without comments and inline code, and what stood in that code (CommonMark 4.6 and 6.1)."""
    kept: list[str] = []
    codes: list[str] = []
    closings = _Closings(text)
    at = 0
    while found := _OPENING.search(text, at):
        kept.append(text[at : found.start()])
        if found[0] == "<!--":
            end = text.find("-->", found.end())
            at = len(text) if end < 0 else end + len("-->")
            continue
        is_escaped = text[found.start() - 1 : found.start()] == "\\"
        start = found.start() + is_escaped
        closing = closings.after(found.end(), found.end() - start)
        if closing is None:
            kept.append(found[0])
            at = found.end()
        else:
            codes.append(text[found.end() : closing].strip())
            at = closing + found.end() - start
    return "".join([*kept, text[at:]]), codes


class _Closings:
    """Where runs of backticks begin, by their length; found once, so that no run is looked for again and again."""

    def __init__(self, text: str) -> None:
        self._breaks = [found.start() for found in _BREAK.finditer(text)]
        self._runs: dict[int, list[int]] = {}
        for found in _TICKS.finditer(text):
            self._runs.setdefault(len(found[0]), []).append(found.start())

    def after(self, at: int, n: int) -> int | None:
        """Return where the next run of `n` backticks in the paragraph begins, or None."""
        runs, breaks = self._runs.get(n, []), self._breaks
        next_run, next_break = bisect_left(runs, at), bisect_left(breaks, at)
        if next_run == len(runs) or (next_break < len(breaks) and breaks[next_break] < runs[next_run]):
            return None
        return runs[next_run]
