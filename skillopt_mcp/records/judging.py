"""Judging: how an answer is to be scored (the spec, as a task carries it) and the score that comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class Spec(BaseModel):
    """What every judge spec shares: unknown fields are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Exact(Spec):
    """The answer equals one of `expected`, after trimming, case folding (unless `case_sensitive`) and Unicode NFC."""

    kind: Literal["exact"]
    expected: str | list[str]
    case_sensitive: bool = False


class Contains(Spec):
    """The answer contains all (or, with `any`, at least one) of `expected`; soft is the share it contains."""

    kind: Literal["contains"]
    expected: str | list[str]
    any: bool = False
    case_sensitive: bool = False


class Regex(Spec):
    """A linear-time (RE2) pattern is found in the trimmed answer (with `full`, matches all of it)."""

    kind: Literal["regex"]
    pattern: str
    full: bool = False


class Numeric(Spec):
    """The answer's last number is within `tolerance` (or `relative` x expected) of `expected`.

    Currency signs, units, a percent sign and grouping commas are passed over; nothing is computed.
    """

    kind: Literal["numeric"]
    expected: float
    tolerance: float = Field(default=1e-9, ge=0)
    relative: float = Field(default=0.0, ge=0)


class Choice(Spec):
    """The answer names exactly one of `options` (letters, texts, or texts by their letter A, B, ...): `expected`."""

    kind: Literal["choice"]
    expected: str
    options: list[str] = Field(min_length=2)


class All(Spec):
    """Every judge in `judges` passes; soft is their mean."""

    kind: Literal["all"]
    judges: list[JudgeSpec] = Field(min_length=1)


JudgeSpec = Annotated[Exact | Contains | Regex | Numeric | Choice | All, Field(discriminator="kind")]
All.model_rebuild()
_ADAPTER: TypeAdapter[JudgeSpec] = TypeAdapter(JudgeSpec)
KINDS: tuple[str, ...] = ("exact", "contains", "regex", "numeric", "choice", "all")


@dataclass(frozen=True, slots=True)
class Score:
    """A judgement: `hard` passed or not, `soft` in [0, 1], and the reason in words.

    `reason` may quote what was expected, so only people see it; `hint` never quotes it and may go to an optimizer.
    """

    hard: bool
    soft: float
    reason: str
    hint: str = ""


def parse_spec(value: object) -> JudgeSpec:
    """Return the judge spec of a decoded JSON value. Raises pydantic.ValidationError when it is none."""
    return _ADAPTER.validate_python(value)


def parse_spec_json(text: str) -> JudgeSpec:
    """Return the judge spec of a JSON text written by `spec_json`."""
    return _ADAPTER.validate_json(text)


def spec_json(spec: JudgeSpec) -> str:
    """Return the spec as compact JSON, without defaults."""
    return spec.model_dump_json(exclude_defaults=True)
