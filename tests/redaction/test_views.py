"""Views: escapes undone, and every byte known where it came from."""

from __future__ import annotations

import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.redaction.redacting import MAX_DEPTH, views


def test_a_text_without_escapes_has_one_view() -> None:
    assert [view.text for view in views(rb"100 % of A&B \d \q")] == [rb"100 % of A&B \d \q"]


def test_the_deepest_view_comes_first() -> None:
    assert [view.text for view in views(rb"a\\nb%20c")] == [b"a\nb c", rb"a\nb c", rb"a\\nb%20c"]


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


def test_a_url_escape_is_one_byte_of_the_view() -> None:
    text = f"x={quote('a b/c', safe='')}&y".encode()
    deepest = views(text)[0]
    at = deepest.text.index(b"b/c")
    assert text[slice(*deepest.origin(at, at + 3))] == b"b%2Fc"
