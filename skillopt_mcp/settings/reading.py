"""Reading: one source of settings (a file, --set, flags) as values under the names that this program has for them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.environments.options import Scalar, plain_value
from skillopt_mcp.errors import BadInput
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.settings.skillopt_names import (
    ALIASES,
    FIELDS,
    FIXED,
    IN_SECTION,
    MODEL_PREFIXES,
    OFF_ONLY,
    RENAMED,
    RETIRED,
    SECTION_OF,
    SECTIONS,
    UNUSED,
)
from skillopt_mcp.settings.trees import Tree, Value

OWN = ("target", "optimizer", "judge", "environment", "slots", "out", "prompts")
ENDPOINTS = (
    "qwen_chat_base_url", "optimizer_qwen_chat_base_url", "target_qwen_chat_base_url", "minimax_base_url",
    "openai_compatible_base_url", "optimizer_openai_compatible_base_url", "target_openai_compatible_base_url",
)  # fmt: skip
_CAPS = tuple(f"max_{name}" for name in ("calls", "tokens", "usd", "minutes"))
_PLACES = {"env": "environment", "out_root": "out", "workers": "slots", "max_api_workers": "slots"}
_LATER = tuple(name.partition(".")[0] for name in OFF_ONLY if not name.startswith("train."))
_VENDORS = "model.* of single vendors: keys and endpoints come from the environment, options from behind the model"


@dataclass(frozen=True, slots=True)
class Given:
    """A value and the name by which it was given, for messages."""

    value: Value
    said: str


@dataclass(slots=True)
class Layer:
    """The settings of one source, by the name they have here, and what is to be said of others."""

    values: dict[str, Given] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    def put(self, name: str, given: Given) -> None:
        """Keep a value. Raises BadInput when this source has given another one under another name."""
        before = self.values.setdefault(name, given)
        if before is not given and before.value != given.value:
            both = f"and {quoted(given.said)} set the same" if before.said != given.said else "is set twice"
            raise BadInput(f"{quoted(before.said)} {both}: give one of them")

    def note(self, text: str, said: str) -> None:
        """Keep a remark on a key."""
        self.notes.setdefault(text, []).append(said)


def read_tree(tree: Tree) -> Layer:
    """Return the settings of a file: SkillOpt's keys, structured or flat, and the names of this program.

    Raises BadInput for a key that neither has, naming the nearest, and for a value that cannot be honoured.
    """
    layer = Layer()
    for section, key, value in _leaves(tree):
        _put(layer, section, key, value)
    return layer


def read_pairs(texts: Sequence[str]) -> Layer:
    """Return the settings of pairs, the later over the earlier of the same name.

    Raises BadInput as `read_pair` does, and where two names of one setting disagree.
    """
    layer = Layer()
    for text in texts:
        pair = read_pair(text)
        for name, given in pair.values.items():
            if name in layer.values and layer.values[name].said == given.said:
                del layer.values[name]
            layer.put(name, given)
        for note, said in pair.notes.items():
            layer.notes.setdefault(note, []).extend(said)
    return layer


def read_pair(text: str) -> Layer:
    """Return the setting of "section.key=value" or "key=value". Raises BadInput as `read_tree` does."""
    path, equals, value = text.partition("=")
    section, dot, key = path.strip().rpartition(".")
    if not equals or not key:
        raise BadInput(f"cannot use {quoted(text)}: write --set section.key=value, or --set key=value")
    layer = Layer()
    _check_section(section) if dot else None
    _put(layer, section, key, plain_value(value.strip()))
    if not value.strip() and layer.values.keys() & Config.model_fields.keys():
        raise BadInput(f"{quoted(text)} gives no value: write one behind the =, or leave it out for the default")
    return layer


def read_mapping(values: Mapping[object, object]) -> Layer:
    """Return the settings of a dict that a program gives: by the names of files, "section.key" too.

    Raises BadInput as `read_tree` does, and for a key that nothing here goes by: a program has no notes to read.
    """
    layer = Layer()
    for name, value in values.items():
        section, _, key = str(name).rpartition(".")
        if isinstance(value, Mapping):
            _check_section(str(name))
        inner = ((name, *each) for each in value.items()) if isinstance(value, Mapping) else [(section, key, value)]
        for place, own, each in inner:
            _put_alone(layer, place, own, each)
    return layer


def _put_alone(layer: Layer, section: object, key: object, value: object) -> None:
    if not isinstance(section, str) or not isinstance(key, str) or not isinstance(value, str | int | float | None):
        raise BadInput(f"{quoted(str(key))} must have one value: a number, a text, true, false or None")
    _check_section(section) if section else None
    alone = Layer()
    _put(alone, section, key, value)
    if alone.notes and not alone.values:
        raise BadInput(f"{quoted(key)}: {next(iter(alone.notes))}")
    for name, given in alone.values.items():
        layer.put(name, given)


def _leaves(tree: Tree) -> Iterator[tuple[str, str, Value]]:
    """Yield every setting as (section, key, value), "section.key" among them; the section of a flat one is empty."""
    for key, value in tree.items():
        if isinstance(value, dict):
            _check_section(key)
            yield from ((key, inner, each) for inner, each in value.items())
        else:
            section, dot, inner = key.rpartition(".")
            _check_section(section) if dot else None
            yield section, inner, value


def _check_section(name: str) -> None:
    if name not in (*SECTIONS, *_LATER):
        near = difflib.get_close_matches(name, SECTIONS, n=1)
        meant = f": did you mean {quoted(near[0])}?" if near else "."
        raise BadInput(f"unknown section {quoted(name)}{meant} Known: {', '.join(SECTIONS)}")


def _put(layer: Layer, section: str, key: str, value: Value) -> None:
    said = f"{section}.{key}" if section else key
    if _is_later(layer, said, value):
        return
    flat = _flat(layer, section, key, said)
    given = Given(_spelled(flat, value, said), said)
    if flat in FIXED:
        fixed, why = FIXED[flat]
        if value == (not fixed) or isinstance(value, str):
            raise BadInput(f"{quoted(said)} can only be {str(fixed).lower()} here: {why}")
    if flat in RETIRED:
        layer.note(RETIRED[flat], said)
    elif flat in UNUSED:
        layer.note(UNUSED[flat], said)
    elif flat in FIELDS:
        layer.put(FIELDS[flat], given)
    elif flat in Config.model_fields:
        layer.put(flat, given)
    elif flat in ENDPOINTS or not flat.startswith(MODEL_PREFIXES):
        layer.put(_PLACES.get(flat, flat), given)
    elif value not in (None, ""):
        layer.note(_VENDORS, said)


def _is_later(layer: Layer, said: str, value: Value) -> bool:
    """Return whether a key belongs to a switch of a later version, and so is dealt with."""
    for switch, instead in OFF_ONLY.items():
        stem = switch.rpartition("_")[0] if switch.startswith("train.") else switch.partition(".")[0]
        if said == switch and value not in (False, None):
            raise BadInput(f"{quoted(said)} can only be false here: {instead}")
        if said.startswith((f"{stem}.", f"{stem}_")):
            layer.note(instead, said)
            return True
    return False


def _flat(layer: Layer, section: str, key: str, said: str) -> str:
    """Return a key's flat name. Raises BadInput for one that nobody has, naming the nearest, or its right section."""
    flat = IN_SECTION.get(section, {}).get(key, key)
    for old, new in RENAMED.items():
        if flat == old or flat.startswith(f"{old}_"):
            layer.note(f"'{old}' is called '{new}' since SkillOpt 0.2", said)
            renamed = flat.replace(old, new, 1)
            flat = IN_SECTION["model"].get(renamed, renamed)
    if section in ("", SECTION_OF.get(flat)) and flat in SECTION_OF:
        return flat
    if flat.startswith(MODEL_PREFIXES) and section in ("", "model"):
        return flat
    if not section and flat in (*OWN, *Config.model_fields):
        return flat
    if section in SECTIONS and flat in Config.model_fields and flat == key:
        return flat
    if flat.replace("-", "_") in _CAPS:
        raise BadInput(
            f"{quoted(said)} is no setting of a run but a hard cap on what it may spend: give it to the command, as in "
            f"skillopt-mcp replay SKILL --{flat.replace('_', '-')} N"
        )
    near = _nearest(section, flat)
    meant = f": did you mean {quoted(near)}?" if near else ", and none is like it: skillopt-mcp replay --help tells all"
    raise BadInput(f"unknown setting {quoted(said)}{meant}")


def _nearest(section: str, flat: str) -> str | None:
    """Return the known setting that is most like an unknown one, as it is written in a file; None for none like it."""
    if flat in SECTION_OF:
        return structured(flat)
    known = {name: structured(name) for name in SECTION_OF} | {name: name for name in (*OWN, *Config.model_fields)}
    written = {inner: f"{place}.{inner}" for place, names in IN_SECTION.items() for inner in names}
    names = written | known
    here = [name for name, text in names.items() if section and text.startswith(f"{section}.")]
    near = difflib.get_close_matches(flat, here, n=1) or difflib.get_close_matches(flat, list(names), n=1)
    return names[near[0]] if near else None


def structured(flat: str) -> str:
    """Return how SkillOpt writes one of its flat keys in a structured file: section.key."""
    section = SECTION_OF[flat]
    inner = next((name for name, other in IN_SECTION[section].items() if other == flat), flat)
    return f"{section}.{inner}"


def _spelled(flat: str, value: Value, said: str) -> Scalar:
    """Return a setting's value with other spellings of it put right. Raises BadInput for a list or a mapping."""
    if isinstance(value, list | dict):
        if flat in UNUSED:
            return None
        raise BadInput(f"{quoted(said)} must be one value, not a list or a mapping")
    spelled = ALIASES.get(flat, {}).get(str(value).strip().lower())
    return value if spelled is None else spelled
