"""Update: the edit engine turns the current version and the selected patch into a candidate."""

from __future__ import annotations

from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.records.edits import Applied, Patch
from skillopt_mcp.records.skills import SkillFiles


def update(files: SkillFiles, patch: Patch, budget: int) -> Applied:
    """Return the candidate's files with a report per edit; they equal `files` when nothing applied."""
    return apply_patch(files, patch, budget=budget)
