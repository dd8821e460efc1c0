"""Merging: nothing is built on a skill, or paid for, in which git left a conflict that nobody has settled."""

from __future__ import annotations

from skillopt_mcp.documents.conflicts import SETTLE, conflicts
from skillopt_mcp.errors import Refused
from skillopt_mcp.records.skills import SkillFiles


def check_merged(files: SkillFiles) -> None:
    """Raise Refused for files of a skill that git could not merge."""
    found = next(conflicts(files), "")
    if found:
        raise Refused(f"{found}: {SETTLE}; nothing was spent")
