"""The edit budget falls as in the published packages, step for step."""

from __future__ import annotations

from random import Random

import pytest
from peer_packages import PACKAGES, answers

from skillopt_mcp.training.config import Schedule
from skillopt_mcp.training.plan import edit_budget

KINDS: tuple[Schedule, ...] = ("constant", "linear", "cosine")
N_CASES = 500


@pytest.mark.parametrize("package", PACKAGES)
def test_every_budget_of_500_random_schedules_is_the_published_one(package: str) -> None:
    random = Random("schedules")
    cases = []
    for _ in range(N_CASES):
        maximum, n_steps = random.randint(1, 64), random.randint(1, 60)
        minimum = random.randint(0, maximum)
        cases += [(kind, maximum, minimum, n_steps, n_steps + 3) for kind in KINDS]

    theirs = answers(package, "schedules", cases)

    ours = [
        [edit_budget(step, n_steps, kind, maximum, minimum) for step in range(1, steps + 1)]
        for kind, maximum, minimum, n_steps, steps in cases
    ]
    assert ours == theirs
