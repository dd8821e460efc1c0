from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.errors import BadInput
from skillopt_mcp.install.json_edits import JsonText

ENTRY = {"command": "/opt/skillopt-mcp", "args": ["serve"]}
PATH = ("mcpServers", "skillopt")
KEYS = st.text(max_size=5).filter(lambda key: key not in ("mcpServers", "skillopt"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


def edited(text: str, *, comments: bool = False) -> str:
    made = JsonText(text, comments=comments)
    made.set(PATH, ENTRY)
    return made.text


def restored(text: str, *, comments: bool = False) -> str:
    made = JsonText(text, comments=comments)
    made.remove(PATH)
    return made.text


@given(value=OBJECTS, servers=st.none() | OBJECTS, indent=st.sampled_from([None, 2, 4, "\t"]), crlf=st.booleans())
def test_an_entry_comes_and_goes_and_nothing_else_changes(
    value: dict[str, object], servers: dict[str, object] | None, indent: int | str | None, crlf: bool
) -> None:
    if servers:
        value = {**value, "mcpServers": servers}
    text = json.dumps(value, indent=indent) + "\n"
    text = text.replace("\n", "\r\n") if crlf else text
    expected = copy.deepcopy(value)
    expected["mcpServers"] = {**(servers or {}), "skillopt": ENTRY}
    made = edited(text)
    assert json.loads(made) == expected
    assert list(json.loads(made))[: len(value)] == list(value)
    assert edited(made) == made
    assert restored(made) == text


def test_comments_and_trailing_commas_stay_where_they_are() -> None:
    text = (
        "// top\n{\n\t/* servers */\n"
        '\t"mcpServers": {\n\t\t"one": {"command": "x"}, // the first\n\t\t// the end\n\t},\n\t"z": 1,\n}\n'
    )
    made = edited(text, comments=True)
    assert made.startswith(text[: text.index("\t\t// the end")].rstrip("\n"))
    assert made.endswith(text[text.index("\t\t// the end") :])
    assert restored(made, comments=True) == text


def test_a_byte_order_mark_stays() -> None:
    assert edited("\ufeff{}").startswith("\ufeff{")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1,}', "line 1, column 9"),
        ('{"a": 1 // no\n}', "line 1, column 9"),
        ('{\n  "a" 1}', "line 2, column 7"),
        ('{"a": 1} x', "line 1, column 10"),
        ("[1]", "line 1, column 1"),
        ('{"a": 01}', "line 1, column 8"),
        ('{"a": tru}', "line 1, column 7"),
        ('{"a": "x', "line 1, column 7"),
        ('{"a": NaN}', "line 1, column 7"),
        ("[" * 200_000, "too many levels"),
    ],
)
def test_a_text_that_does_not_parse_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(BadInput, match=place):
        JsonText(text, comments=False)
