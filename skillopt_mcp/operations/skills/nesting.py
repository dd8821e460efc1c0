"""Nesting: where skills lie deeper in a folder than hosts look, which is right inside a root."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from skillopt_mcp.records.skills import MAIN_FILE

_HOSTS = (".claude", ".agents", ".codex")
_OF_OTHERS = ("node_modules", "site-packages", "__pycache__")
_DEEPEST = 6
_MOST_FOLDERS = 5_000


def nested_roots(folder: Path) -> dict[Path, list[Path]]:
    """Return the folders below one that hold skills right inside, each with these skills; `folder` itself is none."""
    roots: dict[Path, list[Path]] = {}
    for skill in skills_below(folder):
        if skill.parent != folder:
            roots.setdefault(skill.parent, []).append(skill)
    return roots


def skills_below(folder: Path) -> Iterator[Path]:
    """Yield the skills in a folder, at whatever depth; `folder` itself is none, and a skill holds no other.

    Hidden folders but the hosts' own, links and what package managers unpack are passed over, and so is all that lies
    very deep or behind thousands of folders.
    """
    waiting = deque([(folder, 0)])
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            break
        inside, depth = waiting.popleft()
        names, below = _listed(inside)
        if depth and MAIN_FILE.lower() in names:
            yield inside
        elif depth < _DEEPEST:
            waiting.extend((inside / name, depth + 1) for name in below)


def _listed(folder: Path) -> tuple[set[str], list[str]]:
    """Return the names in a folder in lower case, and of its folders those to look into; a closed one has none."""
    try:
        with os.scandir(folder) as entries:
            listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return set(), []
    folders = sorted(name for name, is_folder in listed if is_folder)
    looked_into = [name for name in folders if name in _HOSTS or not (name.startswith(".") or name in _OF_OTHERS)]
    return {name.lower() for name, is_folder in listed if not is_folder}, looked_into
