"""Specs: judge specs as callers write them, checked before a task is stored."""

from __future__ import annotations

import math

from pydantic import ValidationError

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import quoted
from skillopt_mcp.judges.checks import check_command
from skillopt_mcp.judges.choices import check_choice
from skillopt_mcp.judges.environments import check_environment
from skillopt_mcp.judges.hosts import check_host
from skillopt_mcp.judges.json_values import check_json
from skillopt_mcp.judges.numbers import check_numeric
from skillopt_mcp.judges.overlap import check_overlap
from skillopt_mcp.judges.patterns import check_pattern
from skillopt_mcp.judges.rubric import check_rubric
from skillopt_mcp.judges.shapes import check_heading, check_length
from skillopt_mcp.judges.tables import check_table
from skillopt_mcp.judges.text import check_texts
from skillopt_mcp.judges.tools import check_tool_called
from skillopt_mcp.records.judging import (
    F1,
    KINDS,
    All,
    Anls,
    ByEnvironment,
    ByHost,
    Choice,
    Command,
    Contains,
    Exact,
    Heading,
    Json,
    JudgeSpec,
    Leaf,
    Length,
    Numeric,
    Part,
    Regex,
    Rubric,
    Table,
    ToolCalled,
    Weighted,
    parse_spec,
)

MAX_JUDGES = 20
MAX_DEPTH = 5
_KNOWN = f"use one of {', '.join(KINDS)}"
_UNION_PARTS = frozenset({"str", "list[str]"})


def parse_judge(value: object) -> JudgeSpec:
    """Return the checked spec of a decoded JSON value. Raises BadInput, in one line, when it is none."""
    _check_shape(value)
    try:
        spec = parse_spec(value)
    except ValidationError as error:
        raise BadInput(_one_line(error)) from None
    check_spec(spec)
    return spec


def check_spec(spec: JudgeSpec) -> None:
    """Raise BadInput when the spec could never judge sensibly: nothing expected, a broken pattern, and so on."""
    match spec:
        case All() | Weighted():
            if not spec.judges:
                raise BadInput(f'{spec.kind} judge: "judges" is empty; give at least one judge')
            for judge in spec.judges:
                check_spec(judge.judge if isinstance(judge, Part) else judge)
            if isinstance(spec, Weighted) and not all(math.isfinite(part.weight) for part in spec.judges):
                raise BadInput("weighted judge: a weight is not a finite number; give one")
        case _:
            _check_leaf(spec)


def _check_leaf(spec: Leaf) -> None:
    match spec:
        case Exact() | Contains():
            check_texts(spec)
        case Regex():
            check_pattern(spec)
        case Numeric():
            check_numeric(spec)
        case Choice():
            check_choice(spec)
        case F1() | Anls():
            check_overlap(spec)
        case Json():
            check_json(spec)
        case Table():
            check_table(spec)
        case ToolCalled():
            check_tool_called(spec)
        case Length():
            check_length(spec)
        case Heading():
            check_heading(spec)
        case Rubric():
            check_rubric(spec)
        case Command():
            check_command(spec)
        case ByEnvironment():
            check_environment(spec)
        case ByHost():
            check_host(spec)


def _check_shape(value: object) -> None:
    """Raise BadInput for what needs a plainer message than validation gives: no object, no kind, too many judges."""
    level, n_judges, depth = [value], 0, 0
    while level:
        n_judges, depth = n_judges + len(level), depth + 1
        if n_judges > MAX_JUDGES or depth > MAX_DEPTH:
            raise BadInput(f'all judge: more than "{MAX_JUDGES}" judges or "{MAX_DEPTH}" levels; use fewer')
        level = [inner for judge in level for inner in _inner_judges(judge)]


def _inner_judges(value: object) -> list[object]:
    if value is None:
        raise BadInput(f'there is no judge: give an object with a "kind"; {_KNOWN}')
    if not isinstance(value, dict):
        raise BadInput(f'a judge is an object with a "kind", not {_shown(value)}; {_KNOWN}')
    kind = value.get("kind")
    if kind is None:
        raise BadInput(f'the judge has no "kind"; {_KNOWN}')
    if not isinstance(kind, str) or kind not in KINDS:
        raise BadInput(f"unknown judge kind {_shown(kind)}; {_KNOWN}")
    judges = value.get("judges")
    if not isinstance(judges, list) or kind not in ("all", "weighted"):
        return []
    if kind == "all":
        return judges
    return [part["judge"] for part in judges if isinstance(part, dict) and "judge" in part]


def _one_line(error: ValidationError) -> str:
    # Of a union's errors the deepest is about the alternative that was meant.
    deepest = max(error.errors(include_url=False, include_context=False), key=lambda each: len(each["loc"]))
    where = ".".join(str(part) for part in deepest["loc"] if part not in _UNION_PARTS)
    if deepest["type"] == "extra_forbidden":
        return f"judge field {quoted(where)} is not known; remove it"
    given = "" if deepest["type"] == "missing" else f", not {_shown(deepest['input'])}"
    return f"judge field {quoted(where)}: {deepest['msg'][:1].lower()}{deepest['msg'][1:120]}{given}"


def _shown(value: object) -> str:
    """Return a short rendering, whatever the value: turning a deep list or a huge integer into text may itself fail."""
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 10**20):
        return f'"{value}"'
    return {"list": "a list", "dict": "an object", "int": "a huge integer"}.get(type(value).__name__, "this")
