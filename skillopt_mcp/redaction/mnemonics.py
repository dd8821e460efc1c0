"""Mnemonics: runs of 12 to 24 words that hold the key of a wallet (BIP 39)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

import re2

from skillopt_mcp.redaction.shapes import UTF8, Found, Pattern
from skillopt_mcp.redaction.words import WORDS

# Twelve words with what may stand between them: spaces, commas, quotes, line ends, numbers of a list.
_BETWEEN = r"(?:[ \t\n,\"']{1,5}|[ \t\n]{1,3}[0-9]{1,2}[.)] ?)"
_RUN: Pattern = re2.compile(rf"(?i)\b(?:[a-z]{{3,8}}{_BETWEEN}){{11,}}[a-z]{{3,8}}\b", UTF8)
_WORD = re.compile(rb"[A-Za-z]{3,8}")
_NUMBERS = {word.encode(): number for number, word in enumerate(WORDS)}
_LENGTHS = (24, 21, 18, 15, 12)
_LONGEST, _SHORTEST = _LENGTHS[0], _LENGTHS[-1]
_FEWEST_KINDS = 4
_BITS = 11
# A run's words in lower case, with all that may stand between them as spaces.
_UPPER, _BESIDE = bytes(range(65, 91)), b"0123456789.),\"'\t\n"
_PLAIN = bytes.maketrans(_UPPER + _BESIDE, _UPPER.lower() + b" " * len(_BESIDE))


def find_mnemonics(text: bytes) -> Iterator[Found]:
    """Yield the runs of words whose checksum is right."""
    for match in _RUN.finditer(text):
        start, end = match.span()
        words = text[start:end].translate(_PLAIN).split()
        places = [place for stretch in _stretches(words) for place in _valid_in(words, stretch)]
        if places:
            spans = [word.span() for word in _WORD.finditer(text, start, end)]
            for first, n in places:
                yield Found(spans[first][0], spans[first + n - 1][1], "mnemonic")


def _stretches(words: Sequence[bytes]) -> Iterator[range]:
    """Yield where twelve or more words of the list stand together; most words need not be looked at."""
    before = -1  # the last word that is known not to be one of the list
    while before + _SHORTEST < len(words):
        at = before + _SHORTEST
        while at > before and words[at] in _NUMBERS:
            at -= 1
        if at == before:
            at = before + _SHORTEST + 1
            while at < len(words) and words[at] in _NUMBERS:
                at += 1
            yield range(before + 1, at)
        before = at


def _valid_in(words: Sequence[bytes], stretch: range) -> Iterator[tuple[int, int]]:
    """Yield the mnemonics among words of the list that stand together: the first word's place, and how many words."""
    numbers = [_NUMBERS[words[at]] for at in stretch]
    # The longest run of words from `at` on, as one number: each step takes a word off its front and one in at its end.
    value = end = at = 0
    while at + _SHORTEST <= len(numbers):
        for number in numbers[end : at + _LONGEST]:
            value = value << _BITS | number
            end += 1
        value &= (1 << _BITS * (end - at)) - 1
        n = 0
        # No chance ever draws so few words: such a run need not be summed.
        if len(set(numbers[at : at + _SHORTEST])) >= _FEWEST_KINDS:
            n = next((n for n in _LENGTHS if at + n <= end and _is_valid(value >> _BITS * (end - at - n), n)), 0)
        if n:
            yield stretch[at], n
        at += n or 1


def _is_valid(value: int, n_words: int) -> bool:
    """Return whether the last bits are the first of the sha256 of the others, as chance makes them once in 16 times."""
    n_bits = n_words * _BITS
    n_check = n_bits // 33
    entropy = (value >> n_check).to_bytes((n_bits - n_check) // 8)
    return hashlib.sha256(entropy).digest()[0] >> (8 - n_check) == value & ((1 << n_check) - 1)
