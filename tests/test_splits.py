"""Splits: who is held out, and in which order an epoch goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.tasks import SPLITS, NewTask, Split
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.splits import (
    DEFAULT_SHARES,
    StoredTask,
    assign_split,
    cut_batches,
    default_name,
    files_json,
    order_epoch,
    place_tasks,
    stratified,
)

SHARES = st.fixed_dictionaries({split: st.floats(0.01, 100) for split in SPLITS})
KEYS = st.lists(st.text(max_size=8), min_size=3, max_size=120)


def fill(keys: list[str], shares: dict[Split, float]) -> Counter[Split]:
    """Return how many tasks each split has after the tasks `keys` came one by one."""
    counts: Counter[Split] = Counter()
    for key in keys:
        counts[assign_split(counts, shares, key)] += 1
    return counts


@given(KEYS, SHARES)
def test_no_split_stays_empty_once_there_are_three_tasks(keys: list[str], shares: dict[Split, float]) -> None:
    assert all(fill(keys[:3], shares)[split] == 1 for split in SPLITS)


@given(KEYS)
def test_a_third_of_the_tasks_are_to_learn_from_and_the_others_held_out(keys: list[str]) -> None:
    counts = fill(keys, DEFAULT_SHARES)
    assert abs(counts["train"] - len(keys) / 3) < 1
    assert counts["val"] == 0


@given(KEYS, SHARES)
def test_shares_are_approached(keys: list[str], shares: dict[Split, float]) -> None:
    counts, total = fill(keys, shares), sum(shares.values())
    for split in SPLITS:
        assert abs(counts[split] - len(keys) * shares[split] / total) <= len(SPLITS) - 1 + 1e-6


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({}, "no split has a share"),
        ({"train": 0.0}, "no split has a share"),
        ({"train": -1.0, "val": 1.0}, 'share "-1.0" of split "train"'),
        ({"train": float("nan"), "val": 1.0}, 'share "nan" of split "train"'),
        ({"dev": 1.0}, 'unknown split "dev"; use train, val, test'),
    ],
)
def test_shares_that_cannot_be_used_are_refused(shares: dict[Split, float], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        assign_split({}, shares, "task")


@given(st.integers(0, 200), st.integers(), st.integers(0, 100))
def test_an_epoch_visits_every_task_once_in_the_same_order_each_time(n: int, seed: int, epoch: int) -> None:
    order = order_epoch(n, seed, epoch)
    assert sorted(order) == list(range(n))
    assert order == order_epoch(n, seed, epoch)


@given(st.lists(st.integers(), max_size=50), st.integers(1, 60))
def test_batches_hold_everything_in_order_and_only_the_last_is_short(order: list[int], size: int) -> None:
    cut = cut_batches(order, size)
    assert [position for batch in cut for position in batch] == order
    assert all(len(batch) == size for batch in cut[:-1])
    assert all(0 < len(batch) <= size for batch in cut)


@given(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=60), st.integers(0, 70), st.text(max_size=5))
def test_a_stratified_choice_has_the_size_asked_for_and_every_kind_in_its_share(
    kinds: list[str], n: int, key: str
) -> None:
    chosen = stratified(kinds, n, key)
    assert chosen == sorted(set(chosen)) == stratified(kinds, n, key)
    assert len(chosen) == min(n, len(kinds))
    for kind in set(kinds):
        share = kinds.count(kind) * min(n, len(kinds)) / len(kinds)
        assert abs(sum(kinds[at] == kind for at in chosen) - share) < 1


PROMPTS = st.builds(
    lambda text, expected, name, split, group: NewTask(
        text, parse_judge({"kind": "exact", "expected": expected}), name, cast(Split | None, split), group=group
    ),
    st.sampled_from(["a", " a\n", "b", "c", "d"]),
    st.sampled_from("xy"),
    st.sampled_from([None, "one", "two"]),
    st.sampled_from([None, *SPLITS]),
    st.sampled_from(["", "g", "h"]),
)


@given(st.lists(st.lists(st.tuples(PROMPTS, st.booleans()), min_size=1, max_size=6), max_size=5))
def test_no_prompt_and_no_group_is_in_two_splits_and_no_task_there_twice(
    calls: list[list[tuple[NewTask, bool]]],
) -> None:
    stored: list[StoredTask] = []
    split_of: dict[str, Split] = {}
    for rows in calls:
        placed = place_tasks([task for task, _ in rows], stored, DEFAULT_SHARES)
        for (task, is_removed), each in zip(rows, placed, strict=True):
            if each.is_new:
                name = default_name(task)
                facts = (name, task.prompt, files_json(task), each.split, task.digest, task.group, is_removed)
                stored.append(StoredTask(len(stored), *facts))
                assert not task.group or split_of.setdefault(f"group {task.group}", each.split) == each.split
                assert split_of.setdefault(task.prompt.strip(), each.split) == each.split
                assert task.split in (None, each.split)
        assert len({each.digest for each in stored}) == len(stored)


@given(st.lists(PROMPTS, max_size=6), st.lists(PROMPTS, max_size=6), st.lists(PROMPTS, min_size=1, max_size=6))
def test_tasks_that_wait_are_in_train_and_move_no_task_of_a_persons(
    first: list[NewTask], waiting: list[NewTask], later: list[NewTask]
) -> None:
    def store(tasks: list[NewTask], stored: list[StoredTask], *, waits: bool) -> list[StoredTask]:
        rows = list(stored)
        for task, each in zip(tasks, place_tasks(tasks, stored, DEFAULT_SHARES, waits=waits), strict=True):
            if each.is_new:
                facts = (default_name(task), task.prompt, files_json(task), each.split, task.digest, task.group)
                rows.append(StoredTask(len(rows), *facts, is_removed=False, waits=waits))
        return rows

    mine = store([replace(task, name=None) for task in first], [], waits=False)
    judge = parse_judge({"kind": "exact", "expected": "theirs"})
    with_theirs = store([replace(task, name=None, judge=judge) for task in waiting], mine, waits=True)
    theirs = with_theirs[len(mine) :]
    assert {each.split for each in theirs} <= {"train"}
    assert {each.group for each in theirs}.isdisjoint({each.group for each in mine} - {""})
    assert {each.prompt.strip() for each in theirs}.isdisjoint(each.prompt.strip() for each in mine)
    new = [replace(task, name=None) for task in later]
    assert place_tasks(new, with_theirs, DEFAULT_SHARES) == place_tasks(new, mine, DEFAULT_SHARES)


def test_a_split_that_lacks_any_tag_comes_first_and_none_gets_beyond_its_share_of_a_round() -> None:
    shares: dict[Split, float] = {"train": 1.0, "test": 2.0}
    both: dict[Split, int] = {"train": 1, "test": 2}
    for key in "abcdefgh":
        assert assign_split(both, shares, key, [both, {"test": 1}]) == "train"
        assert assign_split({"train": 2, "test": 2}, shares, key, [{"train": 1, "test": 4}]) == "test"
