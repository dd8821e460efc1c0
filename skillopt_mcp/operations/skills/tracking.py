"""Tracking: how the use of skills begins to be recorded, which it is of tracked ones alone."""

from __future__ import annotations

import shlex

from skillopt_mcp.folders import find_skill_folders, is_as_shipped
from skillopt_mcp.operations.workspace import Workspace


def to_track(workspace: Workspace) -> str:
    """Return how to begin where no skill is tracked yet, by one that lies in a skill root; "" where one is.

    No store is made to look.
    """
    if workspace.is_made and workspace.store.skills.list_listed():
        return ""
    here = (str(folder) for folder in find_skill_folders(workspace.roots()) if not is_as_shipped(folder))
    named = shlex.quote(next(here, "PATH/TO/SKILL"))
    return f"No skill is tracked yet, so that nothing is recorded. To begin: skillopt-mcp skills track {named}"
