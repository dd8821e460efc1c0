"""Permitting: what only a person may set: which folders may be written, and which skills without asking each time."""

from __future__ import annotations

import os
from pathlib import Path

from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import Skill, is_memory

PERSON = "a person at a terminal"


def add_root(workspace: Workspace, path: str) -> Path:
    """Register a folder whose skills may be promoted, or one memory file; return it with links resolved.

    Raises BadInput.
    """
    given = Path(os.path.expanduser(known(path)))
    root = Path(os.path.realpath(given))
    if not root.is_dir() and not (is_memory(str(root)) and root.is_file()):
        raise BadInput(f"'{given}' is not a folder: name the folder that holds the skill folders, or a memory file")
    if root in (Path(root.anchor), Path(os.path.realpath(os.path.expanduser("~")))):
        raise BadInput(f"'{root}' is too wide for a skill root: name the folder that holds the skill folders")
    if (root / "SKILL.md").exists():
        raise BadInput(f"'{root}' is a skill itself: name the folder that holds it, '{root.parent}'")
    workspace.store.skills.add_root(str(root))
    return root


def permit(workspace: Workspace, skill: str, *, simulated: bool) -> Skill:
    """Keep a standing permission to promote a skill's accepted candidates; with `simulated`, on a simulation too."""
    tracked = workspace.skill(skill)
    workspace.store.skills.grant_permission(tracked.id, PERSON, simulated=simulated)
    return tracked


def revoke(workspace: Workspace, skill: str) -> Skill:
    """Take a standing permission back."""
    tracked = workspace.skill(skill)
    workspace.store.skills.revoke_permission(tracked.id)
    return tracked
