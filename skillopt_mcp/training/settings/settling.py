"""Settling: files, pairs and flags, the later over the earlier, as the one record that a run starts from."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.backends.registry import is_spec
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.limits import MAX_CONCURRENCY
from skillopt_mcp.core.text import quoted
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.settings.reading import (
    ENDPOINTS,
    Setting,
    SettingsLayer,
    SplitPlan,
    Tree,
    parse_yaml,
    read_mapping,
    read_pairs,
    read_tree,
    split_plan,
)
from skillopt_mcp.training.settings.skillopt_names import BACKENDS, DEFAULTS, OPENAI_DEFAULTS

_OF_CONFIG = ("limit", "lr_control_mode")
_ROLES = ("target", "optimizer")
# SkillOpt's backends that have an address and a key of their own: a word of their names -> how their settings begin.
_VENDORS = {"minimax": "minimax", "qwen": "qwen_chat", "compatible": "openai_compatible"}
_SHARED = ("azure", *_VENDORS.values())
# SkillOpt's words for a server that speaks OpenAI's API at the address of Azure's settings.
_COMPATIBLE = ("openai_compatible", "compat", "openai")
LIMITS = ("limit_train", "limit_val", "limit_test")
# SkillOpt without a budget lets every edit through; a patch has a limit all the same.
_NO_BUDGET = max(field.le for field in Config.model_fields["max_edits"].metadata if hasattr(field, "le"))


class Settings(BaseModel):
    """All settings of a person; None where one is not set. `notes` describe what SkillOpt's keys mean here.

    `chosen_by` names the key that chose the backend of a role, where that is SkillOpt's word for one.
    """

    model_config = ConfigDict(frozen=True)
    config: Config
    target: str | None = None
    optimizer: str | None = None
    judge: str | None = None
    environment: str | None = None
    concurrency: int | None = None
    out: str | None = None
    prompts: str | None = None
    splits: SplitPlan | None = None
    data_path: str | None = None
    notes: tuple[str, ...] = ()
    chosen_by: dict[str, str] = Field(default_factory=dict)


BASE = "_base_"
MAX_BASES = 16
MAX_BYTES = 1 << 16


def load_settings(path: Path | None, pairs: Sequence[str], flags: Mapping[str, object]) -> Settings:
    """Return the settings of a file, overridden by "section.key=value" pairs, and these by flags.

    A file may name another with `_base_`, relative to itself. Raises BadInput for what cannot be read or used.
    """
    files, flagged = [read_tree(tree) for tree in _chain(path)] if path else [], SettingsLayer()
    for name, value in flags.items():
        if isinstance(value, str | int | float):
            flagged.put(name, Setting(value, f"--{name.replace('_', '-')}"))
    return settle([*files, read_pairs(pairs), flagged], len(files))


def _chain(path: Path) -> list[Tree]:
    """Return the trees of a file and all its bases, the outermost base first."""
    trees: list[Tree] = []
    seen: list[str] = []
    here: Path | None = path
    while here is not None:
        real = os.path.realpath(here)
        if real in seen:
            raise BadInput(f"{quoted(str(path))} inherits from itself: {' -> '.join([*seen, real])}")
        if len(seen) == MAX_BASES:
            raise BadInput(f"{quoted(str(path))} has more than {MAX_BASES} bases: merge some")
        seen.append(real)
        tree = _parsed(here)
        base = tree.pop(BASE, None)
        if base is not None and (not isinstance(base, str) or not base):
            raise BadInput(f"{BASE} of {quoted(str(here))} must be the path of a file")
        trees.append(tree)
        here = here.parent / base if base else None
    return trees[::-1]


def _parsed(path: Path) -> Tree:
    where = quoted(str(path))
    suffix = path.suffix.lower()
    if suffix not in (".yaml", ".yml"):
        kind = "is TOML, and settings are YAML" if suffix == ".toml" else "is not a settings file"
        raise BadInput(f"{where} {kind}: write them as key: value in a .yaml or .yml file")
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{where} is not a regular file: name a .yaml or .yml file")
        if status.st_size > MAX_BYTES:
            raise BadInput(f"{where} has {status.st_size:,} bytes, {MAX_BYTES:,} are allowed: settings are few")
        return parse_yaml(path.read_text("utf-8-sig"), where)
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    except OSError as error:
        raise BadInput(f"{where} cannot be read ({error.strerror}): check the path") from error


def settle(layers: Sequence[SettingsLayer], n_files: int = 0) -> Settings:
    """The settings of all layers together, `n_files` of files first. Raises BadInput for a value that cannot be."""
    values: dict[str, Setting] = {}
    notes: dict[str, list[str]] = {}
    for rank, layer in enumerate(layers):
        values |= {name: replace(given, rank=rank) for name, given in layer.values.items()}
        for text, said in layer.notes.items():
            notes.setdefault(text, []).extend(said)
    if mode := values.get("lr_control_mode"):
        match mode.value:  # SkillOpt's way of setting the learning rate
            case "fixed" | None:
                pass
            case "autonomous":
                values["schedule"] = Setting("autonomous", mode.key)
            case "none":
                values["schedule"] = Setting("constant", mode.key)
                values["max_edits"] = values["min_edits"] = Setting(_NO_BUDGET, mode.key)
            case other:
                raise BadInput(f"{quoted(mode.key)} must be fixed, autonomous or none, not {quoted(str(other))}")
    if (overall := values.get("limit")) and overall.value:
        values |= {name: overall for name in LIMITS if name not in values or not values[name].value}
    split_mode, folder, data_path = (_text(values, name) for name in ("split_mode", "split_dir", "data_path"))
    plan = None
    if split_mode is not None or folder or data_path:
        ratio, seed = values.get("split_ratio"), values.get("split_seed")
        plan = split_plan(
            split_mode or ("split_dir" if folder else "ratio"),
            str(ratio.value) if ratio and ratio.value else None,
            seed.value if seed else None,
        )
        data_path = folder if plan.mode == "split_dir" else data_path
    chosen = {role: _backend(values, role, notes, n_files) for role in _ROLES}
    specs = {role: spec for role, (spec, _, _) in chosen.items()}
    _check_addresses(values, specs, {role: rank for role, (_, _, rank) in chosen.items()}, notes)
    return Settings(
        config=_config(values),
        target=specs["target"],
        optimizer=specs["optimizer"],
        judge=_text(values, "judge"),
        environment=_text(values, "environment"),
        concurrency=_concurrency(values),
        out=_text(values, "out"),
        prompts=_text(values, "prompts"),
        splits=plan,
        data_path=data_path,
        notes=tuple(f"{_listed(said)}: {text}" for text, said in notes.items()),
        chosen_by={role: kind.key for role, (spec, kind, _) in chosen.items() if spec and kind},
    )


def settle_mapping(values: Mapping[object, object]) -> Config:
    """The config of settings by name. Raises BadInput for a setting that is none of a config, or cannot be."""
    layer = read_mapping(values)
    for name, given in layer.values.items():
        if name not in (*Config.model_fields, *_OF_CONFIG):
            raise BadInput(f"unknown setting {quoted(given.key)}: see help(skillopt_mcp.Config)")
    return settle([layer]).config


def _config(values: dict[str, Setting]) -> Config:
    given = {name: values[name] for name in Config.model_fields if name in values and values[name].value is not None}
    for name, each in given.items():
        kind = Config.model_fields[name].annotation
        if isinstance(each.value, bool) and bool not in (get_args(kind) or (kind,)):
            raise BadInput(f"{quoted(each.key)} must not be {str(each.value).lower()}: give a number or a text")
    said = {name: each.key for name, each in given.items()}
    return Config.model_validate({name: each.value for name, each in given.items()}, context=said)


def _backend(
    values: dict[str, Setting], role: str, notes: dict[str, list[str]], n_files: int
) -> tuple[str | None, Setting | None, int]:
    """Who answers for a role, as BACKEND:MODEL; the setting of SkillOpt's that chose it, if one did; the word's rank.

    The nearest word counts, in one source that of the role before that of both. Raises BadInput for a word that is no
    backend here, and for one that has no model.
    """
    spec, model = _nearest(values, role), _nearest(values, f"{role}_model")
    kind = _nearest(values, f"{role}_backend", "model_backend")
    if spec and spec.rank >= max(each.rank for each in (spec, model, kind) if each):
        return str(spec.value), None, spec.rank
    is_near = model and (not kind or (model.rank >= kind.rank and is_spec(str(model.value))))
    if model and is_near and ":" in str(model.value):
        return str(model.value), None, model.rank
    word = str(kind.value).strip().lower() if kind else "openai_chat"
    name = BACKENDS.get(word)
    if kind and name is None:
        known = ", ".join(sorted(BACKENDS))
        raise BadInput(f"unknown backend {quoted(str(kind.value))} in {quoted(kind.key)}; use one of: {known}")
    if model is None and kind and spec:
        raise BadInput(
            f"{quoted(kind.key)} is {quoted(str(kind.value))}, but {quoted(spec.key)} names another backend: set "
            f"model.{role} to a model of it, or leave out {quoted(kind.key)}"
        )
    rank = kind.rank if kind else -1
    if model is None:
        return None, kind, rank
    chosen = str(model.value)
    if "minimax" in word and (own := _nearest(values, f"{role}_minimax_model", "minimax_model", f"{role}_model")):
        model = own
    default = next((each for part, each in DEFAULTS.items() if part in word), None)
    is_default = default and model.rank < n_files and str(model.value) in OPENAI_DEFAULTS
    asked = str(default if is_default else model.value)
    if asked != chosen:
        text = f"{chosen} is not a model of {word}: {asked} is asked instead, as SkillOpt does"
        notes.setdefault(text, []).append(f"model.{role}")
    return f"{name}:{asked}{_address(values, role, word) if name == 'openai' else ''}", kind, rank


def _address(values: dict[str, Setting], role: str, word: str) -> str:
    """The options of a spec that lead to the server that the settings mean, never to another vendor's.

    SkillOpt reaches Azure by `openai_chat`, too, where an endpoint (be it the other role's) or the shared backend says
    so. Raises BadInput where a server is meant, but its address is not given.
    """

    def find(name: str) -> str | None:
        given = _nearest(values, f"{role}_{name}", name)
        return str(given.value) if given else None

    vendor = next((settings for name, settings in _VENDORS.items() if name in word), None)
    setting, key = f"{vendor}_base_url", f"{vendor}_api_key"
    if vendor is None and (find("azure_openai_auth_mode") or "").lower() in _COMPATIBLE:
        setting, key = "azure_openai_endpoint", "azure_openai_api_key"
    elif vendor is None:
        endpoint, version = find("azure_openai_endpoint"), find("azure_openai_api_version")
        is_azure = any(_nearest(values, f"{each}azure_openai_endpoint") for each in ("", "target_", "optimizer_"))
        if not is_azure and "azure" not in f"{word} {_text(values, 'model_backend') or ''}".lower():
            return ""
        parts = [",azure=on", f",base_url={endpoint}" if endpoint else "", f",api_version={version}" if version else ""]
        return "".join(parts)
    url = find(setting)
    if url is None:
        raise BadInput(f"{role} backend {quoted(word)} has no address: set model.{setting}")
    return f",base_url={url},key_env={key.upper()}"


def _check_addresses(
    values: dict[str, Setting], specs: Mapping[str, str | None], ranks: Mapping[str, int], notes: dict[str, list[str]]
) -> None:
    """Note addresses at which no role is asked. Raises BadInput for one that is nearer than the word for a backend."""
    for name in sorted(ENDPOINTS):
        given = _nearest(values, name) if name.endswith(("_endpoint", "_base_url")) else None
        if given is None or any(f"base_url={given.value}" in (spec or "") for spec in specs.values()):
            continue
        vendor = next(each for each in _SHARED if each in name)
        marks = (",azure=on", "key_env=AZURE_") if vendor == "azure" else (f"key_env={vendor.upper()}_API_KEY",)
        for role, spec in specs.items():
            is_other = spec and name.startswith((role, *_SHARED)) and not any(mark in spec for mark in marks)
            if is_other and ranks[role] < given.rank:
                raise BadInput(
                    f"{quoted(given.key)} is not where the {role} would be asked ({spec}): set model.{role}_backend to "
                    "the backend that is meant, or leave out the address"
                )
        notes.setdefault("no role is asked there", []).append(given.key)


def _nearest(values: dict[str, Setting], *names: str) -> Setting | None:
    """The nearest setting of these names that has a text, of several in one source the first; None for none."""
    found = [values[name] for name in names if _text(values, name)]
    return max(found, key=lambda given: given.rank) if found else None


def _concurrency(values: dict[str, Setting]) -> int | None:
    given = values.get("concurrency")
    if given is None or given.value is None:
        return None
    if isinstance(given.value, bool) or not isinstance(given.value, int) or not 1 <= given.value <= MAX_CONCURRENCY:
        raise BadInput(f"{quoted(given.key)} must be 1-{MAX_CONCURRENCY}, got {quoted(str(given.value))}")
    return given.value


def _text(values: dict[str, Setting], name: str) -> str | None:
    given = values.get(name)
    if given is None or given.value in (None, ""):
        return None
    if not isinstance(given.value, str | int | float) or isinstance(given.value, bool):
        raise BadInput(f"{quoted(given.key)} must be a text")
    return str(given.value)


def _listed(said: Sequence[str]) -> str:
    names = list(dict.fromkeys(said))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
