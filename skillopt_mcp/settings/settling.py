"""Settling: files, pairs and flags, the later over the earlier, as the one record that a run starts from."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.documents.text import quoted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.limits import MAX_CONCURRENCY
from skillopt_mcp.settings.reading import (
    MAX_BYTES,
    Layer,
    Setting,
    SplitPlan,
    Tree,
    parse_toml,
    parse_yaml,
    read_pairs,
    read_tree,
    split_plan,
)
from skillopt_mcp.settings.skillopt_names import BACKENDS
from skillopt_mcp.training.config import Config

_OF_CONFIG = ("limit", "lr_control_mode")
_ROLES = ("target", "optimizer")
# SkillOpt's backends that have an address and a key of their own: a word of their names -> how their settings begin.
_VENDORS = {"minimax": "minimax", "qwen": "qwen_chat", "compatible": "openai_compatible"}
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


def load_settings(path: Path | None, pairs: Sequence[str], flags: Mapping[str, object]) -> Settings:
    """Return the settings of a file, overridden by "section.key=value" pairs, and these by flags.

    A file may name another with `_base_`, relative to itself. Raises BadInput for what cannot be read or used.
    """
    layers = [read_tree(tree) for tree in _chain(path)] if path else []
    layers.append(read_pairs(pairs))
    layers.append(_flagged(flags))
    return settle(layers)


def _flagged(flags: Mapping[str, object]) -> Layer:
    layer = Layer()
    for name, value in flags.items():
        if isinstance(value, str | int | float):
            layer.put(name, Setting(value, f"--{name.replace('_', '-')}"))
    return layer


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
    parse = {".toml": parse_toml, ".yaml": parse_yaml, ".yml": parse_yaml}.get(path.suffix)
    if parse is None:
        raise BadInput(f"{where} is not a settings file: name a .toml, .yaml or .yml file")
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{where} is not a regular file: name a .toml or .yaml file")
        if status.st_size > MAX_BYTES:
            raise BadInput(f"{where} has {status.st_size:,} bytes, {MAX_BYTES:,} are allowed: settings are few")
        return parse(path.read_text("utf-8-sig"), where)
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    except OSError as error:
        raise BadInput(f"{where} cannot be read ({error.strerror}): check the path") from error


def settle(layers: Sequence[Layer]) -> Settings:
    """Return the settings of all layers together. Raises BadInput naming the setting whose value cannot be."""
    values: dict[str, Setting] = {}
    notes: dict[str, list[str]] = {}
    for layer in layers:
        values |= layer.values
        for text, said in layer.notes.items():
            notes.setdefault(text, []).extend(said)
    mode = values.get("lr_control_mode")
    if mode:
        values |= _controlled(mode)
    values |= _limited(values)
    plan, data_path = _data(values)
    return Settings(
        config=_config(values),
        target=_backend(values, "target"),
        optimizer=_backend(values, "optimizer"),
        judge=_text(values, "judge"),
        environment=_text(values, "environment"),
        concurrency=_concurrency(values),
        out=_text(values, "out"),
        prompts=_text(values, "prompts"),
        splits=plan,
        data_path=data_path,
        notes=tuple(f"{_listed(said)}: {text}" for text, said in notes.items()),
        chosen_by={role: kind.key for role in _ROLES if (kind := _backend_key(values, role))},
    )


def settled_config(layer: Layer) -> Config:
    """Return the config of one layer. Raises BadInput for a setting that is none of a config, or cannot be."""
    for name, given in layer.values.items():
        if name not in (*Config.model_fields, *_OF_CONFIG):
            raise BadInput(f"unknown setting {quoted(given.key)}: see help(skillopt_mcp.Config)")
    return settle([layer]).config


def _config(values: dict[str, Setting]) -> Config:
    given = {name: values[name] for name in Config.model_fields if name in values and values[name].value is not None}
    for name, each in given.items():
        if isinstance(each.value, bool) and bool not in _types(Config.model_fields[name].annotation):
            raise BadInput(f"{quoted(each.key)} must not be {str(each.value).lower()}: give a number or a text")
    said = {name: each.key for name, each in given.items()}
    return Config.model_validate({name: each.value for name, each in given.items()}, context=said)


def _limited(values: dict[str, Setting]) -> dict[str, Setting]:
    """Return the limits of the splits that say nothing of their own where there is a limit to all of them."""
    overall = values.get("limit")
    if overall is None or not overall.value:
        return {}
    return {name: overall for name in LIMITS if name not in values or not values[name].value}


def _types(annotation: object) -> tuple[object, ...]:
    return get_args(annotation) or (annotation,)


def _controlled(mode: Setting) -> dict[str, Setting]:
    """Return what SkillOpt's way of setting the learning rate sets here."""
    match mode.value:
        case "fixed" | None:
            return {}
        case "autonomous":
            return {"schedule": Setting("autonomous", mode.key)}
        case "none":
            budget = Setting(_NO_BUDGET, mode.key)
            return {"schedule": Setting("constant", mode.key), "max_edits": budget, "min_edits": budget}
        case other:
            raise BadInput(f"{quoted(mode.key)} must be fixed, autonomous or none, not {quoted(str(other))}")


def _backend(values: dict[str, Setting], role: str) -> str | None:
    """Return who answers for a role, as BACKEND:MODEL."""
    own = _text(values, role)
    model, kind = _text(values, f"{role}_model"), _backend_key(values, role)
    if own or not model:
        return own
    word = str(kind.value).strip().lower() if kind else "openai_chat"
    if kind is None and ":" in model:
        return model
    name = BACKENDS.get(word)
    if kind and name is None:
        known = ", ".join(sorted(BACKENDS))
        raise BadInput(f"unknown backend {quoted(str(kind.value))} in {quoted(kind.key)}; use one of: {known}")
    return f"{name}:{model}{_address(values, role, word)}" if name == "openai" else f"{name}:{model}"


def _address(values: dict[str, Setting], role: str, word: str) -> str:
    """Return the options of a spec that lead to the server that the settings mean, never to another vendor's.

    SkillOpt reaches Azure by `openai_chat`, too, where an endpoint or the shared backend says so. Raises BadInput where
    a server is meant, but its address is not given.
    """

    def find(name: str) -> str | None:
        return _text(values, f"{role}_{name}") or _text(values, name)

    vendor = next((settings for name, settings in _VENDORS.items() if name in word), None)
    if vendor:
        url = find(f"{vendor}_base_url")
        if url is None:
            raise BadInput(f"{role} backend {quoted(word)} has no address: set model.{vendor}_base_url")
        return f",base_url={url},key_env={vendor.upper()}_API_KEY"
    endpoint, shared = find("azure_openai_endpoint"), _text(values, "model_backend") or ""
    if not endpoint and "azure" not in f"{word} {shared.lower()}":
        return ""
    version = find("azure_openai_api_version")
    parts = [",azure=on", f",base_url={endpoint}" if endpoint else "", f",api_version={version}" if version else ""]
    return "".join(parts)


def _backend_key(values: dict[str, Setting], role: str) -> Setting | None:
    """Return what chooses a role's backend by SkillOpt's word for it, None where nothing does."""
    if _text(values, role) or not _text(values, f"{role}_model"):
        return None
    kind = values.get(f"{role}_backend") or values.get("model_backend")
    return kind if kind and kind.value else None


def _data(values: dict[str, Setting]) -> tuple[SplitPlan | None, str | None]:
    mode, folder, path = (_text(values, name) for name in ("split_mode", "split_dir", "data_path"))
    if mode is None and not folder and not path:
        return None, None
    ratio, seed = values.get("split_ratio"), values.get("split_seed")
    plan = split_plan(
        mode or ("split_dir" if folder else "ratio"),
        str(ratio.value) if ratio and ratio.value else None,
        seed.value if seed else None,
    )
    return plan, folder if plan.mode == "split_dir" else path


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
