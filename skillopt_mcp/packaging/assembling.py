"""Assembling: the plugin's folder and the bundle's, copied out of the installed package."""

from __future__ import annotations

import shutil
from pathlib import Path

HERE = Path(__file__).resolve().parent


def assemble_plugin(folder: Path) -> Path:
    """Write the plugin for Claude Code into a new folder, and return it. Raises OSError."""
    return shutil.copytree(HERE / "plugin", folder)


def assemble_bundle(folder: Path) -> Path:
    """Write what `mcpb pack` makes the bundle of into a new folder, and return it. Raises OSError."""
    return shutil.copytree(HERE / "bundle", folder)
