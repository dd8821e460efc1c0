"""Disk, and forecasts: what a process is spared of, where no test could tell the difference."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from skillopt_mcp.gates import power
from skillopt_mcp.store import pool

_SHARED = Path("/dev/shm")
_ENOUGH = 2 << 30
# A folder in memory, where there is one with room enough: a disk may be waited for at each folder that is removed.
MEMORY = str(_SHARED) if os.access(_SHARED, os.W_OK) and shutil.disk_usage(_SHARED).free > _ENOUGH else None


def spare_the_disk(patch: pytest.MonkeyPatch) -> None:
    """Let a process wait for no disk: what it has written outlives it, and only a power cut may take that."""
    settings = (setting.replace("synchronous = full", "synchronous = off") for setting in pool._SETTINGS)
    patch.setattr(pool, "_SETTINGS", tuple(settings))
    patch.setattr(os, "fsync", _fsync)


def spare_the_forecast(patch: pytest.MonkeyPatch) -> None:
    """Let a forecast of a promotion test play few worlds."""
    patch.setattr(power, "_N_TESTS", 10)
    patch.setattr(power, "_N_PAIRS", 1)


def _fsync(descriptor: int) -> None:
    """Refuse what cannot be synced, and no more."""
    os.fstat(descriptor)
