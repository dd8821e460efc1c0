"""Misleading: which tasks are useless or tell what is not so, as they are added and whenever they are checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.environments.registry import environment_names
from skillopt_mcp.errors import BackendError
from skillopt_mcp.judges.checking import SHAPE_ONLY, TaskFinding, check_tasks
from skillopt_mcp.judges.judging import leaves
from skillopt_mcp.operations.judging import without_command
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.tasks.trying import trivial_commands
from skillopt_mcp.records.judging import ByEnvironment
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.store.opening import Store

CHECKED_AT_ONCE = 2_000
_SHOWN = 3
_SHOWN_BYTES = 350
_ALIKE_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Misleading:
    """What is wrong with tasks, as (name, text), where "" names none; and what they have that may well be right."""

    problems: list[tuple[str, str]]
    remarks: list[str]


def problems_among(store: Store | None, tasks: Sequence[Task], names: Collection[str]) -> Misleading:
    """Return what is wrong with the tasks of these names among all of a skill.

    Registered commands are run for it. Without a store nothing is known of them: they are passed over.
    """
    alone = _among_alone(tasks, names)
    if store is None:
        return alone
    return Misleading([*alone.problems, *_problems_of_commands(store, tasks, names)], alone.remarks)


def _problems_of_commands(store: Store, tasks: Sequence[Task], names: Collection[str]) -> Iterator[tuple[str, str]]:
    meant = [task for task in tasks if task.name in names]
    lacking = without_command(store, [task.judge for task in meant])
    yield from ((meant[n].name, text) for n, text in lacking.items())
    try:
        yield from trivial_commands(store, [task for n, task in enumerate(meant) if n not in lacking]).items()
    except BackendError as error:
        yield "", str(error)


def _among_alone(tasks: Sequence[Task], names: Collection[str]) -> Misleading:
    """Return of `problems_among` what the tasks alone tell, without running anything."""
    found = check_tasks(tasks, names)
    problems = [(each.task, each.text) for each in found if each.problem != "alike"]
    problems += _unknown_environments(task for task in tasks if task.name in names)
    return Misleading(problems, list(_told_alike([each for each in found if each.problem == "alike"])))


def _told_alike(found: Sequence[TaskFinding]) -> Iterator[str]:
    """Yield one remark on all tasks that are alike, and may each be right."""
    if found:
        shown = ", ".join(f"'{each.task}' (like '{each.other}')" for each in found[:_ALIKE_SHOWN])
        more = f" and {len(found) - _ALIKE_SHOWN:,} more" if len(found) > _ALIKE_SHOWN else ""
        has, expects = ("has", "it expects") if len(found) == 1 else ("have", "they expect")
        yield (
            f"{counted(len(found), 'task')} {has} nearly the prompt of another one: {shown}{more}; that is right where "
            f"{expects} something else for a reason"
        )


def told_problems(called: str, tasks: Sequence[Task], names: Collection[str]) -> list[str]:
    """Return the warnings for tasks that have just been added: the first few problems, and how to see them all.

    So many that whoever adds them would wait are left to the check; `called` is the skill, as a command names it.
    """
    check = f"skillopt-mcp tasks check {called}"
    if len(names) > CHECKED_AT_ONCE:
        return [f"so many tasks were not checked as they were added: {check}"]
    alone = _among_alone(tasks, names)
    # Judges of form alone are told of by a warning of their own.
    of_form = {name for name, text in alone.problems if text == SHAPE_ONLY}
    found = [problem for problem in alone.problems if problem[0] not in of_form]
    told = [shortened(f"task '{name}': {text}", _SHOWN_BYTES) for name, text in found[:_SHOWN]]
    if told:
        more = f"{len(found) - _SHOWN:,} more such problems" if len(found) > _SHOWN else "such problems of all tasks"
        retire = f"skillopt-mcp tasks retire {called} ID"
        told.append(f"{more}: {check}; to take a task out of use, a person types: {retire}")
    return [*told, *(shortened(remark, _SHOWN_BYTES) for remark in alone.remarks)]


def _unknown_environments(tasks: Iterable[Task]) -> Iterator[tuple[str, str]]:
    """Yield what to tell of tasks that an environment scores which is not there, each with the name of the task."""
    named = [(task.name, leaf.name) for task in tasks for leaf in leaves(task.judge) if isinstance(leaf, ByEnvironment)]
    known = environment_names() if named else ()
    # What stands behind the colon is up to the environment.
    unknown = {task: name for task, name in reversed(named) if name.partition(":")[0] not in known}
    for task in dict.fromkeys(task for task, _ in named if task in unknown):
        yield (
            task,
            f"the environment {quoted(unknown[task])} is not known here, and nobody else can score the task: correct "
            f"the name (known: {', '.join(known) or 'none'}) or install the package that has it",
        )
