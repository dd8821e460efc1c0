"""Placing: where one edit lands in one document, or why it does not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.lines import line_end, to_lf
from skillopt_mcp.documents.spans import Document
from skillopt_mcp.records.edits import Edit, Op, UnmatchedReason

_SHOWN = re.compile(r"\\u\{[0-9A-F]{4,6}\}")


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes from `start` up to `end` become `content`; an insertion has `start == end`."""

    op: Op
    start: int
    end: int
    content: bytes

    def overlaps(self, other: Place) -> bool:
        """Return whether both cannot be applied: spans that share a byte, or an insertion inside a span."""
        if self.op == other.op == "set_description":
            return True
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Miss:
    """An edit that does not apply, and what to change about it."""

    reason: UnmatchedReason
    detail: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Where appended text goes: `before` parts it from the text above, `after` from what follows."""

    at: int
    before: bytes
    after: bytes


def place(edit: Edit, document: Document) -> Place | Miss:
    """Return where the edit lands. The edit's fields are known to be usable (`edits.fault`)."""
    if edit.op == "append":
        return _appended(edit.content or "", document)
    if edit.op == "set_description":
        return _described(edit.content or "", document)
    anchor = _anchor(edit.target or "", document)
    if isinstance(anchor, Miss):
        return anchor
    if edit.op == "insert_after":
        return _inserted(edit.content or "", anchor[1], document)
    return _replaced(edit, anchor, document)


def append_gap(document: Document) -> Gap:
    """Return the place for appended text: after the last line of text, before trailing protected regions.

    One blank line parts it from the text above. Blank lines that were there stay below it, so that they part it from a
    protected region; where there were none, `after` brings one. A file that ended without a line ending still does.
    """
    content, ending = document.content, document.ending
    limit = _trailing_start(document)
    text_end = max(len(content[:limit].rstrip()), document.body_start)
    region_follows = limit < len(content)
    if text_end == document.body_start and not document.front:
        blank_below = b"\n" in to_lf(content[text_end:limit])
        return Gap(text_end, b"", ending * 2 if region_follows and not blank_below else ending)
    at = text_end if content[text_end - 1 : text_end] in (b"\n", b"\r") else line_end(content, text_end)
    if at is None or at > limit:
        return Gap(limit, ending * 2, ending * 2 if region_follows else b"")
    blank_below = b"\n" in to_lf(content[at:limit])
    return Gap(at, ending, ending * 2 if region_follows and not blank_below else ending)


def _trailing_start(document: Document) -> int:
    start = len(document.content)
    for region_start, region_end in reversed(document.protected):
        if document.content[region_end:start].strip():
            break
        start = region_start
    return start


def _appended(content: str, document: Document) -> Place | Miss:
    lines = to_lf(content.encode()).split(b"\n")
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    if not lines:
        return Miss("no_change", "the content is blank; give the text to append")
    at = append_gap(document).at
    return Place("append", at, at, document.ending.join(lines))


def _described(description: str, document: Document) -> Place | Miss:
    front = document.front
    refusal = frontmatter.refusal(front, description)
    if refusal or front is None or front.value_start is None or front.value_end is None:
        return Miss("invalid", refusal)
    if frontmatter.one_line(description) == frontmatter.one_line(front.description or ""):
        return Miss("no_change", "the description is this one already")
    if frontmatter.set_description(document.content, description) is None:
        return Miss("invalid", "the front matter could not be read after the change; a person must edit it")
    value = frontmatter.scalar(front, description)
    return Place("set_description", front.value_start, front.value_end, value)


def _anchor(target: str, document: Document) -> tuple[int, int] | Miss:
    """Return the one stretch outside reserved spans that is the target, whatever the kind of line ending."""
    unified = document.unified
    needle = to_lf(target.removeprefix("\ufeff").encode())
    if not needle:
        return Miss("invalid", "the target is empty; copy the exact text that the edit is about")
    first, count, at = -1, 0, 0
    for start, end in (*document.reserved, (len(document.content), len(document.content))):
        stop = unified.from_original(start)
        found = unified.text.find(needle, at, stop)
        if found >= 0:
            first = first if count else found
            again = unified.text.find(needle, found + 1, stop) >= 0
            count += max(unified.text.count(needle, at, stop), 1 + again)
        at = unified.from_original(end)
    if count > 1:
        return Miss("ambiguous", f"the target is found {count} times; copy more of the text around it")
    if count == 0 and needle in unified.text:
        return Miss("protected", "the target is in the front matter or in a protected region; choose other text")
    if count == 0:
        if shown := _SHOWN.search(target):
            told = f"{shown[0]} stands for a hidden character: give the character itself, or text without it"
            return Miss("not_found", f"the target is not in the file; {told}")
        return Miss("not_found", "the target is not in the file; copy the text exactly as it stands there")
    return unified.to_original(first), unified.to_original(first + len(needle))


def _inserted(content: str, anchor_end: int, document: Document) -> Place | Miss:
    if not content:
        return Miss("no_change", "the content is empty; give the text to insert")
    new = _with_ending(content, document)
    end: int | None = anchor_end
    if document.content[anchor_end - 1 : anchor_end] not in (b"\n", b"\r"):
        end = line_end(document.content, anchor_end)
    if end is None:
        # The file ends without a line ending, and goes on doing so.
        end = len(document.content)
        new = document.ending + new.removesuffix(document.ending)
    elif not new.endswith(document.ending):
        new += document.ending
    if any(start < end < stop for start, stop in document.reserved):
        return Miss("protected", "a protected region begins on the target's last line; choose a line above it")
    return Place("insert_after", end, end, new)


def _replaced(edit: Edit, anchor: tuple[int, int], document: Document) -> Place | Miss:
    start, end = anchor
    old = document.content[start:end]
    new = _with_ending(edit.content or "", document)
    if new and old[-1:] in (b"\n", b"\r") and not new.endswith(document.ending):
        # The target named whole lines: the last of the new ones must not run into the line below.
        new += document.ending
    if to_lf(new) == to_lf(old):
        return Miss("no_change", "the content is the target; give the text to put in its place")
    return Place(edit.op, start, end, new)


def _with_ending(content: str, document: Document) -> bytes:
    text = to_lf(content.encode())
    return text if document.ending == b"\n" else text.replace(b"\n", document.ending)
