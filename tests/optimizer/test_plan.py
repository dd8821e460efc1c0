"""Plan: which steps a run has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_world import SKILL, new_tasks, plan_of, stored

from skillopt_mcp.errors import BadInput
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.plan import steps
from skillopt_mcp.schedule import edit_budget

TASKS = stored(new_tasks(33))


@given(batch=st.integers(1, 14), epochs=st.integers(1, 4), n_tasks=st.integers(6, 33))
def test_every_epoch_takes_every_train_task_once(batch: int, epochs: int, n_tasks: int) -> None:
    plan = plan_of(SKILL, TASKS[:n_tasks], Config(batch=batch, epochs=epochs))
    found = list(steps(plan, after=0))
    assert [step.n for step in found] == list(range(1, plan.n_steps + 1))
    for epoch in range(1, epochs + 1):
        taken = [task.id for step in found if step.epoch == epoch for task in step.tasks]
        assert sorted(taken) == sorted(task.id for task in plan.train)
    assert all(1 <= len(step.tasks) <= batch for step in found)


def test_steps_use_the_schedules_budgets_over_the_whole_run() -> None:
    config = Config(batch=3, epochs=3, max_edits=9, min_edits=1, schedule="linear")
    plan = plan_of(SKILL, TASKS, config)
    budgets = [step.budget for step in steps(plan, after=0)]
    assert budgets == [edit_budget(n, 12, "linear", 9, 1) for n in range(1, 13)]
    assert budgets[0] > budgets[5] > budgets[-1] == 1


@given(st.integers(0, 13))
def test_what_is_left_after_some_steps_is_the_end_of_all_steps(after: int) -> None:
    plan = plan_of(SKILL, TASKS, Config(batch=3, epochs=3))
    assert list(steps(plan, after=after)) == list(steps(plan, after=0))[after:]


def test_no_two_steps_share_a_draw_and_epochs_have_orders_of_their_own() -> None:
    found = list(steps(plan_of(SKILL, TASKS, Config(batch=11, epochs=4)), after=0))
    assert len({step.draw for step in found}) == 4
    assert len({tuple(task.id for task in step.tasks) for step in found}) == 4


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_run_without_train_or_val_tasks_is_refused_by_name(split: str) -> None:
    with pytest.raises(BadInput, match=f"no {split} task"):
        plan_of(SKILL, [task for task in TASKS if task.split != split], Config())
