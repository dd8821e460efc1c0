"""Repeats: edits that a promotion test rejected or a person rolled back, and candidates that make one again.

It does not matter which version of the skill a candidate is based on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from skillopt_mcp.core.candidates import GATE, Candidate, find_rolled_back
from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.evidence import ACCEPTED
from skillopt_mcp.core.runs import DiscardedEdit, Run
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.documents.diffs import derive_edits
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.store.decisions import Discarding
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.opening import Store

NOT_PROVEN = "not proven alone; it may be part of a larger edit"
"""Of an edit that a promotion test did not accept: what whoever writes edits learns."""
MIN_SHARE = 0.5
_MARK = re.compile(r"^(?:[-*+>]|\d+[.)])\s+")
_EMPHASIS = re.compile(r"\*\*|__|`")
_Key = tuple[str, str, str | None, str | None]


def edits_of(store: Store, candidate: Candidate) -> tuple[Edit, ...]:
    """The edits of a candidate: those it was made by, or where they are not all of it, what differs."""
    base, after = _get_files(store, candidate)
    edits = _list_applied(store, candidate)
    if edits and apply_patch(base, Patch(edits)).files == after:
        return edits
    return derive_edits(base, after)


def _list_applied(store: Store, candidate: Candidate) -> tuple[Edit, ...]:
    return tuple(edit for edit, report in store.candidates.list_edits(candidate.id) if report.status == "applied")


def _get_files(store: Store, candidate: Candidate) -> tuple[SkillFiles, SkillFiles]:
    files = store.skills.get_files
    return files(candidate.skill_id, candidate.base_version), files(candidate.skill_id, candidate.version_id)


def list_discarded(store: Store, run: Run, most: int) -> tuple[DiscardedEdit, ...]:
    """The edits that a promotion test had rejected or a person had rolled back when a run began, newest first.

    They are those of this skill, each once, at most so many; none of a candidate
    that was made from an attempt erased since, and none that its base version holds.
    """
    discarding = store.table(Discarding)
    begun_at = discarding.get_start(run.id)
    changes = [each for each in store.promotions.list_promotions(run.skill_id) if each.created_at < begun_at]
    undone = find_rolled_back(changes)
    erasing = store.table(Erasing)
    erased = set(erasing.list_made_of(erasing.find_erased()))
    text = store.skills.get_files(run.skill_id, run.base_version).text
    found: dict[tuple[str, str, str | None, str | None], DiscardedEdit] = {}
    for made, version, verdict in discarding.list_standing(run.id, GATE):
        became = NOT_PROVEN if verdict not in (None, *ACCEPTED) else ""
        if version in undone:
            became = "promoted, then rolled back by a person"
        if not became or made in erased or len(found) >= most:
            continue
        edits = edits_of(store, store.candidates.get_candidate(made))
        for edit in edits:
            if not edit.content or edit.content.strip() not in text:
                discarded = DiscardedEdit(edit, became, len(edits) - 1)
                found.setdefault((edit.op, edit.path, edit.target, edit.content), discarded)
    return tuple(found.values())[:most]


class Repeat(NamedTuple):
    """An edit that is made again: the candidate that made it first, and how much of it comes back, in words."""

    earlier: str
    what: str


def find_rolled_back_repeat(store: Store, candidate: Candidate) -> Repeat | None:
    """Which edit that a person rolled back, and did not put back since, a candidate makes again."""
    changes = store.promotions.list_promotions(candidate.skill_id)
    undone = find_rolled_back(changes)
    if candidate.version_id in undone:
        return None
    made = (each.candidate_id for each in changes if each.kind == "promote" and each.to_version in undone)
    return find_repeat(store, candidate, filter(None, made))


def describe_rolled_back_repeat(store: Store, candidate: Candidate) -> str:
    """The notice that a candidate makes an edit again that a person rolled back; else ""."""
    again = find_rolled_back_repeat(store, candidate)
    return f"it {again.what}, which a person rolled back" if again else ""


def find_repeat(store: Store, candidate: Candidate, ids: Iterable[str]) -> Repeat | None:
    past = [past_of(_build_change(store, store.candidates.get_candidate(id))) for id in dict.fromkeys(ids)]
    return first_repeat(_build_change(store, candidate), past) if past else None


def _build_change(store: Store, candidate: Candidate) -> Change:
    files = _get_files(store, candidate)
    return Change(candidate.id, (*_list_applied(store, candidate), *derive_edits(*files)), *files)


class Lines(NamedTuple):
    """The lines that a change brings into a skill, and those that it takes out, wherever they stand."""

    added: frozenset[str]
    removed: frozenset[str]

    def share(self, edit: Lines) -> float:
        """How much of what an edit brings is brought here, 0 to 1; of one that only takes, 1 if all is taken.

        To replace a line takes it out as well.
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
        return _compare_lines(old, new)


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
        given = _compare_lines(edit.target or "", edit.content or "")
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
        if share > MIN_SHARE:
            return Repeat(earlier.id, f"makes most of an edit of {earlier.id} again")
    return None


def _key(edit: Edit) -> _Key:
    return (edit.op, edit.path, edit.target, edit.content)


def _compare_lines(before: str, after: str) -> Lines:
    old, new = _split_lines(before), _split_lines(after)
    return Lines(new - old, old - new)


def _split_lines(text: str) -> frozenset[str]:
    """Return the lines that say something, however they are marked: neither blanks, nor marks, a heading or a fence."""
    return frozenset(filter(None, map(_strip_marks, text.splitlines())))


@lru_cache(maxsize=8192)  # the versions of a skill share most of their lines
def _strip_marks(line: str) -> str:
    """Return a line without its list mark, emphasis and full stop, in small letters; "" where it says nothing."""
    words = " ".join(line.split())
    if words.startswith(("#", "```", "~~~")) or not any(map(str.isalnum, words)):
        return ""
    return _EMPHASIS.sub("", _MARK.sub("", words)).rstrip(" .;:,!").casefold()
