"""Appendix: short notes on rules that were passed over, kept few and without doubles in a region of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from skillopt_mcp.documents.regions import region_text, with_region
from skillopt_mcp.documents.spans import has_marker
from skillopt_mcp.records.skills import SkillFiles

HEADING = "## Rules that are easily passed over"
NOTE_CHARACTERS = 300
_BULLET = re.compile(r"^[-*]\s+")
_WORD = re.compile(r"\w+")
_ALIKE = 0.8


def notes_in(files: SkillFiles) -> tuple[str, ...]:
    """Return the notes of the appendix, the oldest first."""
    lines = region_text(files, "APPENDIX").splitlines()
    return tuple(_BULLET.sub("", line).strip() for line in lines if _BULLET.match(line))


def clean_note(text: str) -> str | None:
    """Return a note in one line, or None when it is blank, too long, or holds a marker or a code fence."""
    note = _BULLET.sub("", " ".join(text.split()))
    unfit = not _WORD.search(note) or len(note) > NOTE_CHARACTERS or has_marker(note) or "```" in note or "~~~" in note
    return None if unfit else note


def compacted(old: Sequence[str], new: Sequence[str], most: int) -> tuple[str, ...]:
    """Return at most `most` notes (0: all), one of several alike in its latest wording, the most recent need last."""
    kept: list[tuple[str, frozenset[str]]] = []
    for note in (*old, *new):
        words = frozenset(_WORD.findall(note.casefold()))
        kept = [(other, theirs) for other, theirs in kept if not _alike(words, theirs)]
        kept.append((note, words))
    return tuple(note for note, _ in kept[-most:])


def with_notes(files: SkillFiles, notes: Sequence[str], most: int) -> SkillFiles:
    """Return the files with clean `notes` added to the appendix, compacted. Raises BadInput as `with_region` does."""
    together = compacted(notes_in(files), notes, most)
    return with_region(files, "APPENDIX", "\n".join([HEADING, "", *(f"- {note}" for note in together)]))


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _ALIKE * len(one | other)
