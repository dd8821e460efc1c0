"""Checking: what is wrong with tasks, in a file before they are added or in the store, by the same rules."""

from __future__ import annotations

import shlex
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.folders import read_skill
from skillopt_mcp.judges.judging import leaves
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.skills.linting import folder_named, folder_of
from skillopt_mcp.operations.tasks.adding import ENOUGH_HELD_OUT, drawn, parsed_rows, read_data_set
from skillopt_mcp.operations.tasks.meeting import TWICE, refusal, told_missing
from skillopt_mcp.operations.tasks.misleading import problems_among
from skillopt_mcp.operations.tasks.warning import secrets_warned
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.judging import Command
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.records.tasks import SPLITS, NewTask, Split, Task
from skillopt_mcp.settings.splitting import SplitPlan
from skillopt_mcp.splits import assign_split
from skillopt_mcp.store.opening import Store


class Checked(BaseModel):
    """What a check found: problems make a task useless or misleading, remarks are worth knowing."""

    model_config = ConfigDict(frozen=True)
    n_tasks: int
    problems: list[str]
    remarks: list[str]


@dataclass(frozen=True, slots=True)
class _Met:
    """A task that says the same: where it stands, and what it is called in the store when it is not of the file."""

    split: Split
    shown: str
    stored: str = ""


@dataclass(frozen=True, slots=True)
class _Stored:
    """The tasks of a skill that are in use, and the retired ones; `called` is what commands call the skill by."""

    called: str
    in_use: Sequence[Task] = ()
    retired: Sequence[Task] = ()


@dataclass
class _Added:
    """The tasks that a skill would have; `places` are those of a file, by name, and `n_there` are there already."""

    tasks: list[Task]
    places: dict[str, int] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)
    n_there: int = 0


def check_file(workspace: Workspace, skill: str, path: Path, plan: SplitPlan | None = None) -> Checked:
    """Return what adding would reject of a file, or of a data set by its plan, and what `check_stored` would say then.

    A skill that is given by its path is not tracked; no store is made. Raises BadInput when the file cannot be read
    or holds nothing, NotFound, BadSkill.
    """
    rows = read_data_set(path, plan)
    good, rejected = parsed_rows(rows)
    store = workspace.store if workspace.store_path.exists() else None
    stored = _stored(workspace, store, skill)
    added = _as_added(stored, *drawn(good, plan))
    added.problems += [(each.index, each.reason) for each in rejected]
    found = problems_among(store, added.tasks, added.places)
    added.problems += [(added.places.get(name, len(rows)), text) for name, text in found.problems]
    names = {index: f" '{task.name}'" for index, task in good if task.name}
    return Checked(
        n_tasks=len(rows),
        problems=[
            f"task {index + 1}{names.get(index, '')}: {text}" if index < len(rows) else text
            for index, text in sorted(added.problems, key=lambda problem: problem[0])
        ],
        remarks=[
            *secrets_warned([(f"task {index + 1}", task) for index, task in good], workspace.known),
            *_remarks_on_file(added, store),
            *found.remarks,
            *filter(None, [told_missing(stored.called, added.tasks, [task for _, task in good])]),
            *_remarks(added.tasks),
        ],
    )


def check_stored(workspace: Workspace, skill: str) -> Checked:
    """Return what is wrong with the stored tasks of a skill. Raises NotFound, BadSkill."""
    tasks = workspace.store.tasks.list_in_use(workspace.recorded(skill).id)
    found = problems_among(workspace.store, tasks, {task.name for task in tasks})
    problems = [f"task '{name}': {text}" if name else text for name, text in found.problems]
    secrets = secrets_warned([(f"'{task.name}'", task) for task in tasks], workspace.known)
    return Checked(n_tasks=len(tasks), problems=problems, remarks=[*secrets, *found.remarks, *_remarks(tasks)])


def _stored(workspace: Workspace, store: Store | None, skill: str) -> _Stored:
    """Return what is stored of a skill; one given by its path stays untracked, and no store is made."""
    folder = folder_of(skill, bare=store is None) or (folder_named(workspace, skill) if store is None else None)
    if folder is None:
        tracked: Skill | None = workspace.skill(skill)
    else:
        read_skill(folder)
        tracked = store.skills.find_skill(str(folder)) if store else None
    if store is None or tracked is None:
        return _Stored(shlex.quote(skill))
    out_of_use = store.retirements.list_retired(tracked.id)
    tasks = store.tasks.list_tasks(tracked.id)
    in_use = [task for task in tasks if task.id not in out_of_use]
    return _Stored(called(store, tracked), in_use, [task for task in tasks if task.id in out_of_use])


def _as_added(stored: _Stored, good: Sequence[tuple[int, NewTask]], shares: Mapping[Split, float]) -> _Added:
    """Return what adding would make of tasks beside the `stored` ones, each in the split that it would come into."""
    there, skill = stored.in_use, stored.called
    added = _Added([*there])
    counts = {**dict.fromkeys(SPLITS, 0), **Counter(task.split for task in there)}
    met = {task.digest: _Met(task.split, f"'{task.name}'", task.name) for task in there}
    stored_names = {task.name for task in there}
    names = set(stored_names)
    places = {task.name: task.split for task in stored.retired}
    asked = {_asked(task): task.split for task in stored.retired}
    gone = {task.digest for task in stored.retired}
    for index, task in good:
        digest, place = task.digest, asked.get(_asked(task))
        if digest in met:
            met[digest] = _meet(added, index, task, met[digest])
        elif digest in gone:
            added.problems.append((index, refusal(task, "retired", skill)))
        elif task.name and task.name in names:
            taken = "name taken" if task.name in stored_names else TWICE
            added.problems.append((index, refusal(task, taken, skill)))
        elif place and task.split not in (None, place):
            added.problems.append((index, refusal(task, place, skill)))
        else:
            split = task.split or place or places.get(task.name or "") or assign_split(counts, shares, digest)
            counts[split] += 1
            name = task.name or f"task {index + 1} (no id)"
            names.add(name)
            added.places[name] = index
            added.tasks.append(Task(index, 0, name, task.prompt, task.judge, split, digest, task.tags, task.files))
            met[digest] = _Met(split, f"task {index + 1}")
    return added


def _asked(task: NewTask | Task) -> str:
    return task.prompt.strip(string.whitespace)


def _meet(added: _Added, index: int, task: NewTask, other: _Met) -> _Met:
    """Note that a task is there already, and return what the next one meets.

    It would be left out; where its own split is another one, it would be missing there.
    """
    if other.stored:
        added.places.setdefault(other.stored, index)
    if task.split not in (None, other.split):
        where = f"which is in {other.split}: it would be missing in {task.split} (a leak)"
        added.problems.append((index, f"it is the same as {other.shown}, {where}"))
    elif other.stored:
        added.n_there += 1
    else:
        added.problems.append((index, f"it is the same as {other.shown}: remove one"))
    return _Met(other.split, f"task {index + 1}") if other.stored else other


def _remarks_on_file(added: _Added, store: Store | None) -> Iterator[str]:
    if added.n_there:
        there = "is there already: it" if added.n_there == 1 else "are there already: they"
        yield f"{counted(added.n_there, 'task')} {there} would be left unchanged"
    commands = {leaf.name for task in added.tasks for leaf in leaves(task.judge) if isinstance(leaf, Command)}
    if store is None and commands:
        shown = ", ".join(f"'{name}'" for name in sorted(commands))
        these = f"command {shown} was" if len(commands) == 1 else f"commands {shown} were"
        yield f"the {these} not tried: there is no store here in which a person registered them"


def _remarks(tasks: Sequence[Task]) -> list[str]:
    counts: Mapping[str, int] = Counter(task.split for task in tasks)
    remarks = [f"there is no {split} task" for split in SPLITS if not counts[split]]
    n_held_out = counts["val"] + counts["test"]
    if n_held_out < ENOUGH_HELD_OUT:
        held_out = f"{counted(n_held_out, 'task')} {'is' if n_held_out == 1 else 'are'} held out"
        remarks.append(f"{held_out}; with {ENOUGH_HELD_OUT} or more, small gains can be proven")
    return remarks
