"""Judging: how an answer is to be scored (the spec, as a task carries it) and the score that comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter


class Spec(BaseModel):
    """What every judge spec shares: unknown fields are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


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


class F1(Spec):
    """The answer shares words with one of `expected`: soft is the token F1 of SQuAD, passed from `threshold` on.

    With `exact` it passes when it is one of them (case, punctuation and articles aside), whatever the threshold.
    """

    kind: Literal["f1"]
    expected: str | list[str]
    threshold: float = Field(default=0.8, gt=0, le=1)
    exact: bool = False


class Anls(Spec):
    """The answer is spelled like one of `expected`: soft is ANLS (0 below 0.5), passed from `threshold` on."""

    kind: Literal["anls"]
    expected: str | list[str]
    threshold: float = Field(default=0.8, gt=0, le=1)


class Json(Spec):
    """The answer holds one JSON value, valid under `schema`, equal in `fields` (path such as `items.0.id` -> value).

    `schema` is a JSON Schema without references and formats. Soft is the share of these conditions that hold; numbers
    are equal within `tolerance`.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
    kind: Literal["json"]
    json_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    fields: dict[str, JsonValue] = Field(default_factory=dict)
    tolerance: float = Field(default=1e-9, ge=0)


class Table(Spec):
    """The answer's last Markdown, CSV or TSV table has the cells of `expected` (rows, or a table as text).

    Rows after the first may stand in `any_order`; numbers are equal within `tolerance`; soft is the share of right
    cells (of right rows in any order).
    """

    kind: Literal["table"]
    expected: str | list[list[str]]
    any_order: bool = False
    tolerance: float = Field(default=1e-9, ge=0)


class ToolCalled(Spec):
    """The recorded messages hold `min` to `max` calls of the tool `name` with at least these `arguments`.

    What the answer says of tools counts for nothing; an attempt of which nothing was recorded has no score.
    """

    kind: Literal["tool_called"]
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    min: int = Field(default=1, ge=0)
    max: int | None = Field(default=None, ge=0)


class Length(Spec):
    """The answer has `min` to `max` words (or characters, or lines). Shape only: it cannot promote alone."""

    kind: Literal["length"]
    min: int = Field(default=0, ge=0)
    max: int | None = Field(default=None, ge=0)
    unit: Literal["words", "characters", "lines"] = "words"


class Heading(Spec):
    """The answer has the Markdown headings `expected` (at `level`, if given). Shape only: it cannot promote alone."""

    kind: Literal["heading"]
    expected: str | list[str]
    level: int | None = Field(default=None, ge=1, le=6)


class Rubric(Spec):
    """A judge model finds how much of `rubric` the answer fulfils: none, little, half, most (0.75), all.

    Soft is the median of `votes` independent votes, passed from `threshold` on. The model sees the task too.
    """

    kind: Literal["rubric"]
    rubric: str
    votes: int = Field(default=1, ge=1, le=9)
    threshold: float = Field(default=0.75, gt=0, le=1)


class Command(Spec):
    """The registered command `name` exits with 0 in a private folder that holds the task's files and `answer.txt`.

    A person registers commands at a terminal; a task can only name one. The answer also is its standard input.
    """

    kind: Literal["command"]
    name: str


class ByEnvironment(Spec):
    """The environment `name` scored the attempt itself: only what its backend recorded beside the answer counts.

    An attempt that another backend made has no score. Verdicts on such tasks say who scored them.
    """

    kind: Literal["environment"]
    name: str


class ByHost(Spec):
    """The host that made the attempt says itself how far it fulfils `criteria`: verdicts on such tasks say so.

    It passes from `threshold` on. An attempt that no host reported a score for has none.
    """

    kind: Literal["host"]
    criteria: str
    threshold: float = Field(default=0.75, gt=0, le=1)


class All(Spec):
    """Every judge in `judges` passes; soft is their mean."""

    kind: Literal["all"]
    judges: list[JudgeSpec] = Field(min_length=1)


class Part(Spec):
    """A judge and its weight among others."""

    judge: JudgeSpec
    weight: float = Field(default=1.0, gt=0)


class Weighted(Spec):
    """The weighted mean of `judges` ({judge, weight}) is at least `threshold`; soft is that mean."""

    kind: Literal["weighted"]
    judges: list[Part] = Field(min_length=1)
    threshold: float = Field(default=0.8, gt=0, le=1)


# What scores an attempt by what is recorded of it, and asks nobody.
Rule = Exact | Contains | Regex | Numeric | Choice | F1 | Anls | Json | Table | ToolCalled | Length | Heading
Leaf = Rule | Rubric | Command | ByEnvironment | ByHost
JudgeSpec = Annotated[Leaf | All | Weighted, Field(discriminator="kind")]
_ADAPTER: TypeAdapter[JudgeSpec] = TypeAdapter(JudgeSpec, config=ConfigDict(defer_build=True))
SPECS: dict[str, type[Spec]] = {
    "exact": Exact, "contains": Contains, "regex": Regex, "numeric": Numeric, "choice": Choice, "f1": F1, "anls": Anls,
    "json": Json, "table": Table, "tool_called": ToolCalled, "command": Command, "rubric": Rubric, "length": Length,
    "heading": Heading, "environment": ByEnvironment, "host": ByHost, "all": All, "weighted": Weighted,
}  # fmt: skip
KINDS: tuple[str, ...] = tuple(SPECS)


@dataclass(frozen=True, slots=True)
class Score:
    """A judgement: `hard` passed or not, `soft` in [0, 1], and the reason in words.

    `reason` may quote what was expected: people read it, and, of train tasks alone, the optimizer.
    """

    hard: bool
    soft: float
    reason: str


@dataclass(frozen=True, slots=True)
class Unscored:
    """No judgement, and why: the trial is missing, which is not a zero."""

    reason: str


def parse_spec(value: object) -> JudgeSpec:
    """Return the judge spec of a decoded JSON value. Raises pydantic.ValidationError when it is none."""
    return _ADAPTER.validate_python(value)


def parse_spec_json(text: str) -> JudgeSpec:
    """Return the judge spec of a JSON text written by `spec_json`."""
    return _ADAPTER.validate_json(text)


def spec_json(spec: JudgeSpec) -> str:
    """Return the spec as compact JSON, without defaults."""
    return spec.model_dump_json(exclude_defaults=True, by_alias=True)
