"""Returning: how many attempts that a person has erased a backup would bring back."""

from __future__ import annotations

from pathlib import Path

from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.store.copying import read_attempts, read_erased


def n_returning(store_path: Path, backup: Path) -> int:
    """Return how many attempts that are erased in a store a backup has in full; 0 where the store cannot be read."""
    if not store_path.exists():
        return 0
    try:
        erased = read_erased(store_path)
        return len(erased & read_attempts(backup)) if erased else 0
    except SkillOptError:
        return 0
