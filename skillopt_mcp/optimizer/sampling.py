"""Sampling: which held-out tasks a promotion test draws, and what its verdict may claim for that.

Drawn with replacement, tasks stand for themselves: "on these tasks". For "on tasks like these" every pair must be a new
draw from where the tasks come from: a test task that no promotion test has drawn, once, and no two that say the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from skillopt_mcp.errors import Refused
from skillopt_mcp.gates.confirm import ConfirmRule, fewest_pairs
from skillopt_mcp.judges.checking import distinct
from skillopt_mcp.judges.shapes import is_form_alone
from skillopt_mcp.records.evidence import Claim
from skillopt_mcp.records.tasks import SPLITS, Task

FEW_TASKS = 30


def held_out(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks of a promotion test: the test split, and val beside it while both together are below 30."""
    test = tuple(task for task in tasks if task.split == "test")
    val = tuple(task for task in tasks if task.split == "val")
    return test if test and len(test) + len(val) >= FEW_TASKS else val + test


def fresh(tasks: Sequence[Task], looks: Mapping[int, int], spent: Sequence[Task] = ()) -> tuple[Task, ...]:
    """Return the test tasks that no promotion test has drawn (`looks` by task id) and that are alone in what they say.

    A verdict on a task steers what is proposed next, and so does a train or val task that says nearly the same, or one
    that is `spent`: no longer in use, or another folder's of the same skill.
    """
    known = [task for split in SPLITS for task in tasks if task.split == split]
    known.sort(key=lambda task: task.split == "test" and not looks.get(task.id))
    in_use = {task.id for task in tasks}
    return tuple(
        task
        for task in distinct([*spent, *known])
        if task.id in in_use and task.split == "test" and not looks.get(task.id)
    )


def in_random_order(tasks: Sequence[Task], key: str) -> tuple[Task, ...]:
    """Return the tasks in an order that the key decides, and not the one in which they were added."""
    order = sorted(tasks, key=lambda task: task.id)
    random.Random(key).shuffle(order)
    return tuple(order)


def check_fresh(tasks: Sequence[Task], rule: ConfirmRule, n_worn: int = 0) -> None:
    """Raise Refused when a test that draws each of these fresh tasks once cannot accept anything.

    Beside them `n_worn` test tasks would be fresh, if tasks that are out of use did not ask nearly the same.
    """
    fewest = fewest_pairs(rule)
    if len(tasks) < fewest:
        worn = (
            f" ({n_worn} more ask nearly what a retired task asked, or one of another folder of this skill, that was "
            "drawn or learned from)"
        )
        raise Refused(
            f"the claim 'like_these' draws each test task once, and only those that no promotion test has drawn: there "
            f"are {len(tasks)}{worn if n_worn else ''}, and a candidate that wins every pair takes {fewest} at an "
            f"error rate of {rule.alpha:.2g}; add {fewest - len(tasks)} or more test tasks, or claim 'these'"
        )
    if is_form_alone(tasks):
        raise Refused(
            f"all {len(tasks)} fresh test tasks judge the form of an answer alone (length, heading), which promotes "
            "nothing: add test tasks with a judge of what is said"
        )


def place(claim: Claim, chance: random.Random, n: int, n_tasks: int) -> int:
    """Return the place of the task of the n-th pair (from 0) among a test's tasks; `like_these` takes them in order."""
    return n if claim == "like_these" else chance.randrange(n_tasks)


def described(claim: Claim, tasks: Sequence[Task]) -> str:
    """Return what tasks a verdict speaks of, in words."""
    if claim == "like_these":
        return f"on tasks like these, if the {len(tasks)} test tasks are a fair sample of them (each is drawn once)"
    both = " (val and test together)" if len({task.split for task in tasks}) > 1 else ""
    return f"on these {len(tasks)} held-out tasks{both}"
