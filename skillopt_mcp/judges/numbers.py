"""Numbers: the judge that reads the last number of an answer."""

from __future__ import annotations

import math
import re

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import ENDING, looked_at
from skillopt_mcp.records.judging import Numeric, Score

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
    numbers = list(_NUMBER.finditer(looked_at(answer, ENDING)))
    if not numbers:
        return None
    found = numbers[-1]
    sign = "-" if (found["sign"] or found["inner"] or "+") in "-−" else ""
    exponent = (found["exponent"] or found["power"] or "0").replace("−", "-")
    return float(f"{sign}{found['digits'].translate(_GROUPING)}e{exponent}")


def score_numeric(spec: Numeric, answer: str) -> Score:
    """Return whether the answer's last number is near enough to the expected one."""
    number = last_number(answer)
    if number is None:
        return Score(hard=False, soft=0.0, reason=f"no number found; expected {_shown(spec.expected)}")
    margin = max(spec.tolerance, spec.relative * abs(spec.expected))
    if abs(number - spec.expected) <= margin:
        return Score(hard=True, soft=1.0, reason=f"{_shown(number)} is {_shown(spec.expected)} within {margin:g}")
    reason = f"last number {_shown(number)}, expected {_shown(spec.expected)} within {margin:g}"
    return Score(hard=False, soft=0.0, reason=reason)


def check_numeric(spec: Numeric) -> None:
    """Raise BadInput when a number of the spec is not finite."""
    for name, value in (("expected", spec.expected), ("tolerance", spec.tolerance), ("relative", spec.relative)):
        if not math.isfinite(value):
            raise BadInput(f'numeric judge: {name} "{value}" is not a finite number; give one')


def _shown(number: float) -> str:
    """Return a number with all the digits that a person would write."""
    return f"{number:.15g}"
