"""Meeting: what becomes of tasks that come to those which a skill has already, and of those that did not come."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.records.tasks import SPLITS, NewTask, Split, Task

TWICE = "name twice"
"""What becomes of a task whose id has just been taken by another one that came with it."""
_SHOWN = 10


def refusal(task: NewTask, outcome: str, skill: str) -> str:
    """Return why the store did not take a task, by what it says became of it; `skill` is what commands call it by."""
    if outcome == "retired":
        return "this very task was retired: correct its prompt, judge or files, and add it again"
    if outcome in SPLITS:
        return f"it asks what a retired {outcome} task asked: add it without a split, and it joins {outcome}"
    name = task.name or ""
    if outcome == TWICE:
        return f"the id {quoted(name)} is taken by another task: choose another"
    return (
        f"the id {quoted(name)} is taken by another task: if this one corrects it, a person retires that first "
        f"(skillopt-mcp tasks retire {skill} {shlex.quote(name)}); if not, choose another id"
    )


def told_missing(skill: str, tasks: Sequence[Task], given: Sequence[NewTask]) -> str:
    """Return which tasks in use are not among those given, where these seem to be an export of all; "" elsewhere.

    Such rows have their splits, and most of the tasks are among them. What was retired elsewhere is in no export.
    """
    digests, names = {task.digest for task in given}, {task.name for task in given}
    missing = [task.name for task in tasks if task.digest not in digests and task.name not in names]
    if not missing or 2 * len(missing) >= len(tasks) or not all(task.split for task in given):
        return ""
    shown = ", ".join(f"'{name}'" for name in missing[:_SHOWN])
    more = f" (and {len(missing) - _SHOWN:,} more)" if len(missing) > _SHOWN else ""
    are = "task in use is" if len(missing) == 1 else "tasks in use are"
    return (
        f"{len(missing):,} {are} not among these: {shown}{more}; what was retired where these come from, a person "
        f"retires here, too: skillopt-mcp tasks retire {skill} ID"
    )


def leaks(splits: Mapping[str, Split], twice: Sequence[NewTask]) -> Iterator[str]:
    """Yield a warning for each split that has tasks already which were to come into others, where they are missing.

    `twice` have splits of their own; `splits` are those of the stored tasks, by their digests.
    """
    missed = Counter((splits[task.digest], task.split) for task in twice)
    for there in SPLITS:
        told = " and ".join(
            f"{missed[there, split]:,} {split}" for split in SPLITS if missed[there, split] * (split != there)
        )
        if told:
            yield (
                f"{told} tasks were left out, because {there} has the same ones already (a leak: what is learned or "
                "chosen there would be tested again): give each split tasks of its own"
            )
