"""Conflicts: the marks that git leaves in a file where nobody has finished a merge."""

from __future__ import annotations

import re
from collections.abc import Iterator

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.fences import fenced_code
from skillopt_mcp.documents.lines import is_text, to_lf
from skillopt_mcp.records.skills import SkillFiles

_MARK = re.compile(rb"^(?:<{7}|>{7})(?= |$)", re.MULTILINE)
_LINES_SHOWN = 4


def conflicts(files: SkillFiles) -> Iterator[str]:
    """Yield of each text that git left a conflict in, where its marks are; fenced code may show some."""
    for file in files.files:
        if (lines := _marked(file.content)) and is_text(file.content):
            shown = ", ".join(map(str, lines[:_LINES_SHOWN])) + (", ..." if len(lines) > _LINES_SHOWN else "")
            yield f"{quoted(file.path)} has the marks of an unfinished merge (line {shown})"


def _marked(content: bytes) -> list[int]:
    """Return the lines, from 1, that are marks outside of fenced code."""
    text = to_lf(content)
    marks = [found.start() for found in _MARK.finditer(text)]
    code = fenced_code(text, frontmatter.block_end(text) or 0) if marks else ()
    outside = [at for at in marks if not any(each.start <= at < each.end for each in code)]
    return [text.count(b"\n", 0, at) + 1 for at in outside]
