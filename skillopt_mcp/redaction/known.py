"""Known: the secrets that a process holds itself, by their exact values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import re2

from skillopt_mcp.redaction import chance
from skillopt_mcp.redaction.contexts import find_contexts
from skillopt_mcp.redaction.shapes import Found, Pattern, find_shapes

MIN_BYTES = 8
_MOST = 1_000
_NAME = re.compile(
    r"(?:\A|_)(?:API_?KEY|KEY|TOKEN|PAT|SECRETS?|PASS|PASSWD|PASSWORD|PASSPHRASE|PWD|PGPASS|CREDENTIALS?|MNEMONIC|DSN)"
    r"(?:\Z|_)|(?:PASSWORD|SECRET|TOKEN|APIKEY)\Z",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"PASS(?:WORD|WD|PHRASE)?\Z", re.IGNORECASE)
_PLACE = re.compile(rb"\A(?:~|\.{0,2}/|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]*:/)")
_WORDS = re.compile(rb"\A(?:[a-z]+(?:[ _-][a-z]+)*|[\d.,: -]+)\Z", re.IGNORECASE)
_WORD_BYTE = re.compile(rb"\w")


class KnownSecrets:
    """Values that are secret whatever stands around them, each with its kind; shorter than 8 bytes is none."""

    def __init__(self, kinds: Mapping[bytes, str]) -> None:
        self._kinds = {value: kind for value, kind in kinds.items() if len(value) >= MIN_BYTES}

    def __len__(self) -> int:
        return len(self._kinds)

    def find(self, text: bytes) -> Iterator[Found]:
        """Yield where a value stands, not as a part of a longer word."""
        if not self._kinds:
            return
        for match in self._pattern.finditer(text):
            start, end = match.start(), match.end()
            if not (_goes_on(text, start) or _goes_on(text, end)):
                yield Found(start, end, self._kinds[text[start:end]])

    @cached_property
    def _pattern(self) -> Pattern:
        longest_first = sorted(self._kinds, key=len, reverse=True)[:_MOST]
        pattern: Pattern = re2.compile(b"|".join(map(re2.escape, longest_first)))
        return pattern


NOTHING_KNOWN = KnownSecrets({})


def known_secrets(environ: Mapping[str, str], files: Iterable[str] = ()) -> KnownSecrets:
    """Return what a process knows: variables whose names say so, and what its credential files hold."""
    kinds: dict[bytes, str] = {}
    for name, value in environ.items():
        raw = value.encode("utf-8", "surrogateescape")
        for found in _found_in(raw):
            kinds[raw[found.start : found.end]] = found.kind
        if raw not in kinds and _NAME.search(name) and _says_something(raw, is_password=bool(_PASSWORD.search(name))):
            kinds[raw] = "environment"
    for text in files:
        raw = text.encode("utf-8", "surrogateescape")
        kinds.update({raw[found.start : found.end]: found.kind for found in _found_in(raw)})
    return KnownSecrets(kinds)


def _found_in(text: bytes) -> Iterator[Found]:
    yield from find_contexts(text)
    yield from find_shapes(text)


def _says_something(value: bytes, *, is_password: bool) -> bool:
    """Return whether a value is none of those that stand in such variables without being secret: a place, a choice."""
    return not (_PLACE.search(value) or (not is_password and _WORDS.search(value)) or chance.is_stand_in(value))


def _goes_on(text: bytes, at: int) -> bool:
    """Return whether a word goes on across `at`."""
    return bool(0 < at < len(text) and _WORD_BYTE.match(text, at - 1) and _WORD_BYTE.match(text, at))
