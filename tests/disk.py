"""Disk: a process that waits for no disk, where only a power cut would show it."""

from __future__ import annotations

import os

import pytest

from skillopt_mcp.store import driver


def spare_the_disk(patch: pytest.MonkeyPatch) -> None:
    """Let a process wait for no disk: what it has written outlives it, and only a power cut may take that."""
    settings = (setting.replace("synchronous = full", "synchronous = off") for setting in driver._SETTINGS)
    patch.setattr(driver, "_SETTINGS", tuple(settings))
    patch.setattr(os, "fsync", _fsync)


def _fsync(descriptor: int) -> None:
    """Refuse what cannot be synced, and no more."""
    os.fstat(descriptor)
