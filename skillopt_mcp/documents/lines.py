"""Lines: their three kinds of ending, and how to look past the kind without losing it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

BOM = b"\xef\xbb\xbf"
_CRLF = re.compile(rb"\r\n")


@dataclass(frozen=True)
class Unified:
    """A text with every line ending as a line feed, and the way between its offsets and the original's.

    A carriage return with its line feed is one ending: no offset that is mapped ever falls between the two.
    """

    original: bytes

    @cached_property
    def text(self) -> bytes:
        """Return the text with line feeds only."""
        return to_lf(self.original)

    def to_original(self, at: int) -> int:
        """Return the offset in the original of the offset `at` in `text`."""
        return at + bisect_left(self._pair_feeds, at)

    def from_original(self, at: int) -> int:
        """Return the offset in `text` of the offset `at` in the original."""
        return at - bisect_right(self._pairs, at - 2)

    @cached_property
    def _pairs(self) -> list[int]:
        return [found.start() for found in _CRLF.finditer(self.original)] if b"\r\n" in self.original else []

    @cached_property
    def _pair_feeds(self) -> list[int]:
        return [at - number for number, at in enumerate(self._pairs)]


def to_lf(text: bytes) -> bytes:
    """Return `text` with every line ending as a line feed."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text


def dominant_ending(text: bytes) -> bytes:
    r"""Return the line ending that `text` uses most: \n, \r\n or \r; \n when there is none, or as many of each."""
    if b"\r" not in text:
        return b"\n"
    pairs = text.count(b"\r\n")
    counts = {b"\n": text.count(b"\n") - pairs, b"\r\n": pairs, b"\r": text.count(b"\r") - pairs}
    return max(counts, key=lambda ending: counts[ending])


def line_end(text: bytes, at: int) -> int | None:
    """Return where the line that holds offset `at` ends, its ending included; None when it has no ending."""
    feed, carriage = text.find(b"\n", at), text.find(b"\r", at)
    if feed < 0 and carriage < 0:
        return None
    if carriage < 0 or 0 <= feed < carriage:
        return feed + 1
    return carriage + 2 if feed == carriage + 1 else carriage + 1


def is_text(content: bytes) -> bool:
    """Return whether a file is text: UTF-8 without NUL."""
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False
