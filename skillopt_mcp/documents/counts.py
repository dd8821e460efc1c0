"""Counts: how many of something, as a sentence says it."""

from __future__ import annotations


def counted(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun, which is `many` (else `one` with an s) unless there is just one."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def or_more(n: int, most: int) -> str:
    """Return a number that was counted up to `most` and no further."""
    return f"{n:,} or more" if n >= most else f"{n:,}"
