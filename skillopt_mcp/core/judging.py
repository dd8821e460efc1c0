"""Judging: what every judge has in common, the registry of their kinds, and the score that a judge gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    PlainValidator,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from skillopt_mcp.core.errors import BadInput


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


Outcome = Score | Unscored


class RecordedMessage(Protocol):
    """A message of an attempt, as its backend recorded it."""

    @property
    def role(self) -> str: ...
    @property
    def content(self) -> str: ...
    @property
    def name(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a judge looks at: the answer, what was recorded of its making, and the task's prompt and (path, text)."""

    answer: str
    messages: Sequence[RecordedMessage] = ()
    prompt: str = ""
    files: Sequence[tuple[str, str]] = ()
    draw: str = ""


class Judge(BaseModel, ABC):
    """Base of every kind: its fields are the parameters, its docstring is the help."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    kind: ClassVar[str]
    of_evals: ClassVar[bool] = False
    """Whether it comes of reading the evals of a tool: nobody writes it by hand."""
    needs_answer_only: ClassVar[bool] = True
    """Whether the answer decides: no model, no program and no recorded message is needed."""

    @abstractmethod
    def score(self, attempt: Attempt) -> Outcome:
        """Return the score of an attempt, in time linear in the part of the answer that is looked at."""

    def check(self) -> None:
        """Raise BadInput if it could never judge sensibly: nothing is expected, a pattern is broken, ..."""

    def references(self) -> list[str]:
        """Return answers; a sensible judge passes at least one. [] if none can be made."""
        return []

    def is_form_only(self) -> bool:
        """Whether it judges the form of an answer alone: such evidence cannot promote."""
        return False

    @model_serializer(mode="wrap")
    def _add_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.kind, **handler(self)}


class Combined(Judge):
    """Base of the kinds that combine the outcomes of other judges."""

    @abstractmethod
    def parts(self) -> Sequence[Judge]:
        """Return the judges that are combined, in order."""

    @abstractmethod
    def combine(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the outcome of the outcomes of its parts."""

    def score(self, attempt: Attempt) -> Outcome:
        """Return the combined score of an attempt."""
        return self.combine([part.score(attempt) for part in self.parts()])


KINDS: dict[str, type[Judge]] = {}
J = TypeVar("J", bound=Judge)


def judge(kind: str, *, of_evals: bool = False) -> Callable[[type[J]], type[J]]:
    """Register a judge class under its kind."""

    def register(cls: type[J]) -> type[J]:
        cls.kind, cls.of_evals = kind, of_evals
        KINDS[kind] = cls
        return cls

    return register


def judge_of(value: object) -> Judge:
    """Return the judge of `{"kind": ..., **parameters}`, unchecked. Raises BadInput in one line."""
    if isinstance(value, Judge):
        return value
    known = f"use one of {', '.join(sorted(kind for kind in KINDS if not KINDS[kind].of_evals))}"
    if not isinstance(value, Mapping):
        raise BadInput(f'judge must be an object: {{"kind": "exact", "expected": "a"}}, got {_show_value(value)}')
    parameters = dict(value)
    kind = parameters.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise BadInput(f"unknown judge kind {_show_value(kind)}; {known}" if kind else f'judge needs a "kind"; {known}')
    try:
        return KINDS[kind].model_validate(parameters)
    except ValidationError as error:
        # Of a union's errors the deepest is about the alternative that was meant.
        deepest = max(error.errors(include_url=False, include_context=False), key=lambda each: len(each["loc"]))
        where = ".".join(str(part) for part in deepest["loc"] if part not in ("str", "list[str]"))[:80]
        if deepest["type"] == "extra_forbidden":
            fields = ", ".join(field.alias or name for name, field in KINDS[kind].model_fields.items())
            raise BadInput(f'"{kind}" has no field {_show_value(where)}; it has: {fields}') from None
        got = "" if deepest["type"] == "missing" else f", got {_show_value(deepest['input'])}"
        why = f"{deepest['msg'][:1].lower()}{deepest['msg'][1:120]}"
        raise BadInput(f"{kind} judge: {_show_value(where)}: {why}{got}") from None


AnyJudge = Annotated[SerializeAsAny[Judge], PlainValidator(judge_of)]


def judge_json(judge: Judge) -> str:
    """Return a judge as compact JSON, without defaults."""
    return judge.model_dump_json(exclude_defaults=True, by_alias=True)


def _show_value(value: object) -> str:
    """Return a short text for any value: a deep list or a huge integer may fail to become text."""
    if isinstance(value, str):
        line = " ".join(value[:320].split()).encode("utf-8", "replace").decode()
        return f'"{line[:80]}{"..." if len(line) > 80 else ""}"'
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**20):
        return f'"{value}"'
    return {"list": "a list", "dict": "an object", "int": "a huge integer"}.get(type(value).__name__, "this")
