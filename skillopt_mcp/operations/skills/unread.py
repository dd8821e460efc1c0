"""Unread: why a skill that lies where hosts find it cannot be worked on."""

from __future__ import annotations

import shlex
from pathlib import Path

from skillopt_mcp.errors import BadSkill
from skillopt_mcp.folders import read_skill


def told_unread(folder: Path) -> str:
    """Return that the skill in a folder cannot be read, why, and how to look at it; "" where it can be."""
    try:
        read_skill(folder)
    except BadSkill as error:
        return f"cannot be read: {error}; look at it with: skillopt-mcp check {shlex.quote(str(folder))}"
    return ""
