"""Code lines: which lines of a Markdown document hold code, and by which one the code of two documents differs."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.text import is_text, quoted
from skillopt_mcp.documents.diffs import find_changes
from skillopt_mcp.documents.frontmatter import block_end
from skillopt_mcp.documents.markdown import parse

_CONTAINERS = re.compile(rb"(?: {0,3}(?:>|[-*+]|[0-9]{1,9}[.)])[ \t]?)*")
_INDENTED = re.compile(rb"(?: {4}| {0,3}\t)[ \t]*[^ \t]")
_PROMPT = re.compile(
    rb"[ \t]*(?:\$|>>>|PS>|(?:PS )?[A-Za-z]:\\[^>]*>|\[?[\w.-]+@[\w.-]+(?:[: ][^\s$#%]*)? ?[$#%])[ \t]+[^ \t]"
)
_TAGS = (b"pre", b"code", b"kbd", b"samp", b"tt", b"script", b"xmp")
_TAG = re.compile(rb"(^[ \t]*)?<(" + b"|".join(_TAGS) + rb")\b", re.MULTILINE)
_CLOSING = {tag: re.compile(b"</" + tag + rb"[\s/>]") for tag in _TAGS}
_FENCE = re.compile(rb"```|~~~")
_ESCAPE = ord("\\")
_TICKS = re.compile(rb"`+")
MAX_LINES, MAX_LINE_BYTES = 60, 6_000
_SHOWN_CODE = 60
_NAME = re.compile(r"[^\s()<>{}|;&$]*")


def find_touched_code(old: bytes, new: bytes) -> bytes | None:
    """The first line by which the code of two documents differs, or that is code in one alone; else None."""
    was, now = old.splitlines(), new.splitlines()
    code_was, code_now = code_lines(old), code_lines(new)
    at_old = at_new = 0
    for old_start, old_end, new_start, new_end in (*find_changes(was, now), (len(was), len(was), len(now), len(now))):
        # What is around a line that stays may make code of it.
        kept = [at for at in range(at_new, new_start) if (at in code_now) != (at - at_new + at_old in code_was)]
        added = [at for at in range(new_start, new_end) if at in code_now]
        gone = [at for at in range(old_start, old_end) if at in code_was]
        if kept or added or gone:
            return now[[*kept, *added][0]] if kept or added else was[gone[0]]
        at_old, at_new = old_end, new_end
    return None


def code_lines(content: bytes) -> frozenset[int]:
    """The lines of a document that hold code, counted from 0 as `bytes.splitlines` has them."""
    lines = content.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    blocks = [(block.start, block.end) for block in parse(content).code]
    blocks += _find_markup(content.lower())
    inside = {at for start, end in blocks for at in range(bisect_left(starts, start + 1) - 1, bisect_left(starts, end))}

    # Code that goes over lines is between two of a paragraph that each have a backtick without its other one.
    opened: int | None = None
    for at, line in enumerate(lines):
        if at in inside or not line.strip():
            opened = None
        elif b"`" in line and None in _read_ticks(line):
            inside.update(() if opened is None else range(opened + 1, at))
            opened = at

    for at, line in enumerate(each.rstrip(b"\r\n") for each in lines):
        found = _CONTAINERS.match(line)
        text = found.end() if found else 0
        in_ticks = _read_ticks(line) if b"`" in line else ()
        if (
            _INDENTED.match(line, text)
            or _PROMPT.match(line, text)
            or _PROMPT.match(line)
            or _FENCE.search(line)
            or any(each is None or not _NAME.fullmatch(each.decode("utf-8", "replace").strip()) for each in in_ticks)
        ):
            inside.add(at)
    return frozenset(inside)


def _find_markup(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield what is between tags of code; a tag that nothing closes marks all that follows where it begins a line."""
    at, unclosed = 0, set[bytes]()
    for found in _TAG.finditer(content):
        if found.start() < at:
            continue
        closing = None if found[2] in unclosed else _CLOSING[found[2]].search(content, found.end())
        if closing is None:
            unclosed.add(found[2])
            end = found.end() if found[1] is None else len(content)
        else:
            end = closing.start()
        yield found.start(), end
        at = end


def _read_ticks(line: bytes) -> Iterator[bytes | None]:
    """Yield what a line has in backticks; None, and nothing after it, for a backtick without its other one."""
    runs = [found.span() for found in _TICKS.finditer(line)]
    n = 0
    while n < len(runs):
        start, end = runs[n]
        before = start
        while before and line[before - 1] == _ESCAPE:
            before -= 1
        start += (start - before) % 2
        n += 1
        if start == end:
            continue
        closing = next((at for at in range(n, len(runs)) if runs[at][1] - runs[at][0] == end - start), None)
        if closing is None:
            yield None
            return
        yield line[end : runs[closing][0]]
        n = closing + 1


def explain_large_edit(base: SkillFiles, new: SkillFiles) -> str:
    """Why a change is more than a small edit of the words of the main document's body, or an empty string.

    Nothing that a host reads as configuration, or that an agent may run, is among those words.
    """
    paths = {file.path for file in (*base.files, *new.files) if base.get(file.path) != new.get(file.path)}
    if paths - {base.main_path}:
        return f"it changes other files than {base.main_path}"
    was, now = base.get(base.main_path), new.get(base.main_path)
    if was is None or now is None or was.executable != now.executable or not is_text(now.content):
        return f"it changes more of {base.main_path} than its text"
    fronts = [content[: block_end(content) or 0] for content in (was.content, now.content)]
    if fronts[0] != fronts[1]:
        return "it changes the front matter"
    old, fresh = was.content.splitlines(), now.content.splitlines()
    touched = [line for a, b, c, d in find_changes(old, fresh) for line in (*old[a:b], *fresh[c:d])]
    if len(touched) > MAX_LINES or sum(map(len, touched)) > MAX_LINE_BYTES:
        return f"it changes {len(touched)} lines; a permission covers {MAX_LINES} of {MAX_LINE_BYTES:,} bytes in all"
    if (line := find_touched_code(was.content, now.content)) is not None:
        shown = quoted(line.decode().strip(), _SHOWN_CODE) if line.strip() else "an empty line of a block"
        return f"it touches code or a command ({shown})"
    return ""
