"""Front matter: what is read, what is opaque, and that a new description changes nothing else."""

from __future__ import annotations

import pytest
from corpus import DOCUMENTS
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.documents.frontmatter import one_line, read, set_description


def block(inner: str) -> bytes:
    return f"---\n{inner}\n---\nBody.\n".encode()


def test_name_and_description_are_read() -> None:
    front = read(DOCUMENTS["with_front_matter"])
    assert front is not None
    assert (front.name, front.description) == ("unit-prices", "Work out unit prices from receipts, and compare them.")
    assert [key for key, _ in front.fields] == ["name", "description", "license", "metadata"]


def test_a_byte_order_mark_and_other_line_endings_do_not_hide_it() -> None:
    for content in (DOCUMENTS["with_front_matter_bom"], DOCUMENTS["with_front_matter_crlf"]):
        front = read(content)
        assert front is not None
        assert content[: front.end].rstrip().endswith(b"---")
        assert front.name == "unit-prices"


@pytest.mark.parametrize(
    "inner",
    [
        "name: x\nname: y",
        "a: {b: 1, b: 2}",
        "a: &n x\nb: *n",
        "a: !!str x",
        "a: !!python/object/apply:os.system [ls]",
        "<<: {a: b}",
        "? [a, b]\n: c",
        "a: [[[[[x]]]]]",
        "- a\n- b",
        "just text",
        "",
        "name: x: y",
        'name: "\\Uffffffff"',
        'name: "\\ud800"',
        "%YAML 1.2",
        "name: x\n...\nname: y",
        "\n".join(f"k{n}: v" for n in range(65)),
        "name: " + "x" * 9000,
        "name: \x01",
    ],
)
def test_what_is_not_plain_small_yaml_is_opaque(inner: str) -> None:
    assert read(block(inner)) is None
    assert set_description(block(inner), "New.") is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("description: Old words here", "description: New words, (good) ones."),
        ("description: Old words   # why", "description: New words, (good) ones.   # why"),
        ("description: 'Old'", 'description: "New words, (good) ones."'),
        ('description:   "Old"  ', 'description:   "New words, (good) ones."  '),
        ("description: Old\n  words over\n  lines", "description: New words, (good) ones."),
        ('description: "Old\n  words"', 'description: "New words, (good) ones."'),
        ("description: |\n  Old\n\n  words\n\n", 'description: "New words, (good) ones."\n\n'),
        ("description: >-\n  Old\n  words", 'description: "New words, (good) ones."'),
        ("description:\n  Old words", "description:\n  New words, (good) ones."),
        ("description:", "description: New words, (good) ones."),
        ('"description": Old words', '"description": New words, (good) ones.'),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_only_the_value_changes_however_it_was_written(written: str, expected: str, ending: str) -> None:
    def around(line: str) -> bytes:
        text = f"---\n# é first\nname: x\n{line}\nlicense: MIT  # kept\n---\nBody.\n"
        return text.replace("\n", ending).encode()

    assert set_description(around(written), "New words, (good) ones.") == around(expected)


@given(st.text(min_size=1, max_size=200))
def test_any_description_is_read_back_as_it_was_given(description: str) -> None:
    text = one_line(description)
    new = set_description(block("name: x\ndescription: old"), description)
    if not text:
        assert new is None
        return
    assert new is not None
    front = read(new)
    assert front is not None
    assert front.description == text
    assert new.count(b"\n") == 5
