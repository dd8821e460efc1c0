"""Astray: what lies in a folder of skills where a link should lead to one, and leads no host to it."""

from __future__ import annotations

import os
from pathlib import Path

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.folders import main_names
from skillopt_mcp.operations.finding import is_nowhere

_LINK_BYTES = 4096


def astray(root: Path) -> dict[Path, str]:
    """Return what right inside a folder is no way to a skill and was meant as one, by name, with what is wrong."""
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return {}
    told = {root / name: _told(root / name) for name in names if not name.startswith(".")}
    return {path: text for path, text in told.items() if text}


def _told(path: Path) -> str:
    if is_nowhere(str(path)):
        return (
            f"it is a link to {quoted(os.readlink(path), 300)}, where nothing is, so that no host finds a skill here: "
            "put the folder back, or remove the link"
        )
    if target := _written_out(path):
        return (
            f"it is a text file that names the skill {quoted(target, 300)}, as a checkout without links makes it of a "
            "link, so that no host finds a skill here: git config core.symlinks true, and check it out anew"
        )
    return ""


def _written_out(path: Path) -> str:
    """Return where a link led that git has written as a text file, "" for any other file."""
    try:
        if not path.is_file() or path.stat().st_size > _LINK_BYTES:
            return ""
        target = path.read_text("utf-8")
        return target if "\n" not in target and "\0" not in target and main_names(path.parent / target) else ""
    except (OSError, ValueError):
        return ""
