"""Numeric: the judge that reads the last number of an answer."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from skillopt_mcp.core.judging import Attempt, Judge, Score, judge
from skillopt_mcp.tasks.judges.base import ENDING, take_end

Finite = Annotated[float, Field(allow_inf_nan=False)]
Margin = Annotated[float, Field(ge=0, allow_inf_nan=False)]

# A sign counts when it touches the number or its currency and stands after no operand ("10-5" ends in 5); digits that
# touch a letter or a caret are part of a word or unit ("km2", "m^2"); commas and
# thin spaces group only whole threes; "x 10^3" is an exponent.
_NUMBER = re.compile(
    r"""
    (?: (?<![\w)\]]) (?P<sign>[-+−]) )? [$€£¥₹]? (?P<inner>(?<=[$€£¥₹])[-−])?
    (?<![^\W_]) (?<!\^)
    (?P<digits> \d{1,3}(?:[,\u00a0\u2009\u202f]\d{3})+(?!\d)(?:\.\d+)? | \d+(?:\.\d+)? | (?<!\w)\.\d+ )
    (?: [eE](?P<exponent>[-+−]?\d+) | \s?(?:[x×*·]|\\times|\\cdot)\s?10\s?\^\s?\{?(?P<power>[-+−]?\d+) )?
    """,
    re.VERBOSE,
)
_GROUPING = str.maketrans({",": "", "\u00a0": "", "\u2009": "", "\u202f": ""})


def last_number(answer: str) -> float | None:
    """Return the last number within the last 20,000 characters of the answer, or None.

    `$1,234.50` is 1234.5, `12%` is 12, `-3.5e2` and `−3.5 × 10^2` are -350, `7 km2` is 7. Nothing is computed, so
    `1/2` ends in 2.
    """
    numbers = list(_NUMBER.finditer(take_end(answer, ENDING)))
    if not numbers:
        return None
    found = numbers[-1]
    sign = "-" if (found["sign"] or found["inner"] or "+") in "-−" else ""
    exponent = (found["exponent"] or found["power"] or "0").replace("−", "-")
    return float(f"{sign}{found['digits'].translate(_GROUPING)}e{exponent}")


@judge("numeric")
class Numeric(Judge):
    """The last number is within `tolerance` (or `relative` x expected) of `expected`.

    Currency signs, units, a percent sign and grouping commas are skipped; nothing is computed.
    """

    expected: Finite
    tolerance: Margin = 1e-9
    relative: Margin = 0.0

    def score(self, attempt: Attempt) -> Score:
        number = last_number(attempt.answer)
        if number is None:
            return Score(hard=False, soft=0.0, reason=f"no number found; expected {self.expected:.15g}")
        margin = max(self.tolerance, self.relative * abs(self.expected))
        is_near = abs(number - self.expected) <= margin
        reason = f"last number {number:.15g}, expected {self.expected:.15g} within {margin:g}"
        return Score(hard=is_near, soft=float(is_near), reason=reason)

    def references(self) -> list[str]:
        return [repr(self.expected)]
