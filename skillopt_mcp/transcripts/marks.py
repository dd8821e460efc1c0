"""Marks: by what a line of a transcript may show that a skill was opened; light, for every hook looks for them."""

from __future__ import annotations

import re

# Searched one by one: a pattern of alternatives takes ten times as long.
_MARKS = (b"SKILL.md", b"Base directory for this skill", b"<command-name>")
_CALLED = re.compile(rb'"name"\s*:\s*"Skill"')


def marks(line: bytes) -> bool:
    """Return whether a line may show that a skill was opened; cheap, and sometimes wrong in saying yes."""
    return any(mark in line for mark in _MARKS) or _CALLED.search(line) is not None
