"""Mnemonics: runs of 12 to 24 words that hold the key of a wallet (BIP 39)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

import re2

from skillopt_mcp.redaction.shapes import Found, Pattern
from skillopt_mcp.redaction.words import WORDS

# Twelve words with what may stand between them: spaces, commas, quotes, line ends, numbers of a list.
_BETWEEN = r"(?:[ \t\n,\"']{1,5}|[ \t\n]{1,3}[0-9]{1,2}[.)] ?)"
_RUN: Pattern = re2.compile(rf"(?i)\b(?:[a-z]{{3,8}}{_BETWEEN}){{11,}}[a-z]{{3,8}}\b")
_WORD = re.compile(rb"[A-Za-z]{3,8}")
_NUMBERS = {word.encode(): number for number, word in enumerate(WORDS)}
_LENGTHS = (24, 21, 18, 15, 12)
_SHORTEST = _LENGTHS[-1]
_BITS = 11
# A run's words in lower case, with all that may stand between them as spaces.
_UPPER, _BESIDE = bytes(range(65, 91)), b"0123456789.),\"'\t\n"
_PLAIN = bytes.maketrans(_UPPER + _BESIDE, _UPPER.lower() + b" " * len(_BESIDE))


def find_mnemonics(text: bytes) -> Iterator[Found]:
    """Yield the runs of words whose checksum is right."""
    for match in _RUN.finditer(text):
        words = text[match.start() : match.end()]
        if not _may_hold(words):
            continue
        run: list[tuple[int, int, int]] = []
        for word in _WORD.finditer(words):
            number = _NUMBERS.get(word.group().lower())
            if number is None:
                yield from _in_run(run, match.start())
                run = []
            else:
                run.append((word.start(), word.end(), number))
        yield from _in_run(run, match.start())


def _may_hold(run: bytes) -> bool:
    """Return whether twelve words of the list may stand together: only one word in twelve has to be looked at."""
    words = run.translate(_PLAIN).split()
    for at in range(_SHORTEST - 1, len(words), _SHORTEST):
        if words[at] not in _NUMBERS:
            continue
        first, end = at, at + 1
        while first and words[first - 1] in _NUMBERS:
            first -= 1
        while end < len(words) and words[end] in _NUMBERS:
            end += 1
        if end - first >= _SHORTEST:
            return True
    return False


def _in_run(run: Sequence[tuple[int, int, int]], offset: int) -> Iterator[Found]:
    """Yield what is found in words of the list that stand together, each as (start, end, number)."""
    at = 0
    while at + _SHORTEST <= len(run):
        numbers = [number for _, _, number in run[at : at + _LENGTHS[0]]]
        n = next((n for n in _LENGTHS if n <= len(numbers) and _is_valid(numbers[:n])), 0)
        if n:
            yield Found(offset + run[at][0], offset + run[at + n - 1][1], "mnemonic")
        at += n or 1


def _is_valid(numbers: list[int]) -> bool:
    """Return whether the last bits are the first of the sha256 of the others, as chance makes them once in 16 times."""
    n_bits = len(numbers) * _BITS
    n_check = n_bits // 33
    value = 0
    for number in numbers:
        value = value << _BITS | number
    entropy = (value >> n_check).to_bytes((n_bits - n_check) // 8)
    return hashlib.sha256(entropy).digest()[0] >> (8 - n_check) == value & ((1 << n_check) - 1)
