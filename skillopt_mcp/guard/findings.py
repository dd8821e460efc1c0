"""Findings: what in the texts of a skill a person should see before a host runs it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import re2

from skillopt_mcp.documents.text import hidden_offsets, quoted
from skillopt_mcp.redaction.redacting import KnownSecrets, find_secrets


class Passage(NamedTuple):
    """A place in a text, what identifies it in a comparison with the parent, and its description, after "adds "."""

    at: int
    key: str
    text: str


_COMMENT = re2.compile(r"(?s)<!--.*?(?:-->|\z)")
# What the edit engine writes; in what a model proposes it refuses them.
_MARKER = re2.compile(r"<!--\s*(?:SLOW_UPDATE|APPENDIX)_(?:START|END)\s*-->")
_UNSEEN = re2.compile(
    r"""(?im)<(?:script|iframe|object|embed|style|details)\b[^>]*>|\bstyle\s*=\s*["'][^"']*display\s*:\s*none"""
    r"""|^\[(?://|comment|_)\]:\s*#[^\n]*"""
)
_PRIVATE_KEY = re2.compile("-----BEGIN [A-Z ]*PRIVATE KEY-----")
_WORD = re2.compile(r"[\pL\pM]+")
_LONG_SECRET = 20
_MAX_FOUND = 10_000  # a text with so many is looked at by a person anyway
_SHORTEST_WORD = 4  # shorter ones are formulas and units
_LOOK_ALIKE = {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"}


def hidden(text: str) -> Iterator[Passage]:
    """Yield characters that a reader cannot see, each with its neighbours on the line: moved, it is a new one."""
    for at in islice(hidden_offsets(text), _MAX_FOUND):
        left = text[max(at - 4, 0) : at].rpartition("\n")[2]
        key = text[at] + left + text[at : at + 5].partition("\n")[0]
        yield Passage(at, key, f"the hidden character U+{ord(text[at]):04X}")


def comments(text: str) -> Iterator[Passage]:
    """Yield comments and folded or invisible parts, which a model reads and a person is not shown."""
    for pattern in (_COMMENT, _UNSEEN):
        for found in pattern.finditer(text):
            if not _MARKER.fullmatch(found.group()):
                part = " ".join(found.group().split())
                yield Passage(found.start(), part, f"a part that a rendered page does not show, {quoted(part, 60)}")


def disguised(text: str) -> Iterator[Passage]:
    """Yield words that mix alphabets whose letters look alike, as no language does."""
    if text.isascii():
        return
    for found in _WORD.finditer(text):
        word = found.group()
        if word.isascii() or len(word) < _SHORTEST_WORD:
            continue
        if len({_alphabet(letter) for letter in word} & _LOOK_ALIKE) > 1:
            yield Passage(found.start(), word, f"a word that mixes alphabets, {quoted(word)}")


def secrets(text: str, known: KnownSecrets) -> Iterator[Passage]:
    """Yield what looks like a secret, or is one that is known; only its beginning is shown."""
    for secret in find_secrets(text.encode("utf-8", "replace"), known):
        value = secret.value.decode("utf-8", "replace")
        yield Passage(max(text.find(value), 0), value, f"what looks like a secret{_beginning(value)}")
    for found in _PRIVATE_KEY.finditer(text):
        yield Passage(found.start(), found.group(), f"what looks like a secret{_beginning(found.group())}")


def _beginning(secret: str) -> str:
    """Return the first characters of a secret that is long enough to stay one without them."""
    return f" ({quoted(secret[:4])[1:-1]}...)" if len(secret) >= _LONG_SECRET else ""


def _alphabet(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
