"""Found: one thing in a text that a person should see before a host runs on it."""

from __future__ import annotations

from typing import NamedTuple


class Found(NamedTuple):
    """Where it begins, what it is when it is compared with the parent's, and how it is told, behind "adds "."""

    at: int
    key: str
    told: str
