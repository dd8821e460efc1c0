"""Schedule: how many edits a step may make, the textual learning rate."""

from __future__ import annotations

import math
from typing import Literal, get_args

from skillopt_mcp.errors import BadInput

Schedule = Literal["constant", "linear", "cosine"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


def edit_budget(step: int, n_steps: int, kind: Schedule, maximum: int, minimum: int) -> int:
    """Return the most edits that step `step` (1-based) of `n_steps` may make, as SkillOpt schedules them.

    Halves round to even, as in the reference; later steps than `n_steps` keep the last budget.
    Raises BadInput when a setting makes no sense.
    """
    _check(step, kind, maximum, minimum)
    if kind == "constant" or n_steps <= 1:
        return maximum
    t = min(step, n_steps) / n_steps
    if kind == "linear":
        budget = maximum + (minimum - maximum) * t
    else:
        budget = minimum + 0.5 * (maximum - minimum) * (1 + math.cos(math.pi * t))
    return max(minimum, round(budget))


def _check(step: int, kind: Schedule, maximum: int, minimum: int) -> None:
    if kind not in SCHEDULES:
        raise BadInput(f'unknown schedule "{kind}"; use one of {", ".join(SCHEDULES)}')
    if step < 1:
        raise BadInput(f'step "{step}" is before the first; steps count from 1')
    if not 0 <= minimum <= maximum:
        raise BadInput(f'edit budget from "{maximum}" down to "{minimum}" is not possible; use maximum >= minimum >= 0')
