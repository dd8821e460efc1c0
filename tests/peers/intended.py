"""Intended: what our edit engine does differently from the published ones, each case as a predicate.

Where nothing of the list holds for an edit, both engines put the same words in the same places: only white space may
differ, for the published ones strip content, take blank lines off the end of a document and add some around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from drawn_patches import Edit

from skillopt_mcp.core.text import line_end, to_lf
from skillopt_mcp.documents.markdown import has_marker, parse

_SHOWN = re.compile(rb"<!-- (\w+)_START -->.*?<!-- \1_END -->", re.DOTALL)
_REGION = re.compile(r"<!-- (\w+)_START -->.*?<!-- \1_END -->", re.DOTALL)


@dataclass(frozen=True)
class Seen:
    """One edit where it is applied: the document, the patch, and the text that the published engine applied it to."""

    package: str
    document: str
    edits: list[Edit]
    index: int
    before: str

    @property
    def op(self) -> str:
        return str(self.edits[self.index]["op"])

    @property
    def target(self) -> str | None:
        return self.edits[self.index]["target"]

    @property
    def content(self) -> str | None:
        return self.edits[self.index]["content"]

    @property
    def found(self) -> list[tuple[int, int]]:
        """Return where the target stands in the document, as bytes of it with line feeds."""
        return _found(self.document, self.target or "")

    @property
    def touched(self) -> tuple[int, int] | None:
        """Return the bytes that the edit takes away or lands between, None when its place is not plain."""
        return _touched(self.document, self.edits[self.index])


def null_fields(seen: Seen) -> bool:
    """A null is no text: content that is needed is missed, and what is not needed does not matter. skillopt crashes on
    either (and skips the edit), skillrl takes it for an empty text (and deletes what was to be replaced)."""
    return seen.content is None or (seen.target is None and seen.op == "append")


def delete_with_content(seen: Seen) -> bool:
    """A deletion that brings content says two things; the published engines ignore the content."""
    return seen.op == "delete" and bool(seen.content)


def missing_anchor(seen: Seen) -> bool:
    """An insertion whose anchor is not there is not applied; the published engines append it."""
    return seen.op == "insert_after" and not seen.found


def ambiguous_anchor(seen: Seen) -> bool:
    """An anchor found more than once names nothing; the published engines take the first."""
    return seen.op != "append" and len(seen.found) > 1


def protected_span(seen: Seen) -> bool:
    """Front matter and protected regions are out of reach (skillopt knows neither front matter nor an open region,
    skillrl knows neither), and so is an edit after which they would begin or end elsewhere."""
    reserved = parse(_lf(seen.document)).reserved
    if any(start < stop and begin < end for start, end in seen.found for begin, stop in reserved):
        return True
    landing = seen.touched
    if landing and landing[0] == landing[1] and any(begin < landing[0] < stop for begin, stop in reserved):
        return True
    return bool(reserved) and any(mark in (seen.content or "") for mark in ("```", "---"))


def marker_in_code(seen: Seen) -> bool:
    """Markers that fenced code shows are code; skillopt protects what stands between them."""
    document = parse(_lf(seen.document))
    shown = [match.span() for match in _SHOWN.finditer(document.content) if match.span() not in document.protected]
    within = any(start < stop and begin < end for start, end in seen.found for begin, stop in shown)
    return seen.package == "skillopt" and within


def append_next_to_region(seen: Seen) -> bool:
    """Appended text goes above the regions at the end: skillrl puts it below them, and skillopt above the first marker
    anywhere, be it in the middle of the text."""
    if seen.op != "append" or "<!-- " not in seen.document or not (seen.content or "").strip():
        return False
    below = _REGION.sub("", seen.document[seen.document.index("<!-- ") :])
    return seen.package == "skillrl" or bool(below.strip())


def marker_in_content(seen: Seen) -> bool:
    """Content with a marker of a protected region is refused; skillopt strips the markers, skillrl writes them."""
    return has_marker(seen.content or "")


def line_endings(seen: Seen) -> bool:
    """Anchors match whatever the kind of line ending; the published engines miss an anchor of two lines then."""
    return "\r" in seen.document and "\n" in (seen.target or "")


def anchor_with_its_ending(seen: Seen) -> bool:
    """An anchor that ends with its line's ending is followed by the insertion; the published engines skip a line."""
    return seen.op == "insert_after" and (seen.target or "").endswith("\n")


def against_the_parent(seen: Seen) -> bool:
    """All anchors are looked up in the parent; the published engines look in what earlier edits have left."""
    target = seen.target or ""
    return seen.op != "append" and bool(target) and seen.before.count(target) != seen.document.count(target)


def overlapping_edits(seen: Seen) -> bool:
    """Of two edits that overlap neither applies, and two insertions at one place keep the order of the patch; the
    published engines apply one after the other, the later one on top."""
    mine = seen.touched
    rivals = (_touched(seen.document, edit) for index, edit in enumerate(seen.edits) if index != seen.index)
    return mine is not None and any(rival and _meet(mine, rival) for rival in rivals)


def twin(seen: Seen) -> bool:
    """The same edit twice is meant once."""
    return seen.edits[seen.index] in seen.edits[: seen.index]


UNMATCHED = "unmatched"
APPLIED = "applied"
EITHER = "either"

# Name, predicate, and what becomes of such an edit here.
INTENDED: tuple[tuple[str, Callable[[Seen], bool], str], ...] = (
    ("null fields", null_fields, EITHER),
    ("deletion with content", delete_with_content, UNMATCHED),
    ("line endings", line_endings, EITHER),
    ("missing anchor", missing_anchor, UNMATCHED),
    ("marker in content", marker_in_content, UNMATCHED),
    ("ambiguous anchor", ambiguous_anchor, EITHER),
    ("protected span", protected_span, EITHER),
    ("marker in code", marker_in_code, EITHER),
    ("twin", twin, UNMATCHED),
    ("append next to a region", append_next_to_region, APPLIED),
    ("anchor with its line ending", anchor_with_its_ending, EITHER),
    ("anchors of the parent", against_the_parent, EITHER),
    ("overlapping edits", overlapping_edits, EITHER),
)


def _found(document: str, target: str) -> list[tuple[int, int]]:
    text, needle, found = _lf(document), _lf(target), list[tuple[int, int]]()
    at = text.find(needle) if needle else -1
    while at >= 0:
        found.append((at, at + len(needle)))
        at = text.find(needle, at + 1)
    return found


def _touched(document: str, edit: Edit) -> tuple[int, int] | None:
    found = _found(document, edit["target"] or "") if edit["op"] != "append" else []
    if len(found) != 1:
        return None
    start, end = found[0]
    if edit["op"] != "insert_after":
        return start, end
    text = _lf(document)
    after = end if text[end - 1 : end] == b"\n" else line_end(text, end)
    return (after, after) if after is not None else (len(text), len(text))


def _lf(text: str) -> bytes:
    return to_lf(text.encode())


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one == other or (one[0] < other[1] and other[0] < one[1])


def words(text: str) -> str:
    """Return the text without any white space."""
    return "".join(text.split())
