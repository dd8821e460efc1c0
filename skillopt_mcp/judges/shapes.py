"""Shapes: judges that look at the form of an answer alone, and so may not promote alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import comparable, looked_at, quoted
from skillopt_mcp.judges.text import check_texts, listed
from skillopt_mcp.records.judging import All, Heading, JudgeSpec, Length, Score, Weighted
from skillopt_mcp.records.tasks import Task

_FENCED = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?(?:^\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+([^\n]*)$", re.MULTILINE)
_CLOSING = re.compile(r"[ \t]+#+[ \t]*$")


def is_shape_only(spec: JudgeSpec) -> bool:
    """Return whether nothing but the form of an answer is judged: then its evidence may not promote alone."""
    match spec:
        case Length() | Heading():
            return True
        case All():
            return all(is_shape_only(judge) for judge in spec.judges)
        case Weighted():
            # A part that cannot lift the mean over the threshold does not decide: the form alone would pass.
            others = sum(part.weight for part in spec.judges if not is_shape_only(part.judge))
            shapes = sum(part.weight for part in spec.judges if is_shape_only(part.judge))
            return shapes >= spec.threshold * (shapes + others)
        case _:
            return False


def is_form_alone(tasks: Sequence[Task]) -> bool:
    """Return whether there are tasks, and each of them judges nothing but the form of an answer."""
    return bool(tasks) and all(is_shape_only(task.judge) for task in tasks)


def score_length(spec: Length, answer: str) -> Score:
    """Return whether the trimmed answer is neither too short nor too long; soft falls with the distance."""
    text = answer.strip()
    match spec.unit:
        case "words":
            n = len(text.split())
        case "lines":
            n = text.count("\n") + bool(text)
        case "characters":
            n = len(text)
    if n < spec.min:
        hint, soft = "the answer is too short", n / spec.min
    elif spec.max is not None and n > spec.max:
        hint, soft = "the answer is too long", spec.max / n
    else:
        return Score(hard=True, soft=1.0, reason=f"{n} {spec.unit}")
    wanted = f"{spec.min} to {spec.max}" if spec.max is not None else f"{spec.min} or more"
    return Score(hard=False, soft=soft, reason=f"{n} {spec.unit}, expected {wanted}", hint=hint)


def score_heading(spec: Heading, answer: str) -> Score:
    """Return whether the answer has the headings; soft is the share of them that it has."""
    text = _FENCED.sub("", looked_at(answer))
    found = {
        comparable(_CLOSING.sub("", title).strip())
        for marks, title in _HEADING.findall(text)
        if spec.level in (None, len(marks))
    }
    expected = listed(spec.expected)
    lacking = [title for title in expected if comparable(title.strip()) not in found]
    if not lacking:
        return Score(hard=True, soft=1.0, reason=f"all {len(expected)} headings")
    told = ", ".join(quoted(title) for title in lacking[:3])
    soft = 1 - len(lacking) / len(expected)
    return Score(hard=False, soft=soft, reason=f"lacks {told}", hint="the answer lacks an expected heading")


def check_length(spec: Length) -> None:
    """Raise BadInput when every answer or none would pass."""
    if spec.min == 0 and spec.max is None:
        raise BadInput('length judge: neither "min" nor "max" is given; give one of them')
    if spec.max is not None and spec.max < spec.min:
        raise BadInput(f'length judge: "max" {spec.max} is below "min" {spec.min}; correct one of them')


def check_heading(spec: Heading) -> None:
    """Raise BadInput when there is nothing to look for, or what cannot be a heading."""
    check_texts(spec)
    for title in listed(spec.expected):
        if "\n" in title.strip() or title.lstrip().startswith("#"):
            raise BadInput(f"heading judge: expected {quoted(title)} is no title; give the text without # and breaks")
