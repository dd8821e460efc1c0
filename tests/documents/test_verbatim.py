import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.documents.verbatim import front_matter_json


def test_values_are_those_of_the_core_schema() -> None:
    block = b"name: a\ndescription: b c\nv: 1.0\nd: 2026-01-01\non: yes\nn: 012\no: 0o17\nl: [1, a, ~]\nm:\n  k: true\n"
    assert front_matter_json(b"---\n" + block + b"---\nbody") == {
        "name": "a",
        "description": "b c",
        "v": 1.0,
        "d": "2026-01-01",
        "on": "yes",
        "n": 12,
        "o": 15,
        "l": [1, "a", None],
        "m": {"k": True},
    }


@pytest.mark.parametrize("content", [b"", b"no front matter", b"---\n- a\n---\n", b"---\na: .nan\n---\n"])
def test_what_is_no_json_object_is_none(content: bytes) -> None:
    assert front_matter_json(content) is None


@given(st.dictionaries(st.from_regex("[a-z]{1,8}", fullmatch=True), st.text(max_size=40), min_size=1, max_size=5))
def test_quoted_texts_come_back_as_they_are_or_not_at_all(fields: dict[str, str]) -> None:
    block = "".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items())
    assert front_matter_json(f"---\n{block}---\n".encode()) in (fields, None)


@given(st.binary(max_size=200))
def test_no_bytes_raise(content: bytes) -> None:
    front_matter_json(b"---\n" + content + b"\n---\n")
