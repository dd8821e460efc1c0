"""Chance: whether a value looks drawn at random, or like a word, a name or a stand-in that people write."""

from __future__ import annotations

import re
from operator import sub

import re2

_LOWER, _UPPER, _DIGIT, _OTHER = b"luds"
_CLASSES = bytes(
    _LOWER if 97 <= byte <= 122 else _UPPER if 65 <= byte <= 90 else _DIGIT if 48 <= byte <= 57 else _OTHER
    for byte in range(256)
)
# A capital before a small letter begins a word; every other change of class is what chance does and people avoid.
_TURNS = (b"lu", b"ld", b"dl", b"ud", b"du")
_SYMBOLS = frozenset(b"!@#$%^&*?~+")
_STAND_IN = re2.compile(
    r"(?i)\A(?:[<{#&]|\$[a-z_]\w*\z|\$2[aby]\$|\[redacted:|[au]rn:|none\b|null\b|true\b|false\b|test)"
    r"|\$\(|\$\{|\$\$|\{\w*\}|\{\{|%[sd(]|%[A-Z_]+%|<[a-z]|\*\*\*|\.\.\.|0{8}|xxxx|a-zA-Z|A-Za-z|\[0-9|\[a-z"
    r"|example|change[_-]?me|place[_-]?holder|your[_-]|\bmy[_-]|dummy|fake|sample|redacted|foobar"
    r"|\A[^A-Za-z]*(?:my|the|your|db|user|new|old|super|admin|root|api|client|app|some|a)?[^A-Za-z0-9]*"
    r"(?:pass(?:word|wd|phrase)?|secret|token|key|pw|pwd|admin|root|postgres|guest)[^A-Za-z]{0,6}\z"
)
_KIND_OF_VALUE = re.compile(rb"(?i)(?:secret)?string|bytes|optional|required|object|hidden|prompt|value|option|unset")
_BEGINNING = 64
_NAMES = re.compile(rb"[A-Z]?[a-z]{4,}")
_ADDRESS = re.compile(rb"\A[\w.+-]+@[\w-]+\.[\w.-]+\Z")
_CODE = re2.compile(r"\A\W*[A-Za-z_]\w*(?:\.[A-Za-z_]|->|::|\(|\[)|\(.*\)|\[.*\]|[<>|\\]|://|\A[./~]")


def is_stand_in(value: bytes) -> bool:
    """Return whether people write such a value where a secret goes: a variable, an example, a mark of redaction."""
    return is_written_for_one(value) or len(set(value)) < 5 or _counts_up(value)


def is_written_for_one(value: bytes) -> bool:
    """Return whether a value says itself that a secret goes there, as one that only counts up does not."""
    return _STAND_IN.search(value) is not None or len(set(value)) < 3


def is_drawn(value: bytes) -> bool:
    """Return whether the rest of a key after its prefix can be real: no example, no row of letters or digits."""
    return len(set(value)) >= 4 and b"EXAMPLE" not in value and b"xxxx" not in value.lower() and not _counts_up(value)


def is_random(value: bytes, n_least: int = 16) -> bool:
    """Return whether a value of at least `n_least` bytes changes between letters and digits as no name does."""
    if len(value) < n_least or len(set(value)) < 8:
        return False
    classes = value.translate(_CLASSES)
    enough = _DIGIT in classes and _n_turns(classes) >= max(4, len(value) / 5)
    return enough and not _counts_up(value) and not reads_as_names(value)


def is_mixed(value: bytes) -> bool:
    """Return whether a value is of capitals, small letters and digits at once, as random as a base64 text is."""
    classes = value.translate(_CLASSES)
    n_lower, n_upper, n_digits = (classes.count(each) for each in (_LOWER, _UPPER, _DIGIT))
    if min(n_lower, n_upper) * 5 < len(value) or n_digits < 2 or len(set(value)) < 16:
        return False
    return _n_turns(classes) * 4 >= len(value) and is_drawn(value) and is_random(value)


def is_password(value: bytes) -> bool:
    """Return whether a value of 8 bytes or more mixes letters, digits and symbols as a password does."""
    if not 8 <= len(value) <= 128 or _ADDRESS.search(value):
        return False
    classes = value.translate(_CLASSES)
    kinds = [_LOWER in classes, _UPPER in classes, _DIGIT in classes, not _SYMBOLS.isdisjoint(value)]
    return (sum(kinds) >= 3 or (len(value) >= 12 and _n_turns(classes) >= 3)) and (kinds[2] or kinds[3])


def is_memorable(value: bytes) -> bool:
    """Return whether a value of 8 bytes or more is of letters and digits alone, as "hunter2secret" is."""
    if not (8 <= len(value) <= 64 and value.isalnum()):
        return False
    return not (value.isalpha() or value.isdigit() or reads_as_names(value))


def reads_as_names(value: bytes) -> bool:
    """Return whether two fifths of a value in both cases are words, as in "PKCS7PrivateKey"."""
    return value != value.lower() and sum(map(len, _NAMES.findall(value))) * 5 >= len(value) * 2


def is_kind_of_value(value: bytes) -> bool:
    """Return whether a value only says of what kind one is to be, as a type or a help text does."""
    return _KIND_OF_VALUE.fullmatch(value) is not None


def is_expression(value: bytes) -> bool:
    """Return whether an unquoted value reads as an expression, a path or an address."""
    return _CODE.search(value) is not None


def is_code(value: bytes) -> bool:
    """Return whether an unquoted value reads as an expression, a path or an address, or as a name in code."""
    return is_expression(value) or (value.replace(b"_", b"").isalnum() and reads_as_names(value))


def _n_turns(classes: bytes) -> int:
    return sum(classes.count(turn) for turn in _TURNS)


def _counts_up(value: bytes) -> bool:
    """Return whether half of the bytes follow the one before, as in "abcdef" and "456789", or repeat it."""
    begin = value[:_BEGINNING]
    steps = list(map(sub, begin[1:], begin))
    return (steps.count(0) + steps.count(1)) * 2 > len(begin)
