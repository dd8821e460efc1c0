"""Plan: which steps a run has."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_world import PLAIN, SKILL, new_tasks, plan_of, stored

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.plan import check_splits, edit_budget, search_splits, steps

TASKS = stored(new_tasks(33))


@given(batch=st.integers(1, 14), epochs=st.integers(1, 4), n_tasks=st.integers(6, 33))
def test_every_epoch_takes_every_train_task_once(batch: int, epochs: int, n_tasks: int) -> None:
    plan = plan_of(SKILL, TASKS[:n_tasks], Config(batch=batch, epochs=epochs, **PLAIN))
    found = list(steps(plan, after=0))
    assert [step.n for step in found] == list(range(1, plan.n_steps + 1))
    for epoch in range(1, epochs + 1):
        taken = [task.id for step in found if step.epoch == epoch for task in step.tasks]
        assert sorted(taken) == sorted(task.id for task in plan.train)
    assert all(1 <= len(step.tasks) <= batch for step in found)


def test_steps_use_the_schedules_budgets_over_the_whole_run() -> None:
    config = Config(batch=3, epochs=3, max_edits=9, min_edits=1, schedule="linear", **PLAIN)
    plan = plan_of(SKILL, TASKS, config)
    budgets = [step.budget for step in steps(plan, after=0)]
    assert budgets == [edit_budget(n, 12, "linear", 9, 1) for n in range(1, 13)]
    assert budgets[0] > budgets[5] > budgets[-1] == 1


TAGGED = st.lists(st.sampled_from("abc"), min_size=2, max_size=40)


@given(tags=TAGGED, seed=st.integers(0, 9), draw=st.randoms(use_true_random=False))
def test_without_val_tasks_half_of_the_train_tasks_of_each_kind_choose(
    tags: list[str], seed: int, draw: random.Random
) -> None:
    tasks = [replace(TASKS[0], id=n, digest=f"{n:x}", split="train", tags=(tag,)) for n, tag in enumerate(tags)]
    held_out = replace(TASKS[0], id=99, split="test")
    train, val = search_splits([*tasks, held_out], Config(seed=seed))
    assert (len(train), len(val)) == (-(-len(tasks) // 2), len(tasks) // 2)
    assert sorted((*train, *val), key=lambda task: task.id) == tasks
    for tag in set(tags):
        assert abs(sum(task.tags == (tag,) for task in val) - tags.count(tag) * len(val) / len(tasks)) < 1
    again = search_splits(draw.sample(tasks, len(tasks)), Config(seed=seed))
    assert set(again[1]) == set(val)


def test_val_tasks_are_the_only_ones_that_choose_where_there_are_some() -> None:
    one = replace(TASKS[0], split="val")
    others = [replace(each, split="train") for each in TASKS[1:]]
    assert search_splits([one, *others], Config()) == (tuple(others), (one,))


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_run_without_train_or_val_tasks_is_refused_by_name(split: str) -> None:
    plan = plan_of(SKILL, [task for task in TASKS if task.split != split], Config())
    with pytest.raises(BadInput, match="a run needs 2 train tasks, or a train and a val task, got "):
        check_splits(plan)


@given(batch=st.integers(1, 6), accumulation=st.integers(1, 5), n_tasks=st.integers(6, 33))
def test_accumulated_steps_have_that_many_batches_and_take_every_task_before_one_again(
    batch: int, accumulation: int, n_tasks: int
) -> None:
    plan = plan_of(SKILL, TASKS[:n_tasks], Config(batch=batch, epochs=2, accumulation=accumulation, **PLAIN))
    found = list(steps(plan, after=0))
    assert len(found) == plan.n_steps == 2 * -(-len(plan.train) // (batch * accumulation))
    for epoch in (1, 2):
        taken = [each for step in found if step.epoch == epoch for each in step.batches]
        assert all(len(step.batches) == accumulation for step in found)
        assert all(1 <= len(each) <= batch for each in taken)
        order = [task.id for each in taken for task in each]
        assert sorted(order[: len(plan.train)]) == sorted(task.id for task in plan.train)


@pytest.mark.parametrize(
    ("features", "ends"),
    [({}, ["slow", "meta"]), ({"slow_update": False}, ["meta"]), ({"meta_skill": False}, ["slow"]), (PLAIN, [])],
)
def test_what_ends_an_epoch_is_counted_among_the_rows_but_not_in_the_schedule(
    features: dict[str, bool], ends: list[str]
) -> None:
    config = Config(batch=4, epochs=3, **features)
    plan = plan_of(SKILL, TASKS, config)
    found = list(steps(plan, after=0))
    assert [step.n for step in found] == list(range(1, plan.n_rows + 1))
    assert [(step.epoch, step.kind) for step in found if step.kind != "step"] == [(e, k) for e in (2, 3) for k in ends]
    trained = [step for step in found if step.kind == "step"]
    bare = list(steps(plan_of(SKILL, TASKS, Config(batch=4, epochs=3, **PLAIN)), after=0))
    assert [(step.draw, step.budget, step.batches) for step in trained] == [
        (step.draw, step.budget, step.batches) for step in bare
    ]
    assert list(steps(plan, after=4)) == found[4:]
