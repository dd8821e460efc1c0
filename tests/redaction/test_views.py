"""Views: escapes undone, and every byte known where it came from."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.redacting import MAX_DEPTH, Redactor, views

KEY = "ghp_" + "a1B2c3D4e5F6" * 3
REDACTOR = Redactor(b"salt")
PLACEHOLDER = REDACTOR.text(KEY)


def test_no_more_levels_are_undone_than_the_limit() -> None:
    assert len(views(b"\\" * 4096)) == MAX_DEPTH + 1


@given(st.text(), st.text(alphabet=st.characters(codec="ascii"), min_size=1), st.text(), st.integers(0, 3))
def test_what_is_found_in_a_view_is_found_in_the_text(before: str, core: str, after: str, depth: int) -> None:
    core = f"<<{core}>>"
    text, escaped = f"{before}{core}{after}", core
    for _ in range(depth):
        text, escaped = json.dumps(text)[1:-1], json.dumps(escaped)[1:-1]
    raw = text.encode("utf-8", "surrogatepass")
    for view in views(raw):
        at = view.text.find(core.encode())
        if at >= 0:
            start, end = view.origin(at, at + len(core))
            assert views(raw[start:end])[0].text == views(core.encode())[0].text


@given(
    st.text(),
    st.text(),
    st.sampled_from(["\x1b[01;31m\x1b[K", "\x1b]8;;", "\u200b", "^[[32m", "\x1b(B"]),
    st.integers(0, 3),
)
def test_a_secret_is_replaced_with_the_codes_in_it_and_nothing_else_is(
    before: str, after: str, code: str, depth: int
) -> None:
    before, after = (text.replace("\x1b", "").replace("^", "") for text in (before, after))
    # The blanks part the key from lines that it could go on over.
    text, key = f"{before}\n {KEY[:7]}{code}{KEY[7:]} \n{after}", f"\n {KEY} \n"
    for _ in range(depth):
        text, key, before, after = (json.dumps(each)[1:-1] for each in (text, key, before, after))
    kept = REDACTOR.text(text)
    assert kept == f"{before}{key.replace(KEY, PLACEHOLDER)}{after}"


@pytest.mark.parametrize(
    "written",
    [
        lambda key: "".join(f"&#{ord(each)};" for each in key),
        lambda key: "".join(f"&#x{ord(each):02X};" for each in key),
        lambda key: key.replace("_", "&lowbar;"),
        lambda key: f"{key[:12]}\\\n\t{key[12:]}",
        lambda key: f"{key[:12]}\r\n        {key[12:]}",
        lambda key: key.encode("utf-16-le").decode(),
        lambda key: key.encode("utf-16-be").decode(),
    ],
)
@given(
    before=st.text(st.characters(codec="ascii")), after=st.text(st.characters(codec="ascii")), depth=st.integers(0, 2)
)
def test_a_secret_is_found_as_other_programs_write_it(
    written: Callable[[str], str], before: str, after: str, depth: int
) -> None:
    before, after = (text.replace("\0", "").replace("\x1b", "") for text in (before, after))
    text = f"{before}\n {written(KEY)} \n{after}"
    for _ in range(depth):
        text, before, after = (json.dumps(each)[1:-1] for each in (text, before, after))
    kept = REDACTOR.text(text)
    assert PLACEHOLDER in kept
    assert (kept.startswith(before), kept.endswith(after)) == (True, True)
