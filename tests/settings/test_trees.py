from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.training.settings.reading import parse_yaml
from skillopt_mcp.training.settings.settling import load_settings

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


# The first alias is refused: so is a value within itself, and one that grows ninefold with each of nine lines.
HOSTILE = {
    "an alias": ("a: &a [x]\nb: [*a, *a]", "line 2 cannot be read as YAML: found an alias: write the value out"),
    "a tag": ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor for the tag"),
    "a long tag": (f"a: !{'x' * 9_000} 1", "could not determine a constructor for the tag"),
    "a tag of a time": ("epochs: !!timestamp 2026-01-01", "could not determine a constructor for the tag"),
    "a section twice": ("train: {seed: 1}\nseed: 1\ntrain: {batch: 2}", 'line 3 cannot be read as YAML: the key'),
    "depth": ("a: " + "[" * 400 + "]" * 400, "is nested too deep: write settings as key: value"),
    "a long text": ("".join(f"key{n}: 1\n" for n in range(100_000)), "65,536 are allowed"),
    "two documents": ("a: 1\n---\nb: 2\n", "expected a single document in the stream, but found another"),
    "a list": ("- a\n- b\n", "is not a mapping"),
    "TOML": ('target = "a:b"\nepochs = 2\n', "is not a mapping: write settings as key: value"),
    "a key that is a list": ("? [a]\n: 1\n", "expected a scalar node, but found sequence"),
    "a bad escape": ('a: "\\Uffffffff"', "cannot be read as YAML"),
    "a control character": ("a: \x01", "cannot be read as YAML"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_settings_file_is_refused_fast_and_in_one_line(name: str, tmp_path: Path) -> None:
    text, message = HOSTILE[name]
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    started = time.process_time()
    with pytest.raises(BadInput) as error:
        load_settings(path, [], {})
    assert time.process_time() - started < 1.5
    said = str(error.value).replace(str(path), "settings.yaml")
    assert message in said
    assert "\n" not in said
    assert len(said) < 400


def test_a_file_in_toml_is_refused_with_what_to_write(tmp_path: Path) -> None:
    for name in ("night.toml", "NIGHT.TOML"):
        (tmp_path / name).write_text("epochs = 2\n")
        (tmp_path / "leaf.yaml").write_text(f"_base_: {name}\n")
        for path in (tmp_path / name, tmp_path / "leaf.yaml"):
            with pytest.raises(BadInput) as error:
                load_settings(path, [], {})
            assert str(error.value).endswith(
                '" is TOML, and settings are YAML: write them as key: value in a .yaml or .yml file'
            )


@given(st.text(alphabet=":-[]{}&*!|>'\"#%@`, \n\tab1.", max_size=60))
def test_any_text_is_a_tree_or_bad_input(text: str) -> None:
    with suppress(BadInput):
        assert isinstance(parse_yaml(text, "f"), dict)
