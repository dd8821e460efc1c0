"""Settling: layers of settings, the later over the earlier, as the one record that a run starts from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.settings.reading import Given, Layer
from skillopt_mcp.settings.skillopt_names import BACKENDS
from skillopt_mcp.settings.splitting import SplitPlan, split_plan

MAX_SLOTS = 1_000
_OF_CONFIG = ("limit", "lr_control_mode")
_ROLES = ("target", "optimizer")
# Backends of SkillOpt that are reached at an address, by a word of their names -> what their keys begin with.
_VENDORS = (("minimax", "minimax"), ("qwen", "qwen_chat"), ("compatible", "openai_compatible"))
LIMITS = ("limit_train", "limit_val", "limit_test")
# SkillOpt without a budget lets every edit through; a patch has a limit all the same.
_NO_BUDGET = max(field.le for field in Config.model_fields["max_edits"].metadata if hasattr(field, "le"))


class Settings(BaseModel):
    """All that a person set; None where nothing was said. `notes` tell what keys from elsewhere mean here.

    `chosen_by` names the key that chose the backend of a role, where that is SkillOpt's word for one.
    """

    model_config = ConfigDict(frozen=True)
    config: Config
    target: str | None = None
    optimizer: str | None = None
    judge: str | None = None
    environment: str | None = None
    slots: int | None = None
    out: str | None = None
    prompts: str | None = None
    splits: SplitPlan | None = None
    data_path: str | None = None
    notes: tuple[str, ...] = ()
    chosen_by: dict[str, str] = Field(default_factory=dict)


def settle(layers: Sequence[Layer]) -> Settings:
    """Return the settings of all layers together. Raises BadInput naming the setting whose value cannot be."""
    values: dict[str, Given] = {}
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
        slots=_slots(values),
        out=_text(values, "out"),
        prompts=_text(values, "prompts"),
        splits=plan,
        data_path=data_path,
        notes=tuple(f"{_listed(said)}: {text}" for text, said in notes.items()),
        chosen_by={role: kind.said for role in _ROLES if (kind := _backend_key(values, role))},
    )


def settled_config(layer: Layer) -> Config:
    """Return the config of one layer. Raises BadInput for a setting that is none of a config, or cannot be."""
    for name, given in layer.values.items():
        if name not in (*Config.model_fields, *_OF_CONFIG):
            raise BadInput(f"{quoted(given.said)} is no setting of a config: see help(skillopt_mcp.Config)")
    return settle([layer]).config


def _config(values: dict[str, Given]) -> Config:
    given = {name: values[name] for name in Config.model_fields if name in values and values[name].value is not None}
    for name, each in given.items():
        if isinstance(each.value, bool) and bool not in _types(Config.model_fields[name].annotation):
            raise BadInput(f"{quoted(each.said)} must not be {str(each.value).lower()}: give a number or a text")
    said = {name: each.said for name, each in given.items()}
    return Config.model_validate({name: each.value for name, each in given.items()}, context=said)


def _limited(values: dict[str, Given]) -> dict[str, Given]:
    """Return the limits of the splits that say nothing of their own where there is a limit to all of them."""
    overall = values.get("limit")
    if overall is None or not overall.value:
        return {}
    return {name: overall for name in LIMITS if name not in values or not values[name].value}


def _types(annotation: object) -> tuple[object, ...]:
    return get_args(annotation) or (annotation,)


def _controlled(mode: Given) -> dict[str, Given]:
    """Return what SkillOpt's way of setting the learning rate sets here."""
    match mode.value:
        case "fixed" | None:
            return {}
        case "autonomous":
            return {"schedule": Given("autonomous", mode.said)}
        case "none":
            budget = Given(_NO_BUDGET, mode.said)
            return {"schedule": Given("constant", mode.said), "max_edits": budget, "min_edits": budget}
        case other:
            raise BadInput(f"{quoted(mode.said)} must be fixed, autonomous or none, not {quoted(str(other))}")


def _backend(values: dict[str, Given], role: str) -> str | None:
    """Return who answers for a role, as BACKEND:MODEL."""
    own = _text(values, role)
    model, kind = _text(values, f"{role}_model"), _backend_key(values, role)
    if own or not model:
        return own
    if kind is None:
        return model if ":" in model else f"openai:{model}"
    name = BACKENDS.get(str(kind.value).strip().lower())
    if name is None:
        known = ", ".join(sorted(BACKENDS))
        raise BadInput(f"{quoted(kind.said)} is no backend of SkillOpt, {quoted(str(kind.value))}: known are {known}")
    vendor = next((vendor for word, vendor in _VENDORS if word in str(kind.value)), "")
    places = [f"{role}_{vendor}_base_url", f"{vendor}_base_url"] if vendor else []
    url = next((text for place in places if (text := _text(values, place))), None)
    azure = ",azure=on" if "azure" in str(kind.value) else ""
    return f"{name}:{model}{azure}{f',base_url={url}' if url else ''}"


def _backend_key(values: dict[str, Given], role: str) -> Given | None:
    """Return what chooses a role's backend by SkillOpt's word for it, None where nothing does."""
    if _text(values, role) or not _text(values, f"{role}_model"):
        return None
    kind = values.get(f"{role}_backend") or values.get("model_backend")
    return kind if kind and kind.value else None


def _data(values: dict[str, Given]) -> tuple[SplitPlan | None, str | None]:
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


def _slots(values: dict[str, Given]) -> int | None:
    given = values.get("slots")
    if given is None or given.value is None:
        return None
    if isinstance(given.value, bool) or not isinstance(given.value, int) or not 1 <= given.value <= MAX_SLOTS:
        raise BadInput(f"{quoted(given.said)} must be 1 to {MAX_SLOTS:,}, not {quoted(str(given.value))}")
    return given.value


def _text(values: dict[str, Given], name: str) -> str | None:
    given = values.get(name)
    if given is None or given.value in (None, ""):
        return None
    if not isinstance(given.value, str | int | float) or isinstance(given.value, bool):
        raise BadInput(f"{quoted(given.said)} must be a text")
    return str(given.value)


def _listed(said: Sequence[str]) -> str:
    names = list(dict.fromkeys(said))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
