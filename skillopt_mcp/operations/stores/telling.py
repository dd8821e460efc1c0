"""Telling: how far a long look at a store, or a copy of it, has come."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str, int, int], None]
"""Is told what is done now, how much of it is through, and of how much: 0 where nobody knows."""


def nobody(_: str, _done: int, _total: int) -> None:
    """Tell nobody."""
