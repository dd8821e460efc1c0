"""Repeating: whether a candidate makes an edit again that came to nothing, whatever text it is based on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from skillopt_mcp.records.edits import Edit
from skillopt_mcp.records.skills import SkillFiles

MOST = 0.5
_MARK = re.compile(r"^(?:[-*+>]|\d+[.)])\s+")
_EMPHASIS = re.compile(r"\*\*|__|`")
_Key = tuple[str, str, str | None, str | None]


class Repeat(NamedTuple):
    """An edit that is made again: of which candidate it was, and in words what is done with it."""

    earlier: str
    told: str


class Lines(NamedTuple):
    """The lines that a change brings into a skill, and those that it takes out, wherever they stand."""

    added: frozenset[str]
    removed: frozenset[str]

    def share(self, edit: Lines) -> float:
        """Return how much of what an edit brings is brought here, 0 to 1; of one that only takes, 1 if all is taken.

        Whoever puts other words in the place of a line takes it out as well.
        """
        if edit.added:
            return len(edit.added & self.added) / len(edit.added)
        return float(bool(edit.removed) and edit.removed <= self.removed)


class Change(NamedTuple):
    """A candidate as one change: its edits as they were given and as they can be seen, and its files."""

    id: str
    edits: Sequence[Edit]
    before: SkillFiles
    after: SkillFiles

    @property
    def whole(self) -> Lines:
        """Return the lines that it brings and takes; what it only moves is neither."""
        old, new = (
            "\n".join(each.content.decode("utf-8", "replace") for each in files.files)
            for files in (self.before, self.after)
        )
        return _between(old, new)


class Past(NamedTuple):
    """What came to nothing: the edits of a candidate, and the lines of each; what one only moved is none."""

    id: str
    edits: frozenset[_Key]
    lines: tuple[Lines, ...]


def past_of(change: Change) -> Past:
    """Return a change as others are compared with it."""
    whole = change.whole
    edits, lines = set[_Key](), list[Lines]()
    for edit in change.edits:
        given = _between(edit.target or "", edit.content or "")
        left = Lines(given.added & whole.added, given.removed & whole.removed)
        lines.append(left)
        # Of a description, or of headings, there are no lines to compare.
        if any(left) or not any(given) or edit.op == "set_description":
            edits.add(_key(edit))
    return Past(change.id, frozenset(edits), tuple(lines))


def first_repeat(change: Change, past: Sequence[Past]) -> Repeat | None:
    """Return the first of the past that a change makes again: an edit of it, or more than half of what one brought."""
    edits, whole = frozenset(map(_key, change.edits)), change.whole
    for earlier in past:
        share, adds = max(((whole.share(edit), bool(edit.added)) for edit in earlier.lines), default=(0.0, False))
        if not edits.isdisjoint(earlier.edits) or (share == 1 and adds):
            return Repeat(earlier.id, f"makes an edit of {earlier.id} again")
        if share == 1:
            return Repeat(earlier.id, f"takes out what {earlier.id} took out")
        if share > MOST:
            return Repeat(earlier.id, f"makes most of an edit of {earlier.id} again")
    return None


def _key(edit: Edit) -> _Key:
    return (edit.op, edit.path, edit.target, edit.content)


def _between(before: str, after: str) -> Lines:
    old, new = _lines(before), _lines(after)
    return Lines(new - old, old - new)


def _lines(text: str) -> frozenset[str]:
    """Return the lines that say something, however they are marked: neither blanks, nor marks, a heading or a fence."""
    return frozenset(filter(None, map(_plain, text.splitlines())))


@lru_cache(maxsize=8192)  # the versions of a skill share most of their lines
def _plain(line: str) -> str:
    """Return a line without its list mark, emphasis and full stop, in small letters; "" where it says nothing."""
    words = " ".join(line.split())
    if words.startswith(("#", "```", "~~~")) or not any(map(str.isalnum, words)):
        return ""
    return _EMPHASIS.sub("", _MARK.sub("", words)).rstrip(" .;:,!").casefold()
