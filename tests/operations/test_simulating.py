"""Simulations: one that solves other tasks than those of the skill is replaced by a real target."""

from __future__ import annotations

import pytest
from workshop import SEED, SIMULATION, Place

from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.cli.spending import advise_real_target
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import Result
from skillopt_mcp.workspace.workspace import Workspace

FOUND = Result(next_step=NextStep(action="demo"))
MINE = {"prompt": "What is 2 + 2?", "judge": {"kind": "numeric", "expected": 4}}


def test_a_simulation_of_the_tasks_is_good_advice(place: Place, workspace: Workspace) -> None:
    skill = workspace.place.skill(str(place.skill))
    add_tasks(workspace.store, workspace.place, str(place.skill), [MINE])
    assert advise_real_target(workspace.store, workspace.models, skill.id, FOUND) == FOUND


@pytest.mark.parametrize("target", [SIMULATION, f"simulated:placebo,seed={SEED + 1},noise=0.2"])
def test_a_simulation_of_other_tasks_gives_way_to_a_real_target(place: Place, target: str) -> None:
    with place.open(target) as other:
        skill = other.place.skill(str(place.skill))
        add_tasks(other.store, other.place, str(place.skill), [MINE])
        if target != SIMULATION:
            place.add_tasks(other)
        step = advise_real_target(other.store, other.models, skill.id, FOUND).next_step
    assert step.arguments["target"] == "claude-code:haiku"
    assert "simulated:" in step.why
