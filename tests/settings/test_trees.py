from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.errors import BadInput
from skillopt_mcp.settings.reading import MAX_BYTES, parse_toml, parse_yaml

TEXT = """
# a comment
model: {optimizer: gpt-5.5, key: ""}
train:
  epochs: 4        # a number
  share: 0.5
  tiny: 1e-3
  on: yes
  ratio: 2:1:7
  octal: 007
  none: ~
  empty:
  quoted: "4"
list: [1, two]
"""


def test_a_yaml_text_is_read_as_plain_values() -> None:
    assert parse_yaml(TEXT, "f") == {
        "model": {"optimizer": "gpt-5.5", "key": ""},
        "train": {
            "epochs": 4, "share": 0.5, "tiny": 0.001, "on": True, "ratio": "2:1:7", "octal": 7, "none": None,
            "empty": None, "quoted": "4",
        },
        "list": [1, "two"],
    }  # fmt: skip
    assert parse_yaml("", "f") == parse_yaml("# nothing\n", "f") == parse_yaml("~", "f") == {}


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = {
    "a bomb of aliases": (BOMB, "line 1 has an anchor or alias"),
    "a tag": ("a: !!python/object/apply:os.system [ls]", "has a tag"),
    "a key twice": ("a: 1\na: 2", 'has the key "a" twice'),
    "depth": ("a: " + "[" * 30_000, "is nested too deep"),
    "many keys": ("".join(f"k{n}: {n}\n" for n in range(5_000)), "more than 2,000 values"),
    "a mebibyte": ("".join(f"key{n}: 1\n" for n in range(100_000)), f"{MAX_BYTES:,} are allowed"),
    "two documents": ("a: 1\n---\nb: 2\n", "more than one document"),
    "a list": ("- a\n- b\n", "is not a mapping"),
    "a key that is a list": ("? [a]\n: 1\n", "a key that is not a text"),
    "a bad escape": ('a: "\\Uffffffff"', "is not YAML"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused_fast_and_in_one_line(name: str) -> None:
    text, message = HOSTILE[name]
    started = time.process_time()
    with pytest.raises(BadInput) as error:
        parse_yaml(text, '"settings.yaml"')
    assert time.process_time() - started < 1.5
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 20_000, "a." * 3_000 + "a = 1", "a = 1979-05-27T07:32:00Z", "a = " + "9" * 5_000, "a = 1\na = 2",
     "x = [" + "1," * 5_000 + "]", "y" * 70_000, "a.b.c.d.e.f.g.h = 1"],
    ids=["depth", "dots", "time", "digits", "twice", "many", "size", "levels"],
)  # fmt: skip
def test_hostile_toml_is_refused(text: str) -> None:
    started = time.process_time()
    with pytest.raises(BadInput) as error:
        parse_toml(text, '"settings.toml"')
    assert time.process_time() - started < 1.5
    assert len(str(error.value)) < 400


@given(st.text(alphabet=":-[]{}&*!|>'\"#%@`, \n\tab1.", max_size=60))
def test_any_text_is_a_tree_or_bad_input(text: str) -> None:
    for parse in (parse_yaml, parse_toml):
        try:
            assert isinstance(parse(text, "f"), dict)
        except BadInput:
            continue
