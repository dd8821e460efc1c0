"""Form: judges that look at the form of an answer alone, and so may not promote alone."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Score, judge
from skillopt_mcp.documents.markdown import fenced_code
from skillopt_mcp.tasks.judges.base import QUOTED, comparable, quoted, take_end
from skillopt_mcp.tasks.judges.kinds.text import Expecting

_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+([^\n]*)$", re.MULTILINE)


@judge("length")
class Length(Judge):
    """The answer has `min` to `max` words (or characters, or lines). Form only: it cannot promote alone."""

    min: int = Field(default=0, ge=0)
    max: int | None = Field(default=None, ge=0)
    unit: Literal["words", "characters", "lines"] = "words"

    def score(self, attempt: Attempt) -> Score:
        text = attempt.answer.strip()
        n_lines = text.count("\n") + bool(text)
        n = {"words": len(text.split()), "lines": n_lines, "characters": len(text)}[self.unit]
        if n < self.min:
            soft = n / self.min
        elif self.max is not None and n > self.max:
            soft = self.max / n
        else:
            return Score(hard=True, soft=1.0, reason=f"{n} {self.unit}")
        wanted = f"{self.min} to {self.max}" if self.max is not None else f"{self.min} or more"
        return Score(hard=False, soft=soft, reason=f"{n} {self.unit}, expected {wanted}")

    def check(self) -> None:
        if self.min == 0 and self.max is None:
            raise BadInput('length judge: neither "min" nor "max" is given; give one of them')
        if self.max is not None and self.max < self.min:
            raise BadInput(f'length judge: "max" {self.max} is below "min" {self.min}')

    def is_form_only(self) -> bool:
        return True


@judge("heading")
class Heading(Expecting):
    """The answer has the Markdown headings `expected` (at `level`, if given). Form only: it cannot promote alone."""

    level: int | None = Field(default=None, ge=1, le=6)

    def score(self, attempt: Attempt) -> Score:
        found = {
            comparable(_title(line))
            for marks, line in _HEADING.findall(_without_code(take_end(attempt.answer)))
            if self.level in (None, len(marks))
        }
        lacking = [title for title in self.texts if comparable(title.strip()) not in found]
        if not lacking:
            return Score(hard=True, soft=1.0, reason=f"all {len(self.texts)} headings")
        reason = f"lacks the heading {', '.join(quoted(title, QUOTED) for title in lacking[:3])}"
        return Score(hard=False, soft=1 - len(lacking) / len(self.texts), reason=reason)

    def check(self) -> None:
        super().check()
        for title in self.texts:
            if "\n" in title.strip() or title.lstrip().startswith("#"):
                raise BadInput(f"heading judge: expected must be titles without # and breaks, got {quoted(title)}")

    def references(self) -> list[str]:
        return ["\n".join(f"{'#' * (self.level or 2)} {title.strip()}" for title in self.texts)]

    def is_form_only(self) -> bool:
        return True


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
