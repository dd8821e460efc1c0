"""Sums: a checksum per row of the tables whose rows are too large, or too many, to stand in an index as well."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

SUMMED: dict[str, tuple[str, str | int]] = {
    "blob": ("sha256", ""), "trajectory": ("id", 0), "call": ("id", 0), "reply": ("call_id", 0), "trial": ("id", 0),
    "budget": ("id", ""),
}  # fmt: skip
"""The tables with a column `sum`: the key of each, and what is below all keys. It covers all others but `id`."""
LATER = {"reply": 1}
"""How many of a table's last columns came after its sum, which covers them where they are not null at the end."""

Value = str | int | float | bytes | None
# Most numbers of a row are small: found here, they need not be spelled.
_SMALL: dict[object, str] = {number: str(float(number)) for number in range(256)}


def row_sum(*values: Value) -> int:
    """Return the CRC-32 of a row's values; 1 and 1.0 are one value, as they are in a column of type real."""
    texts = [value if value.__class__ is str else _SMALL.get(value) or _text(value) for value in values]
    return zlib.crc32("\x1f".join(texts).encode())


def is_summed(row: Sequence[Value], n_later: int = 0) -> bool:
    """Return whether the last value of a row is the sum of those before it, or it has none.

    Of those the `n_later` last came after the sum (see LATER).
    """
    *values, told = row
    while n_later and values[-1] is None:
        values.pop()
        n_later -= 1
    return told is None or told == row_sum(*values)


def _text(value: Value) -> str:
    if value is None or value != value:  # SQLite keeps what is not a number as null
        return ""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value + 0.0)  # type: ignore[operator]
