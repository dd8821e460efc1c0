"""Config: the settings of a run, with the paper's defaults."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Mapping
from typing import Literal, Self, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Metric, PairPolicy, SearchGate
from skillopt_mcp.core.text import quoted
from skillopt_mcp.prompts.rendering import UpdateMode
from skillopt_mcp.training.stages.reflect import NotesFrom

T = TypeVar("T")
Schedule = Literal["constant", "linear", "cosine"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
ScheduleKind = Schedule | Literal["autonomous"]
_BOUNDS = {"ge": "from", "gt": "above", "le": "to", "lt": "and below"}
_BUDGET = ("min_edits", "max_edits")
_RISES = "budget_rises"
_SHOWN = 100


class Config(BaseModel):
    """How a run trains. Defaults are those of SkillOpt (Yang et al., 2026) where it has the setting; appendix_limit
    alone is another one. Raises BadInput for what cannot be set, in a copy with changes, too.

    Each field is also a flag of `skillopt-mcp replay` (--max-edits 6), and by its name a setting of `--set NAME=VALUE`
    and of settings files, with or without a section before it; these take SkillOpt's names, too (train.num_epochs).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    epochs: int = Field(default=4, ge=1, le=1000, description="Passes over the train tasks")
    batch: int = Field(default=40, ge=1, le=10_000, description="Train tasks per step")
    minibatch: int = Field(default=8, ge=1, le=1000, description="Trajectories per reflection")
    fan_in: int = Field(default=8, ge=2, le=1000, description="Patches per merge")
    one_merge: bool = Field(default=False, description="Merge all patches in one call where one prompt holds them")
    schedule: ScheduleKind = Field(
        default="cosine",
        description="How the edit budget falls from max_edits to min_edits; autonomous: the optimizer says how many",
    )
    max_edits: int = Field(
        default=4, ge=1, le=64, description="Edit budget of the first step: the textual learning rate"
    )
    min_edits: int = Field(default=2, ge=0, le=64, description="Edit budget of the last step")
    update_mode: UpdateMode = Field(
        default="patch", description="Edits; one rewrite from suggestions; or a rewrite by every minibatch, merged"
    )
    accumulation: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Batches per step, reflected on together; where the last step of an epoch lacks some, "
        "the epoch's first tasks are taken again",
    )
    repeats: int = Field(default=1, ge=1, le=64, description="Rollouts per train task; mixed outcomes are contrasted")
    failure_only: bool = Field(default=False, description="Reflect on failures (and contrasts) alone")
    trajectory_chars: int = Field(
        default=12_000,
        ge=200,
        le=1_000_000,
        description="Characters shown of an attempt; of a message at most a 15th, of a tool's output a 20th, and the "
        "lines that the judge quotes",
    )
    step_buffer: bool = Field(default=True, description="Show the optimizer this epoch's steps and all rejected edits")
    slow_update: bool = Field(default=True, description="From epoch 2 on, compare epochs and write the guidance block")
    slow_samples: int = Field(default=20, ge=1, le=10_000, description="Train tasks that a slow update compares on")
    slow_pairs: PairPolicy = Field(
        default="mixed", description="Pairs that a slow update looks at: all, the changed or the unchanged ones"
    )
    meta_skill: bool = Field(default=True, description="From epoch 2 on, write notes for the optimizer, kept over runs")
    preferences: str = Field(
        default="", max_length=2_000, description="What a person wants of edits, in words, shown to reflection"
    )
    skill_aware: bool = Field(default=False, description="Separate defects (edits) from lapses (notes in the appendix)")
    appendix_source: NotesFrom = Field(default="both", description="Whose analysts write notes: both, failure_only")
    appendix_limit: int = Field(
        default=24, ge=0, le=1000, description="Most notes in the appendix; 0, SkillOpt's default: no limit"
    )
    use_gate: bool = Field(default=True, description="False: every candidate becomes current; promotion stays gated")
    gate: SearchGate = Field(
        default="strict",
        description="strict; fresh: strict, what was accepted measured again; paired_se: a gain above its standard "
        "error, by rollouts of both versions at every step, which doubles the val rollouts; no_regression: no task "
        "falls twice, so what fell is rolled out once more",
    )
    metric: Metric = Field(default="hard", description="What the search gate compares")
    mixed_weight: float = Field(default=0.5, ge=0, le=1, description="Weight of soft in the mixed metric, 0 to 1")
    rescue: bool = Field(
        default=False, description="Try the halves of a rejected bundle of edits, and what is good of it once more"
    )
    seed: int = Field(default=42, ge=0, lt=2**32, description="Seed of every shuffle")
    sessions: int = Field(default=8, ge=0, le=1000, description="Recorded trajectories mixed into every reflection")
    limit_train: int = Field(default=0, ge=0, le=1_000_000, description="Train tasks of the run at most; 0: all")
    limit_val: int = Field(default=0, ge=0, le=1_000_000, description="Val tasks of the run at most; 0: all")
    limit_test: int = Field(default=0, ge=0, le=1_000_000, description="Test tasks of the run at most; 0: all")

    @classmethod
    def of_run(cls, text: str) -> Config:
        """Return the config of a run's row (json)."""
        return cls.model_validate(json.loads(text))

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values in the places of these. Raises BadInput for what cannot be set."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).model_validate(given | dict(update or {}))

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, bool) and cls.model_fields[info.field_name or ""].annotation in (int, float):
            raise ValueError("not a number")
        return value

    @model_validator(mode="after")
    def _budget_falls(self) -> Self:
        if self.min_edits > self.max_edits:
            raise PydanticCustomError(_RISES, "the edit budget rises", self.model_dump(include={*_BUDGET}))
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, values: object, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Return the config. Raises BadInput; the context, where there is one, maps each setting to its given name."""
        names = info.context if isinstance(info.context, Mapping) else {}
        try:
            return handler(values)
        except ValidationError as error:
            prefix = "config: " if info.context is None else ""
            raise BadInput(f"{prefix}{_describe_error(error, names)}") from None


def allowed(field: FieldInfo) -> str:
    """Return the values that a field takes, in words: its choices, or its kind and its bounds."""
    kind = field.annotation
    if kind is bool:
        return "true or false"
    choices = [str(each) for part in get_args(kind) for each in (get_args(part) or (part,))]
    if choices:
        return ", ".join(choices)
    bounds = {name: getattr(each, name) for each in field.metadata for name in _BOUNDS if hasattr(each, name)}
    said = "a text" if kind is str else "a number" if kind is float else "a whole number"
    return " ".join([said, *(f"{_BOUNDS[name]} {bound:,}" for name, bound in bounds.items())])


def _describe_error(error: ValidationError, names: Mapping[str, str]) -> str:
    """What is wrong with the first wrong setting; `names` are those that the settings were given by."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    given = names.get(name, name)
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, Config.model_fields, n=1)
        return f"unknown setting {quoted(given)}: " + (
            f"did you mean {quoted(near[0])}?" if near else "see help(skillopt_mcp.Config)"
        )
    if first["type"] == _RISES:
        (least, n_least), (most, n_most) = (
            (names.get(each, each), f"{first['ctx'][each]}{'' if each in first['input'] else ' (default)'}")
            for each in _BUDGET
        )
        return f"{least} must be at most {most}, got {n_least} and {n_most}"
    if name in Config.model_fields:
        possible = allowed(Config.model_fields[name])
        possible = possible if possible.startswith(("a ", "true")) else f"one of {possible}"
        return f"{given} must be {possible}, got {quoted(str(first['input']), _SHOWN)}"
    return f"{given or 'the settings'}: {first['msg']}"


# What help() shows of a class is its docstring: pydantic keeps the texts of the fields to itself.
Config.__doc__ = "\n\n".join(
    [
        inspect.cleandoc(Config.__doc__ or ""),
        *(f"{name} = {field.default!r}  ({allowed(field)})\n    {field.description}."
          for name, field in Config.model_fields.items()),
    ]
)  # fmt: skip
