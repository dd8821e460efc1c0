"""Characters: which ones a reader cannot see, and how to show them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Those of them that are ASCII: bytes are rid of them an order of magnitude faster than text is, and by a table, even
# one that changes nothing, in half the time that it takes without.
_HIDDEN_BYTES = bytes(code for code in range(128) if _HIDDEN.match(chr(code)))
_AS_THEY_ARE = bytes(range(256))
_EMOJI = re.compile("[\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]")
_BEFORE_SELECTOR = re.compile("[0-9#*\u00a9\u00ae\u203c\u2049\u2122\u2139\u24c2\u2934\u2935\u3030\u303d\u3297\u3299]")
_JOINER = "\u200d"
_SELECTORS = "\ufe0e\ufe0f"


def hidden_offsets(text: str) -> Iterator[int]:
    """Yield where `text` has hidden, bidirectional, tag or control characters; joined emoji are not hidden."""
    return (found.start() for found in _HIDDEN.finditer(text) if not _belongs_to_emoji(text, found.start()))


def without_hidden(text: str) -> str:
    """Return `text` without any hidden character, joined emoji taken apart too."""
    if not text.isascii():
        return _HIDDEN.sub("", text)
    return text.encode().translate(_AS_THEY_ARE, _HIDDEN_BYTES).decode()


def escaped(text: str) -> str:
    r"""Return `text` with its hidden characters and carriage returns as \u{XXXX}; tabs and newlines stay."""
    if text.isascii() and text.isprintable():
        return text
    offsets = set(hidden_offsets(text))
    return "".join(
        rf"\u{{{ord(character):04X}}}" if at in offsets or character == "\r" else character
        for at, character in enumerate(text)
    )


def shown(text: str) -> str:
    """Return `text` with its hidden characters escaped, for a model to read: line endings stay as they are."""
    return "\r\n".join(map(escaped, text.split("\r\n")))


def quoted(text: str, limit: int = 80) -> str:
    """Return `text` on one line in double quotes for a message, cut after `limit` characters."""
    shown = escaped(text[:limit]).replace("\n", r"\n").replace("\t", r"\t")
    return f'"{shown}..."' if len(text) > limit else f'"{shown}"'


def _belongs_to_emoji(text: str, at: int) -> bool:
    character, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    if character == _JOINER:
        if before and before in _SELECTORS:
            before = text[at - 2 : at - 1]
        return bool(_EMOJI.match(before) and _EMOJI.match(after))
    if character in _SELECTORS:
        return bool(_EMOJI.match(before) or _BEFORE_SELECTOR.match(before))
    return False
