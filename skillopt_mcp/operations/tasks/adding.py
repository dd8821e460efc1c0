"""Tasks: what a skill is trained and tested on, added inline or from a file, each with its judge."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from skillopt_mcp import limits
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.environments.base import Environment
from skillopt_mcp.environments.foreign import tasks_of
from skillopt_mcp.environments.items import is_question, question_task
from skillopt_mcp.environments.leftover import check_left
from skillopt_mcp.environments.rows import ALIASES, read_rows, read_splits, split_named
from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.judging import without_command
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.results import Rejected, SplitCounts, TasksAdded
from skillopt_mcp.operations.skills.resembling import told_likeness
from skillopt_mcp.operations.speaking import BACKENDS, proposing_first
from skillopt_mcp.operations.tasks.meeting import TWICE, leaks, refusal, told_missing
from skillopt_mcp.operations.tasks.misleading import told_problems
from skillopt_mcp.operations.tasks.warning import warned
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import storable
from skillopt_mcp.records.tasks import SPLITS, NewTask, Split, TaskFile
from skillopt_mcp.settings.splitting import SplitPlan
from skillopt_mcp.splits import EQUAL_SHARES, shuffled

_FIELDS = frozenset({"prompt", "judge", "id", "split", "tags", "files"})
ENOUGH_HELD_OUT = 30
REASON_BYTES = 350


def add_tasks(
    workspace: Workspace, skill: str, tasks: Sequence[object] | None = None, file: str | None = None
) -> TasksAdded:
    """Add tasks given inline, or in a file as a JSON list or JSON lines; a bad one is rejected with its reason.

    Raises BadInput when neither or both are given, or the file cannot be read; then nothing is added.
    """
    if (tasks is None) == (file is None):
        raise BadInput("give either tasks or file: a list of {prompt, judge, id?, split?, tags?, files?}, or its path")
    given = read_rows(Path(os.path.expanduser(file))) if file is not None else list(tasks or ())
    return _added(workspace, skill, given)


def add_data_set(workspace: Workspace, skill: str, path: Path, plan: SplitPlan) -> TasksAdded:
    """Add the rows of a data set, tasks or questions, to the splits that the plan gives them.

    A bad row is rejected with its reason. Raises BadInput when the file or folder cannot be read as rows, or a row
    contradicts its folder; then nothing is added.
    """
    return _added(workspace, skill, read_data_set(path, plan), plan)


def read_data_set(path: Path, plan: SplitPlan | None = None) -> list[object]:
    """Return the decoded rows of a file, or of a folder of splits by its plan. Raises BadInput as adding them would."""
    if plan is None or plan.mode == "ratio":
        return read_rows(path)
    return [_placed(row, split, n) for split, rows in read_splits(path).items() for n, row in enumerate(rows, 1)]


def drawn(
    good: Sequence[tuple[int, NewTask]], plan: SplitPlan | None
) -> tuple[Sequence[tuple[int, NewTask]], dict[Split, float]]:
    """Return tasks in the order in which a plan has them join the splits, and the shares of these."""
    if plan is None or plan.mode != "ratio":
        return good, EQUAL_SHARES
    return [good[at] for at in shuffled([task.digest for _, task in good], plan.seed)], plan.shares


class FromEnvironment(TasksAdded):
    """What came of adding an environment's tasks: the digests of those in use, how many others the skill has in use,
    and how many of the environment's were retired, and stay so.
    """

    digests: frozenset[str]
    n_others: int
    n_retired: int


def add_environment(workspace: Workspace, skill: str, environment: Environment) -> FromEnvironment:
    """Add the tasks of an environment, each to its own split.

    Those that a person retired are left out. Raises BadInput when none are left to learn from or to choose by, and when
    one cannot be used or is another than the stored one of its name: what a run trained on would not be what the
    environment says.
    """
    told = tasks_of(environment)
    skill_id = workspace.skill(skill).id
    retired = workspace.store.retirements.list_retired(skill_id)
    gone = {task.digest for task in workspace.store.tasks.list_tasks(skill_id) if task.id in retired}
    new = [task for task in told if task.digest not in gone]
    if not new:
        raise BadInput(f"all {len(told)} tasks of the environment '{environment.name}' were retired: give it others")
    in_use = workspace.store.tasks.list_in_use(skill_id)
    names = {task.name: task.digest for task in in_use}
    taken = [n for n, task in enumerate(new) if names.get(task.name or "", task.digest) != task.digest]
    if taken:
        raise _unusable(environment, new[taken[0]], refusal(new[taken[0]], "name taken", skill), (len(taken), len(new)))
    check_left(environment.name, told, new, {task.digest: task.split for task in in_use})
    added = _stored(workspace, skill, list(enumerate(new)), [], EQUAL_SHARES)
    n_rejected = len(new) - added.added - added.duplicates
    for first in added.rejected[:1]:
        raise _unusable(environment, new[first.index], first.reason, (n_rejected, len(new)))
    digests = frozenset(task.digest for task in new)
    n_others = sum(task.digest not in digests for task in workspace.store.tasks.list_in_use(skill_id))
    return FromEnvironment(**added.model_dump(), digests=digests, n_others=n_others, n_retired=len(told) - len(new))


def _unusable(environment: Environment, first: NewTask, reason: str, counts: tuple[int, int]) -> BadInput:
    return BadInput(
        f"{counts[0]} of {counts[1]} tasks of the environment '{environment.name}' cannot be used, the first is "
        f"'{first.name}': {reason}. Where it has changed, train in a store of its own (--store), or retire the old "
        "tasks: skillopt-mcp tasks retire"
    )


def _placed(row: object, split: Split, n: int) -> object:
    """Return a row with the split of its folder. Raises BadInput where it names another one."""
    if not isinstance(row, Mapping):
        return row
    own = row.get("split")
    if own is not None and (not isinstance(own, str) or ALIASES.get(own) != split):
        raise BadInput(
            f"a row in {split} says that its split is {quoted(str(own))} (row {n}): put it where it belongs, or leave "
            "its split out; nothing was added"
        )
    return {**row, "split": split}


def parsed_rows(given: Sequence[object]) -> tuple[list[tuple[int, NewTask]], list[Rejected]]:
    """Return the tasks of decoded rows, each with its place, and those that are none. Raises BadInput for no rows."""
    if not given:
        raise BadInput("no task was given: a task is {prompt, judge: {kind, ...}, id?, split?, tags?, files?}")
    if len(given) > limits.TASKS_PER_CALL:
        raise BadInput(f"{len(given):,} tasks at once, {limits.TASKS_PER_CALL:,} are allowed: add them in parts")
    good: list[tuple[int, NewTask]] = []
    rejected: list[Rejected] = []
    for index, value in enumerate(given):
        try:
            good.append((index, parse_row(value)))
        except BadInput as error:
            rejected.append(Rejected(index=index, reason=shortened(str(error), REASON_BYTES)))
    return good, rejected


def _added(workspace: Workspace, skill: str, given: Sequence[object], plan: SplitPlan | None = None) -> TasksAdded:
    good, rejected = parsed_rows(given)
    ordered, shares = drawn(good, plan)
    added = _stored(workspace, skill, ordered, rejected, shares)
    return added.model_copy(update={"warnings": [*added.warnings, *_misleading(workspace, skill, good)]})


def _misleading(workspace: Workspace, skill: str, good: Sequence[tuple[int, NewTask]]) -> list[str]:
    """Return what a check says of the tasks that were given, among all in use; whose history the skill may lack; and
    which of its tasks are missing among them.
    """
    tracked, given = workspace.skill(skill), [task for _, task in good]
    name, digests = called(workspace.store, tracked), {task.digest for task in given}
    tasks = workspace.store.tasks.list_in_use(tracked.id)
    found = told_problems(name, tasks, {task.name for task in tasks if task.digest in digests})
    return [*filter(None, [told_likeness(workspace, tracked.path), told_missing(name, tasks, given)]), *found]


def _stored(
    workspace: Workspace, skill: str, good: Sequence[tuple[int, NewTask]], rejected: list[Rejected],
    shares: dict[Split, float],
) -> TasksAdded:  # fmt: skip
    tracked = workspace.skill(skill)
    lacking = without_command(workspace.store, [task.judge for _, task in good])
    rejected += [Rejected(index=good[n][0], reason=reason) for n, reason in lacking.items()]
    good = [each for n, each in enumerate(good) if n not in lacking]
    outcomes = workspace.store.tasks.add_tasks(tracked.id, [task for _, task in good], shares)
    # Whoever adds tasks knows them: what this session does with them later is exposed evidence.
    workspace.store.exposures.expose(tracked.id, [task.digest for _, task in good], workspace.session)
    added = {task.name for (_, task), outcome in zip(good, outcomes, strict=True) if outcome == "added"}
    for (index, task), outcome in zip(good, outcomes, strict=True):
        if outcome not in ("added", "duplicate"):
            became = TWICE if outcome == "name taken" and task.name in added else outcome
            reason = refusal(task, became, called(workspace.store, tracked))
            rejected.append(Rejected(index=index, reason=reason))
    twice = [task for (_, task), outcome in zip(good, outcomes, strict=True) if outcome == "duplicate" and task.split]
    there = workspace.store.tasks.list_tasks(tracked.id) if twice else ()
    counts = workspace.store.tasks.count_tasks(tracked.id)
    return TasksAdded(
        skill=tracked.name,
        added=outcomes.count("added"),
        duplicates=outcomes.count("duplicate"),
        rejected=sorted(rejected, key=lambda each: each.index)[: limits.REJECTED_SHOWN],
        splits=SplitCounts(**counts),
        next_step=_told(rejected) + _next_step(counts, called(workspace.store, tracked)),
        warnings=[*leaks({task.digest: task.split for task in there}, twice), *warned(good, workspace.known)],
    )


def _told(rejected: Sequence[Rejected]) -> str:
    if not rejected:
        return ""
    more = f" (the first {limits.REJECTED_SHOWN} are shown)" if len(rejected) > limits.REJECTED_SHOWN else ""
    were, them = ("was", "it") if len(rejected) == 1 else ("were", "them")
    return f"{len(rejected):,} {were} rejected{more}: correct {them} and add {them} again. "


def _next_step(counts: Mapping[Split, int], name: str) -> str:
    held_out = counts["val"] + counts["test"]
    if not counts["train"] or not held_out:
        return "Add more tasks: train tasks to learn from, and val and test tasks that stay held out."
    ways = (
        f"{proposing_first(counts['train'])} (a host needs no key for that), or 'skillopt-mcp replay {name} "
        f"{BACKENDS}' in a terminal"
    )
    if held_out == 1:
        return (
            f"1 held-out task can prove a gain on that task alone; {ENOUGH_HELD_OUT} or more are better. Then {ways}."
        )
    if held_out < ENOUGH_HELD_OUT:
        return (
            f"{counted(held_out, 'held-out task')} can prove a large gain on these tasks; {ENOUGH_HELD_OUT} or more "
            f"are better. Then {ways}."
        )
    return f"Enough to start: {ways}."


def parse_row(value: object) -> NewTask:
    """Return the task of a decoded row: a task, or a question of a data set. Raises BadInput with what to change."""
    if is_question(value):
        row = cast(Mapping[str, object], value)
        split = row.get("split")
        return question_task(row, split_named(str(split)) if split is not None else None)
    return parse_task(value)


def parse_task(value: object) -> NewTask:
    """Return the task of a decoded JSON object. Raises BadInput with what to change."""
    if not isinstance(value, Mapping):
        raise BadInput("a task is an object {prompt, judge, id?, split?, tags?, files?}")
    unknown = sorted(str(key) for key in value if key not in _FIELDS)
    if unknown:
        raise BadInput(f"unknown field {quoted(unknown[0])}: a task has {', '.join(sorted(_FIELDS))}")
    prompt = value.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        raise BadInput(f"the prompt is {_kind(prompt)}, not a text: say what the agent is asked to do, in quotes")
    if not prompt or not prompt.strip():
        raise BadInput("the prompt is empty: say what the agent is asked to do")
    if len(prompt) > limits.PROMPT_CHARACTERS:
        raise BadInput(f"the prompt has {len(prompt):,} characters, {limits.PROMPT_CHARACTERS:,} are allowed")
    judge = parse_judge(value.get("judge"))
    split = value.get("split")
    if split is not None and split not in SPLITS:
        raise BadInput(f"unknown split {quoted(str(split))}: use one of {', '.join(SPLITS)}, or leave it out")
    return NewTask(
        prompt=storable(prompt),
        judge=judge,
        name=_name(value.get("id")),
        split=cast(Split | None, split),
        tags=tuple(_texts(value.get("tags") or (), "tags")),
        files=_files(value.get("files") or {}),
    )


def _kind(value: object) -> str:
    """Return what JSON calls a value's kind."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "a list" if isinstance(value, list) else "an object"


def _name(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str | int) and 0 < len(str(value)) <= limits.NAME_CHARACTERS:
        return storable(str(value))
    raise BadInput(f"the id must be a text of 1 to {limits.NAME_CHARACTERS} characters")


def _texts(value: object, name: str) -> list[str]:
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(each, str) for each in value):
        return [storable(str(each)) for each in value]
    raise BadInput(f"{name} must be a list of texts")


def _files(value: object) -> tuple[TaskFile, ...]:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()):
        raise BadInput("files must be an object of {relative path: text}")
    for path in value:
        parts = path.split("/")
        if (
            path.startswith(("/", "~"))
            or "\\" in path
            or "\0" in path
            or any(part in ("", ".", "..") for part in parts)
        ):
            raise BadInput(f"the file path {quoted(path)} must be relative and stay inside the task's folder")
    if sum(map(len, value.values())) > limits.FILE_BYTES:
        raise BadInput(
            f"the files have more than {limits.FILE_BYTES:,} characters: leave out what the task does not need"
        )
    return tuple(TaskFile(storable(path), storable(text)) for path, text in sorted(value.items()))
