"""Assembling: the plugin's folder and the bundle's, whole, from their own files and what is shipped for all hosts."""

from __future__ import annotations

import shutil
from pathlib import Path

HERE = Path(__file__).resolve().parent
_PACKAGE = HERE.parent


def assemble_plugin(folder: Path) -> Path:
    """Write the plugin for Claude Code into a new folder, and return it. Raises OSError."""
    shutil.copytree(HERE / "plugin", folder)
    for part in ("skills", "agents"):
        shutil.copytree(_PACKAGE / part, folder / part)
    return folder


def assemble_bundle(folder: Path) -> Path:
    """Write what `mcpb pack` makes the bundle of into a new folder, and return it. Raises OSError."""
    shutil.copytree(HERE / "bundle", folder)
    return folder
