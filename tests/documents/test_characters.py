"""Characters that are not seen are taken out of a text, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.text import hidden_offsets, without_hidden

HIDDEN = [
    *map(chr, range(9)),
    *map(chr, range(14, 32)),
    "\x0b",
    "\x0c",
    "\x7f",
    "\u200b",
    "\u202e",
    "\ufeff",
    "\U000e0041",
]


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("around", ["plain", "two\nlines,\ta tab\r\n", "na\u00efve \u65e5\u672c"])
def test_what_is_unseen_is_taken_out_and_the_rest_stays(hidden: str, around: str) -> None:
    assert without_hidden(f"{hidden}{around}{hidden * 2}{around}") == around * 2
    assert without_hidden(around) == around


@given(st.text(st.characters(max_codepoint=127)))
def test_of_ascii_exactly_what_is_reported_as_hidden_is_taken_out(text: str) -> None:
    hidden_at = set(hidden_offsets(text))
    assert without_hidden(text) == "".join(character for at, character in enumerate(text) if at not in hidden_at)
