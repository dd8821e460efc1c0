"""Shapes: judges that look at the form of an answer alone, and so may not promote alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from skillopt_mcp.documents.fences import fenced_code
from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import TOLD, comparable, looked_at, quoted
from skillopt_mcp.judges.text import check_texts, listed
from skillopt_mcp.records.judging import All, Heading, JudgeSpec, Length, Score, Weighted
from skillopt_mcp.records.tasks import Task

_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+([^\n]*)$", re.MULTILINE)


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
        soft = n / spec.min
    elif spec.max is not None and n > spec.max:
        soft = spec.max / n
    else:
        return Score(hard=True, soft=1.0, reason=f"{n} {spec.unit}")
    wanted = f"{spec.min} to {spec.max}" if spec.max is not None else f"{spec.min} or more"
    return Score(hard=False, soft=soft, reason=f"{n} {spec.unit}, expected {wanted}")


def score_heading(spec: Heading, answer: str) -> Score:
    """Return whether the answer has the headings; soft is the share of them that it has."""
    found = {
        comparable(_title(line))
        for marks, line in _HEADING.findall(_without_code(looked_at(answer)))
        if spec.level in (None, len(marks))
    }
    expected = listed(spec.expected)
    lacking = [title for title in expected if comparable(title.strip()) not in found]
    if not lacking:
        return Score(hard=True, soft=1.0, reason=f"all {len(expected)} headings")
    told = ", ".join(quoted(title, TOLD) for title in lacking[:3])
    return Score(hard=False, soft=1 - len(lacking) / len(expected), reason=f"lacks the heading {told}")


def _without_code(text: str) -> str:
    """Return the text without its fenced code."""
    content = text.encode("utf-8", "surrogatepass")
    kept, at = [], 0
    for block in fenced_code(content, 0):
        kept.append(content[at : block.start])
        at = block.end
    return b"".join([*kept, content[at:]]).decode("utf-8", "surrogatepass")


def _title(line: str) -> str:
    """Return the title of a heading without the marks that may close it."""
    text = line.strip()
    bare = text.rstrip("#")
    return bare.strip() if bare.endswith((" ", "\t")) else text


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
