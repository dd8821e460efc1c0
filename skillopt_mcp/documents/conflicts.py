"""Conflicts: the marks that git leaves in a file where nobody has finished a merge."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.fences import Fenced, fenced_code
from skillopt_mcp.documents.lines import is_text, to_lf
from skillopt_mcp.records.skills import SkillFiles

SETTLE = "settle the conflict, or fence or indent what is meant to be there"
"""What to do about a conflict: what only shows one stands in fenced code, or not at the beginning of its line."""
_MARK = re.compile(rb"^(?:<{7}|>{7})(?= |$)", re.MULTILINE)
_PART = re.compile(rb"^(?:(?:<{7}|>{7})(?= |$)|={7}$)", re.MULTILINE)
_PROSE = (".md", ".markdown", ".txt")
_LINES_SHOWN = 4


def conflicts(files: SkillFiles) -> Iterator[str]:
    """Yield of each text that git left a conflict in, where its marks are; fenced code may show some.

    A program cannot fence what it holds: there it takes all three marks, in their order.
    """
    for file in files.files:
        is_prose = file.path.lower().endswith(_PROSE)
        if (lines := _marked(file.content)) and is_text(file.content) and (is_prose or _is_whole(file.content)):
            shown = ", ".join(map(str, lines[:_LINES_SHOWN])) + (", ..." if len(lines) > _LINES_SHOWN else "")
            yield f"{quoted(file.path)} has the marks of an unfinished merge (line {shown})"


def _marked(content: bytes) -> list[int]:
    """Return the lines, from 1, that are marks outside of fenced code: as many as are shown, and one more."""
    text = to_lf(content)
    marks = [found.start() for found in _MARK.finditer(text)]
    code = fenced_code(text, frontmatter.block_end(text) or 0) if marks else ()
    outside = (at for at in marks if not _is_fenced(code, at))
    return [text.count(b"\n", 0, at) + 1 for at in islice(outside, _LINES_SHOWN + 1)]


def _is_whole(content: bytes) -> bool:
    """Return whether a conflict's beginning, middle and end follow each other somewhere."""
    parts = b"".join(found[0][:1] for found in _PART.finditer(to_lf(content)))
    middle = parts.find(b"=", parts.find(b"<") + 1)
    return b"<" in parts and middle >= 0 and b">" in parts[middle:]


def _is_fenced(code: Sequence[Fenced], at: int) -> bool:
    after = bisect_right(code, at, key=lambda each: each.end)
    return after < len(code) and code[after].start <= at
