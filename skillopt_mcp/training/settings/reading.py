"""Reading: YAML texts as plain values, and their keys as settings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.tasks import SPLITS, Split
from skillopt_mcp.core.text import quoted
from skillopt_mcp.tasks.environments.registry import Scalar, plain_value
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.settings.skillopt_names import (
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

Value = Scalar | list["Value"] | dict[str, "Value"]
Tree = dict[str, Value]


class _Loader(yaml.SafeLoader):
    """The safe loader, with plain scalars as YAML 1.2 has them, so that 2:1:7 stays a text, and no key twice."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # A few aliases of aliases stand for more values than any memory holds.
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="found an alias: write the value out", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_scalar(self, node: yaml.ScalarNode) -> Scalar:  # type: ignore[override]
        text = super().construct_scalar(node)
        return plain_value(text) if node.style is None else text

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Tree:  # type: ignore[override]
        found: Tree = {}
        for key, value in node.value:
            name = super().construct_scalar(key)
            if name in found:
                raise yaml.MarkedYAMLError(problem=f"the key {quoted(name)} comes twice", problem_mark=key.start_mark)
            found[name] = self.construct_object(value, deep=True)
        return found


_Loader.yaml_implicit_resolvers = {}
_Loader.yaml_constructors = {
    tag: each for tag, each in _Loader.yaml_constructors.items() if not tag or tag.endswith((":map", ":seq", ":str"))
}


def parse_yaml(text: str, where: str) -> Tree:
    """The mapping of a YAML text. Raises BadInput, also for aliases, tags and a key that comes twice."""
    try:
        value: Value = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        why = ", ".join(filter(None, (error.context, error.problem)))
        raise BadInput(f"{where}{line} cannot be read as YAML: {why[:200]}") from None
    except RecursionError:
        raise BadInput(f"{where} is nested too deep: write settings as key: value") from None
    # PyYAML lets a bad escape such as "\Uffffffff" out as the error of chr().
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise BadInput(f"{where} cannot be read as YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(value, dict | None):
        raise BadInput(f"{where} is not a mapping: write settings as key: value")
    return value or {}


OWN = ("target", "optimizer", "judge", "environment", "concurrency", "out", "prompts")
_ADDRESSES = (
    "azure_openai_endpoint", "azure_openai_api_version", "azure_openai_auth_mode", "qwen_chat_base_url",
    "minimax_base_url", "minimax_model", "openai_compatible_base_url",
)  # fmt: skip
_PREFIXES = ("", "optimizer_", "target_")
ENDPOINTS = frozenset(f"{role}{name}" for role in _PREFIXES for name in _ADDRESSES)
_OLDER = {
    f"{role}azure_{name}": f"{role}azure_openai_{name}" for role in _PREFIXES for name in ("endpoint", "api_version")
}
_CAPS = tuple(f"max_{name}" for name in ("calls", "tokens", "usd", "minutes"))
_PLACES = {"env": "environment", "out_root": "out", "workers": "concurrency", "max_api_workers": "concurrency"}
_LATER = tuple(name.partition(".")[0] for name in OFF_ONLY if not name.startswith("train."))
_VENDORS = "model.* of single vendors: keys and endpoints come from the environment, options from behind the model"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and the name by which it was given, for messages; of two, that of the higher `rank` is the nearer one."""

    value: Value
    key: str
    rank: int = 0


@dataclass(slots=True)
class SettingsLayer:
    """The settings of one source, by the name they have here, and what is to be said of others."""

    values: dict[str, Setting] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    def put(self, name: str, given: Setting) -> None:
        """Keep a value. Raises BadInput when this source has given another one under another name."""
        before = self.values.get(name)
        if before is None or before.value in (None, ""):
            self.values[name] = given
        elif given.value not in (None, "") and before.value != given.value:
            both = f"and {quoted(given.key)} set the same" if before.key != given.key else "is set twice"
            raise BadInput(f"{quoted(before.key)} {both}: give one of them")

    def note(self, text: str, said: str) -> None:
        """Keep a remark on a key."""
        self.notes.setdefault(text, []).append(said)


def read_tree(tree: Tree) -> SettingsLayer:
    """Return the settings of a file: SkillOpt's keys, structured or flat, and the names of this program.

    Raises BadInput for a key that neither has, naming the nearest, and for a value that cannot be honoured.
    """
    layer = SettingsLayer()
    for section, key, value in _leaves(tree):
        _put(layer, section, key, value)
    return layer


def read_pairs(texts: Sequence[str]) -> SettingsLayer:
    """Return the settings of "section.key=value" or "key=value", the later over the earlier of the same name.

    Raises BadInput as `read_tree` does, and where two names of one setting disagree.
    """
    layer = SettingsLayer()
    for text in texts:
        path, equals, value = text.partition("=")
        section, dot, key = path.strip().rpartition(".")
        if not equals or not key:
            raise BadInput(f"cannot use {quoted(text)}: write --set section.key=value, or --set key=value")
        if dot:
            _check_section(section)
        pair = SettingsLayer()
        _put(pair, section, key, plain_value(value.strip()))
        if not value.strip() and pair.values.keys() & Config.model_fields.keys():
            raise BadInput(f"{quoted(text)} gives no value: write one behind the =, or leave it out for the default")
        for name, given in pair.values.items():
            if name in layer.values and layer.values[name].key == given.key:
                del layer.values[name]
            layer.put(name, given)
        for note, said in pair.notes.items():
            layer.notes.setdefault(note, []).extend(said)
    return layer


def read_mapping(values: Mapping[object, object]) -> SettingsLayer:
    """Return the settings of a dict that a program gives: by the names of files, "section.key" too.

    Raises BadInput as `read_tree` does, and for a key that nothing here goes by: a program has no notes to read.
    """
    layer = SettingsLayer()
    for section, key, value in _leaves(values):
        if not isinstance(key, str) or not isinstance(value, str | int | float | None):
            raise BadInput(f"{quoted(str(key))} must have one value: a number, a text, true, false or None")
        alone = SettingsLayer()
        _put(alone, section, key, value)
        if alone.notes and not alone.values:
            raise BadInput(f"{quoted(key)}: {next(iter(alone.notes))}")
        for name, given in alone.values.items():
            layer.put(name, given)
    return layer


def _leaves(tree: Mapping[Any, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield every setting as (section, key, value), "section.key" among them; the section of a flat one is empty."""
    for key, value in tree.items():
        section, dot, inner = str(key).rpartition(".")
        if isinstance(value, Mapping):
            _check_section(str(key))
            yield from ((str(key), name, each) for name, each in value.items())
        else:
            if dot:
                _check_section(section)
            yield section, inner, value


def _check_section(name: str) -> None:
    if name not in (*SECTIONS, *_LATER):
        near = difflib.get_close_matches(name, SECTIONS, n=1)
        meant = f": did you mean {quoted(near[0])}?" if near else "."
        raise BadInput(f"unknown section {quoted(name)}{meant} Known: {', '.join(SECTIONS)}")


def _put(layer: SettingsLayer, section: str, key: str, value: Value) -> None:
    said = f"{section}.{key}" if section else key
    # What belongs to a switch of a later version can only be off.
    for switch, instead in OFF_ONLY.items():
        stem = switch.rpartition("_")[0] if switch.startswith("train.") else switch.partition(".")[0]
        if said == switch and value not in (False, None):
            raise BadInput(f"{quoted(said)} can only be false here: {instead}")
        if said.startswith((f"{stem}.", f"{stem}_")):
            layer.note(instead, said)
            return
    # An option of a person's own environment, and not a misspelled one of ours.
    known = {*IN_SECTION["env"], *SECTION_OF, *Config.model_fields}
    if section == "env" and not difflib.get_close_matches(key, known, n=1, cutoff=0.85):
        layer.note(UNUSED["data_root"], said)
        return
    flat = _flat(layer, section, key, said)
    if isinstance(value, list | dict):
        if flat not in UNUSED:
            raise BadInput(f"{quoted(said)} must be one value, not a list or a mapping")
        value = None
    given = Setting(ALIASES.get(flat, {}).get(str(value).strip().lower(), value), said)
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


def _flat(layer: SettingsLayer, section: str, key: str, said: str) -> str:
    """Return a key's flat name. Raises BadInput for an unknown one, naming the nearest, or its right section."""
    flat = IN_SECTION.get(section, {}).get(key, key)
    for old, new in RENAMED.items():
        if flat == old or flat.startswith(f"{old}_"):
            layer.note(f"'{old}' is called '{new}' since SkillOpt 0.2", said)
            renamed = flat.replace(old, new, 1)
            flat = IN_SECTION["model"].get(renamed, renamed)
    flat = _OLDER.get(flat, flat)
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
            f"{quoted(said)} is a hard cap on what a run may spend: give it to the command, as in "
            f"skillopt-mcp replay SKILL --{flat.replace('_', '-')} N"
        )
    near = _nearest(section, flat)
    meant = f": did you mean {quoted(near)}?" if near else ": skillopt-mcp replay --help lists all"
    raise BadInput(f"unknown setting {quoted(said)}{meant}")


def _nearest(section: str, flat: str) -> str | None:
    """Return the known setting that is most like an unknown one, as it is written in a file; None for none like it."""
    if flat in SECTION_OF:
        return structured(flat)
    known = {name: structured(name) for name in SECTION_OF} | {name: name for name in (*OWN, *Config.model_fields)}
    written = {inner: f"{place}.{inner}" for place, names in IN_SECTION.items() if place for inner in names}
    names = written | known
    here = [name for name, text in names.items() if section and text.startswith(f"{section}.")]
    near = difflib.get_close_matches(flat, here, n=1) or difflib.get_close_matches(flat, list(names), n=1)
    return names[near[0]] if near else None


def structured(flat: str) -> str:
    """How SkillOpt writes one of its flat keys in a structured file: section.key."""
    section = SECTION_OF[flat]
    inner = next((name for name, other in IN_SECTION[section].items() if other == flat), flat)
    return f"{section}.{inner}"


Mode = Literal["ratio", "split_dir"]
DEFAULT_RATIO = "2:1:7"
DEFAULT_SEED = 42
_RATIO = re.compile(r"([0-9]{1,6}):([0-9]{1,6}):([0-9]{1,6})")


class SplitPlan(BaseModel):
    """By `ratio` (shares of train, val and test, drawn by `seed`), or as the folders of a split_dir have it."""

    model_config = ConfigDict(frozen=True)
    mode: Mode
    ratio: str = DEFAULT_RATIO
    seed: int = DEFAULT_SEED

    @property
    def shares(self) -> dict[Split, float]:
        """Return the share of each split."""
        return dict(zip(SPLITS, map(float, self.ratio.split(":")), strict=True))


def split_plan(mode: str, ratio: str | None = None, seed: object = None) -> SplitPlan:
    """Return the plan that these words name, defaults where they are None. Raises BadInput with what is possible."""
    if mode not in ("ratio", "split_dir"):
        raise BadInput(f"unknown split mode {quoted(mode)}: use ratio or split_dir")
    wanted = DEFAULT_RATIO if ratio is None else ratio.strip()
    found = _RATIO.fullmatch(wanted)
    if not found or not all(int(part) for part in found.groups()):
        raise BadInput(f"ratio must be train:val:test above 0 such as {DEFAULT_RATIO}, got {quoted(wanted)}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise BadInput(f"split seed must be a whole number, got {quoted(str(seed))}")
    return SplitPlan(mode=cast(Mode, mode), ratio=wanted, seed=DEFAULT_SEED if seed is None else seed)
