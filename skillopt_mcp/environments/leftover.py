"""Leftover: whether what is left of an environment's tasks in a store is still something to train on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.tasks import NewTask, Split

_USES: tuple[tuple[Split, str], ...] = (("train", "learns from"), ("val", "chooses by"))


def check_left(name: str, told: Sequence[NewTask], left: Sequence[NewTask], stored: Mapping[str, Split]) -> None:
    """Raise BadInput when the tasks that are left of all that the environment told cannot be trained on.

    `stored` is the split of each task that is there already, by its digest.
    """
    _check_names(name, left)
    splits = dict(stored)
    for task in left:
        splits.setdefault(task.digest, cast(Split, task.split))
    found = {splits[task.digest] for task in left}
    for split, use in _USES:
        if split not in found:
            n = sum(task.split == split for task in told)
            elsewhere = [splits[task.digest] for task in left if task.split == split]
            why = [f"{n - len(elsewhere):,} were retired"] if n > len(elsewhere) else []
            if elsewhere:
                there = " and ".join(sorted(set(elsewhere)))
                why.append(f"{len(elsewhere):,} are {there} tasks already (the same prompt, judge and files)")
            raise BadInput(
                f"none of the {n:,} {split} tasks of the environment {quoted(name)} can be used: {', '.join(why)}. "
                f"A run {use} {split} tasks: let the environment give others, which no other split has"
            )


def _check_names(name: str, tasks: Sequence[NewTask]) -> None:
    """Raise BadInput when two tasks have one name: the store could keep only the first."""
    first: dict[str, NewTask] = {}
    for task in tasks:
        if task.name and first.setdefault(task.name, task).digest != task.digest:
            other = first[task.name].split
            place = f"two {task.split} tasks" if other == task.split else f"a {other} task and a {task.split} task"
            way = "" if other == task.split else f", for instance {quoted(f'{task.split}-{task.name}')}"
            raise BadInput(
                f"the environment {quoted(name)} calls {place} {quoted(task.name)}: give each a name of its own{way}"
            )
