"""Views: a text as it reads once its escapes (JSON, URL, HTML) are undone, and where each byte of it came from."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

import re2

MAX_DEPTH = 4
_BACKSLASH = r"\\(?:[nrt\"'\\/bf]|u00[0-7][0-9a-fA-F]|x[2-7][0-9a-fA-F])"
_OTHER = r"%(?:[2-7][0-9A-Fa-f]|0[9ADad])|&(?:quot|amp|#34|#39);"
# A pattern that begins with one letter is searched ten times as fast as one of several.
_BACKSLASH_ESCAPE = re.compile(f"({_BACKSLASH})".encode())
_ANY_ESCAPE = re.compile(f"({_BACKSLASH}|{_OTHER})".encode())
_OTHER_ESCAPE = re2.compile(_OTHER)
_PLAIN = {
    b"\\n": b"\n", b"\\r": b"\r", b"\\t": b"\t", b"\\b": b"\b", b"\\f": b"\f", b"\\\\": b"\\", b"\\/": b"/",
    b'\\"': b'"', b"\\'": b"'", b"&quot;": b'"', b"&#34;": b'"', b"&#39;": b"'", b"&amp;": b"&",
}  # fmt: skip
_PLAIN.update({b"\\u00%02x" % code: bytes([code]) for code in range(128)})
_PLAIN.update({b"\\x%02x" % code: bytes([code]) for code in range(32, 128)})
_PLAIN.update({b"%%%02x" % code: bytes([code]) for code in (9, 10, 13, *range(32, 128))})


class View:
    """A text, or one whose escapes were undone: then `below` is the view that it was made of, in `parts`."""

    def __init__(self, text: bytes, parts: list[bytes] | None = None, below: View | None = None) -> None:
        self.text = text
        self._parts = parts
        self._below = below

    def undone(self) -> View | None:
        """Return the view of this text without one level of escapes, None when it has none."""
        has_other = (b"%" in self.text or b"&" in self.text) and _OTHER_ESCAPE.search(self.text)
        if not has_other and b"\\" not in self.text:
            return None
        parts = (_ANY_ESCAPE if has_other else _BACKSLASH_ESCAPE).split(self.text)
        if len(parts) == 1:
            return None
        plain = parts.copy()
        plain[1::2] = [_PLAIN.get(escape) or _PLAIN[escape.lower()] for escape in parts[1::2]]
        return View(b"".join(plain), parts, self)

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return from where to where in the first text the bytes from `start` to `end` of this one come."""
        if self._below is None:
            return start, end
        return self._below.origin(self._under(start), self._under(end - 1) + self._n_under(end - 1))

    def _under(self, at: int) -> int:
        plain_starts, starts, _ = self._starts
        part = bisect_right(plain_starts, at) - 1
        return starts[part] + at - plain_starts[part]

    def _n_under(self, at: int) -> int:
        plain_starts, _, lengths = self._starts
        part = bisect_right(plain_starts, at) - 1
        return lengths[part] if part % 2 else 1

    @cached_property
    def _starts(self) -> tuple[list[int], list[int], list[int]]:
        """Return where each part starts in this text and in the one below, and its length there."""
        lengths = [len(part) for part in self._parts or ()]
        plain = [1 if n % 2 else length for n, length in enumerate(lengths)]
        return [0, *accumulate(plain)], [0, *accumulate(lengths)], lengths


def views(text: bytes) -> list[View]:
    """Return the text and what it reads as with one level of escapes undone after the other, the deepest first."""
    found = [View(text)]
    while len(found) <= MAX_DEPTH and (deeper := found[0].undone()):
        found.insert(0, deeper)
    return found
