"""Tasks: what a skill is trained and tested on, from rows to their removal."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.actions.evals import AS_THEY_ARE, EvalsRead, Plan, read_file
from skillopt_mcp.core import limits
from skillopt_mcp.core.advice import ENOUGH_SCORED, advise, advise_review
from skillopt_mcp.core.errors import BackendError, BadInput, NotFound, Refused
from skillopt_mcp.core.next_step import NextStep, SkillState
from skillopt_mcp.core.notes import Note
from skillopt_mcp.core.redacting import KnownSecrets, redact
from skillopt_mcp.core.results import Rejected, Result, TasksAdded
from skillopt_mcp.core.skills import Skill, SplitCounts
from skillopt_mcp.core.tasks import SHAPE, NewTask, Split, Task
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.environments.base import Environment
from skillopt_mcp.tasks.environments.registry import check_left, find_unknown_environments, list_tasks
from skillopt_mcp.tasks.formats.skillopt import parse_row
from skillopt_mcp.tasks.judges.checking import TaskFinding, check_tasks, check_usable, find_asked_in_train
from skillopt_mcp.tasks.splits import (
    DEFAULT_SHARES,
    Placed,
    StoredTask,
    files_json,
    make_unstored,
    place_tasks,
    shuffle,
)
from skillopt_mcp.training.settings.reading import SplitPlan
from skillopt_mcp.workspace.answers import shorten
from skillopt_mcp.workspace.linting import folder_named, folder_of
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import handle, quote_handle, read_skill

ENOUGH_HELD_OUT = 30
REASON_BYTES = 350
REASON_CHARACTERS = 500
MAX_CHECKED = 2_000
"""So many tasks at most are checked as they are added: more would take too long."""
IDS_SHOWN = 10


# Rows


@dataclass(slots=True)
class TaskPlan:
    """Rows by position: the usable tasks, in the order in which they join the splits, and why the others are not."""

    n_rows: int
    tasks: dict[int, NewTask]
    rejected: dict[int, str]
    shares: Mapping[Split, float] = field(default_factory=lambda: DEFAULT_SHARES)

    def settle(self, placed: Sequence[Placed]) -> dict[int, Placed]:
        """Reject what could not be placed; return where the others went."""
        by_position = dict(zip(self.tasks, placed, strict=True))
        self.rejected |= {position: each.fault for position, each in by_position.items() if each.fault}
        for position in self.rejected:
            self.tasks.pop(position, None)
        return {position: by_position[position] for position in self.tasks}


def parse_rows(
    rows: Sequence[object], store: Store | None, secrets: KnownSecrets, splits: SplitPlan | None = None
) -> TaskPlan:
    """Return the well-formed rows, and why the others are not. Raises BadInput for no row, and for too many."""
    if not rows:
        raise BadInput(f"no task was given: a task is {SHAPE}")
    if len(rows) > limits.TASKS_PER_CALL:
        raise BadInput(f"{len(rows):,} tasks at once, at most {limits.TASKS_PER_CALL:,}: add them in parts")
    registered = {each.name for each in store.commands.list_commands()} if store else set[str]()
    plan = TaskPlan(len(rows), {}, {})
    for position, value in enumerate(rows):
        try:
            task = value if isinstance(value, NewTask) else parse_row(value)
            check_usable(task, registered, secrets)
            plan.tasks[position] = task
        except BadInput as error:
            plan.rejected[position] = redact(str(error), secrets)
    if splits is not None and splits.mode == "ratio":
        plan.shares, tasks = splits.shares, list(plan.tasks.items())
        plan.tasks = dict(tasks[at] for at in shuffle([task.digest for _, task in tasks], splits.seed))
    return plan


# Adding


def add_tasks(
    store: Store, place: Place, skill: str, tasks: Sequence[object] | None = None, file: str | None = None
) -> TasksAdded:
    """Add tasks given inline, or in a file or folder (`add_file`); each bad one is rejected with its reason.

    Raises BadInput when neither or both are given, or the file cannot be read; then nothing is added.
    """
    if (tasks is None) == (file is None):
        raise BadInput(f"give either tasks or file: a list of {SHAPE}, or its path; or the source to draft them from")
    if file is not None:
        return add_file(store, place, skill, Path(os.path.expanduser(file)))
    return _add(store, place, skill, list(tasks or ()))


def add_file(store: Store, place: Place, skill: str, path: Path, how: Plan = AS_THEY_ARE) -> TasksAdded:
    """Add the tasks of a file (JSON list, JSON lines, CSV), of another tool's evals, or by a plan those of a data set.

    Raises BadInput when the file or folder cannot be read, or no case of the evals is kept; then nothing is added.
    """
    rows, evals = read_file(path, how)
    if evals and not rows:
        why = evals.refused or next((f"{each.id}: {each.describe_lost()}" for each in evals.cases), "there is no case")
        raise BadInput(f"{quoted(str(path), 350)} ({evals.format}): nothing was added: {shorten(why, REASON_BYTES)}")
    if evals and store.is_made:
        others = {task.name: task.digest for task in store.tasks.list_in_use(place.skill(skill).id)}
        tasks = {at: task for at, task in enumerate(rows) if isinstance(task, NewTask)}
        taken, own = {*others, *(task.name for task in tasks.values())}, {task.digest for task in tasks.values()}
        for at, task in tasks.items():
            if (other := others.get(task.name or "", task.digest)) == task.digest:
                continue
            if evals.format == "trigger":  # its ids may be those of the cases next to it
                rows[at] = replace(task, name=f"trigger-{task.name}")
            elif other in own:  # an id that comes twice: the other one is in the file, too, with another number now
                name = next(each for n in count(2) if (each := f"{task.name}-{n}") not in taken)
                rows[at] = replace(task, name=name)
                taken.add(name)
    added = _add(store, place, skill, rows, how if isinstance(how, SplitPlan) else None)
    return added.model_copy(update={"evals": evals.describe(path.name)}) if evals else added


def _add(store: Store, place: Place, skill: str, rows: Sequence[object], splits: SplitPlan | None = None) -> TasksAdded:
    plan = parse_rows(rows, store if store.is_made else None, place.secrets, splits)
    added = _insert(store, place, skill, plan)
    in_use = store.tasks.list_in_use(place.skill(skill).id)
    digests = {task.digest for task in plan.tasks.values()}
    names = {task.name for task in in_use if task.digest in digests}
    if len(names) > MAX_CHECKED:
        notes = [Note(code="unchecked", numbers={"n": len(names)})]
    else:
        # An agent waits for the answer, and programs take their time.
        found = _find_problems(None if place.is_agents else store, in_use, names, skill)
        notes = _as_notes((each.problem, each.task) for each in found)
    return added.model_copy(update={"notes": [*added.notes, *notes, *note_spread(in_use)]})


def _insert(store: Store, place: Place, skill: str, plan: TaskPlan) -> TasksAdded:
    """Store the tasks that can be added, in one transaction; the others are rejected."""
    tracked = place.skill(skill)
    tasks = list(plan.tasks.values())
    waits = _must_wait(store, place, tracked.id)
    login = place.login if place.caller == "person" else None
    placed = plan.settle(store.tasks.add_tasks(tracked.id, tasks, plan.shares, login=login, waits=waits))
    counts = store.tasks.count_tasks(tracked.id)
    n_waiting = sum(task.waits for task in store.tasks.list_in_use(tracked.id))
    state = SkillState(
        skill=handle(store, tracked), n_train=counts["train"], n_val=counts["val"], n_test=counts["test"],
        n_scored=store.trajectories.count_new_scored(tracked.id, ENOUGH_SCORED),
    )  # fmt: skip
    return TasksAdded(
        skill=tracked.name,
        added=sum(each.is_new for each in placed.values()),
        duplicates=sum(each.is_duplicate for each in placed.values()),
        rejected=[
            Rejected(index=position, reason=shorten(why, REASON_BYTES))
            for position, why in sorted(plan.rejected.items())[: limits.REJECTED_SHOWN]
        ],
        n_rejected=len(plan.rejected),
        splits=SplitCounts(**counts),
        next_step=advise_review(handle(store, tracked), n_waiting) if waits and n_waiting else advise(state),
        notes=[Note(code="waiting", numbers={"n": n_waiting})] if waits and n_waiting else [],
    )


def _must_wait(store: Store, place: Place, skill_id: int) -> bool:
    """Whether tasks that are added here are in train until a person has looked at them.

    An agent's are, and where a person has tasks, also those of a process that nobody watches.
    """
    is_watched = place.caller == "person" or not store.tasks.has_adopted(skill_id)
    return place.is_agents or not is_watched


def _as_notes(found: Iterable[tuple[str, str]]) -> list[Note]:
    """Return one note for each code, with how many tasks it is about, and the first of them."""
    ids: dict[str, list[str]] = {}
    for code, name in found:
        ids.setdefault(code, []).append(name)
    return [Note(code=code, numbers={"n": len(names)}, ids=names[:IDS_SHOWN]) for code, names in ids.items()]


class FromEnvironment(TasksAdded):
    """What came of adding an environment's tasks: the digests of those in use, how many others the skill has in use,
    and how many of the environment's were removed, and stay so.
    """

    digests: frozenset[str]
    n_others: int
    n_removed: int


def add_environment(store: Store, place: Place, skill: str, environment: Environment) -> FromEnvironment:
    """Add the tasks of an environment, each to its own split; those that a person removed are left out.

    Raises BadInput when none are left to learn from or to choose by, and when one cannot be used or is another than the
    stored one of its name.
    """
    skill_id = place.skill(skill).id
    all_tasks = list_tasks(environment)
    removed_ids = store.retirements.list_retired(skill_id)
    removed = {task.digest for task in store.tasks.list_tasks(skill_id) if task.id in removed_ids}
    left = [task for task in all_tasks if task.digest not in removed]
    if not left:
        raise BadInput(f"all {len(all_tasks)} tasks of the environment '{environment.name}' were removed")
    waits = _must_wait(store, place, skill_id)
    in_use = {task.digest: task.split for task in store.tasks.list_in_use(skill_id) if waits or not task.waits}
    check_left(environment.name, all_tasks, left, in_use)
    first: dict[str, NewTask] = {}
    for task in left:
        # One that is there already stays in its split, whatever the environment says.
        first.setdefault(task.digest, replace(task, split=in_use.get(task.digest, task.split)))
    new = list(first.values())
    plan = parse_rows(new, store, place.secrets)
    stored = [_to_stored(task, is_removed=task.id in removed_ids) for task in store.tasks.list_tasks(skill_id)]
    plan.settle(place_tasks(plan.tasks.values(), stored, DEFAULT_SHARES, waits=waits))
    if plan.rejected:
        at = min(plan.rejected)
        raise BadInput(
            f"{len(plan.rejected)} of {len(new)} tasks of the environment '{environment.name}' cannot be used, the "
            f"first is '{new[at].name}': {plan.rejected[at]}. Train in another store (--store), or remove the old tasks"
        )
    added = _insert(store, place, skill, plan)
    facts = {name: getattr(added, name) for name in TasksAdded.model_fields}
    return FromEnvironment(
        **facts | {"duplicates": len(left) - added.added},
        digests=frozenset(first),
        n_others=sum(task.digest not in first for task in store.tasks.list_in_use(skill_id)),
        n_removed=len(all_tasks) - len(left),
    )


def add_given(
    store: Store, place: Place, skill: str, source: Environment | list[object], judged_by: str = ""
) -> tuple[TasksAdded, Collection[str]]:
    """Add all tasks of an environment, or all rows that a program gives: what came of it, and the tasks' digests.

    Rows without a judge of their own are `judged_by` an environment of that name, if any. Raises BadInput where a task
    cannot be used.
    """
    if not isinstance(source, list):
        from_environment = add_environment(store, place, skill, source)
        return from_environment, from_environment.digests
    if judged_by:
        own = {"judge": {"kind": "environment", "name": judged_by}}
        source = [own | row if isinstance(row, dict) else row for row in source]
    added = add_tasks(store, place, skill, source)
    for first in added.rejected[:1]:
        raise BadInput(
            f"{len(added.rejected)} of {len(source)} tasks cannot be used; row {first.index}: {first.reason}"
        )
    return added, frozenset(parse_row(row).digest for row in source)


def _to_stored(task: Task, *, is_removed: bool) -> StoredTask:
    files = files_json(task)
    facts = (task.id, task.name, task.prompt, files, task.split, task.digest, task.group)
    return StoredTask(*facts, is_removed, task.waits, tags=json.dumps(task.tags))


# Checking


class TaskProblem(BaseModel):
    """What makes a task useless or misleading; `task` is its number in the file, or its id where it is stored."""

    task: str
    id: str = ""
    reason: str


class Checked(BaseModel):
    """What a check found: `problems` to settle, `notes` worth knowing."""

    model_config = ConfigDict(frozen=True)
    n_tasks: int
    problems: list[TaskProblem]
    notes: list[Note]
    evals: EvalsRead | None = None


def check_file(store: Store, place: Place, skill: str, path: Path, how: Plan = AS_THEY_ARE) -> Checked:
    """What adding would reject of a file, or of a data set by its plan, and what `check_stored` would find then.

    Nothing is stored: neither a store nor a tracked skill is made. Raises BadInput, NotFound, BadSkill.
    """
    rows, evals = read_file(path, how)
    if evals and not rows:
        return Checked(n_tasks=0, problems=[], notes=[], evals=evals)
    made = store if store.path.exists() else None
    plan = parse_rows(rows, made, place.secrets, how if isinstance(how, SplitPlan) else None)
    if evals:
        given = {at: row.name for at, row in enumerate(rows) if isinstance(row, NewTask)}
        evals = evals.reject({given[at]: why for at, why in plan.rejected.items()})
    # A skill that is given by its path stays untracked.
    folder = folder_of(skill, bare=made is None) or (None if made else folder_named(store, place, skill))
    if folder is None:
        tracked: Skill | None = place.skill(skill)
    else:
        read_skill(folder)
        tracked = made.skills.find_skill(str(folder)) if made else None
    tasks = made.tasks.list_tasks(tracked.id) if made and tracked else []
    removed: Collection[int] = made.retirements.list_retired(tracked.id) if made and tracked else ()
    ids = {position: task.name or "" for position, task in plan.tasks.items()}
    stored = [_to_stored(task, is_removed=task.id in removed) for task in tasks]
    waits = _must_wait(store, place, tasks[0].skill_id) if tasks else place.is_agents
    placed = plan.settle(place_tasks(plan.tasks.values(), stored, plan.shares, waits=waits))
    in_use = [task for task in tasks if task.id not in removed]
    names = {task.digest: task.name for task in in_use}
    positions: dict[str, int] = {}
    for position, task in plan.tasks.items():
        if placed[position].is_new:
            in_use.append(make_unstored(-1 - position, task, placed[position].split))
            names[task.digest] = in_use[-1].name
        positions.setdefault(names[task.digest], position)
    found = list(plan.rejected.items())
    findings = _find_problems(made, in_use, positions, skill)
    alike = _as_notes((each.problem, each.task) for each in findings if each.problem == "alike")
    found += [(positions.get(each.task, plan.n_rows), each.text) for each in findings if each.problem != "alike"]
    if n_there := sum(each.is_duplicate for each in placed.values()):
        alike.insert(0, Note(code="duplicates", numbers={"n": n_there}))
    return Checked(
        n_tasks=plan.n_rows,
        problems=[
            TaskProblem(task=f"{position + 1}" if position < plan.n_rows else "", id=ids.get(position, ""), reason=why)
            for position, why in sorted(found)
        ],
        notes=[*alike, *_note_few(in_use)],
        evals=evals,
    )


def check_stored(store: Store, place: Place, skill: str) -> Checked:
    """What is wrong with the stored tasks of a skill. Raises NotFound, BadSkill."""
    tasks = store.tasks.list_in_use(place.find_recorded(skill).id)
    found = _find_problems(store, tasks, {task.name for task in tasks}, skill)
    alike = _as_notes((each.problem, each.task) for each in found if each.problem == "alike")
    shown = [TaskProblem(task=each.task, id=each.task, reason=each.text) for each in found if each.problem != "alike"]
    return Checked(n_tasks=len(tasks), problems=shown, notes=[*alike, *_note_few(tasks)])


def _note_few(tasks: Sequence[Task]) -> list[Note]:
    counts = Counter(task.split for task in tasks)
    notes = note_spread(tasks) if counts["train"] and counts["test"] else []
    if counts["test"] >= ENOUGH_HELD_OUT and counts["train"]:
        return notes
    numbers: dict[str, float] = {"train": counts["train"], "n": counts["test"], "enough": ENOUGH_HELD_OUT}
    return [*notes, Note(code="few_held_out", numbers=numbers)]


def note_spread(tasks: Sequence[Task]) -> list[Note]:
    """The tags that could not be spread: those without a train task, and those without a held-out one.

    Tasks that wait for a look are spread with it.
    """
    waiting = {tag for task in tasks if task.waits for tag in task.tags}
    train = {tag for task in tasks if task.split == "train" for tag in task.tags} - waiting
    others = {tag for task in tasks if task.split != "train" for tag in task.tags} - waiting
    found = {"no_train_of_tag": sorted(others - train), "no_held_out_of_tag": sorted(train - others)}
    return [Note(code=code, numbers={"n": len(each)}, ids=each[:IDS_SHOWN]) for code, each in found.items() if each]


def _find_problems(store: Store | None, tasks: Sequence[Task], names: Collection[str], skill: str) -> list[TaskFinding]:
    """What is wrong with the tasks of these names among all, and which are alike, which may well be right.

    With a store, registered programs are run for it. The name is "" where a finding is about none of them.
    """
    found = check_tasks(tasks, names)
    unknown = find_unknown_environments(tasks, names)
    found += [TaskFinding(name, "unknown_environment", why) for name, why in unknown]
    # A prompt that is a command of the host, which answers it itself; the skill's own is none.
    first = {task.name: task.prompt.split(maxsplit=1)[:1] for task in tasks if task.name in names}
    asked = {name: words[0][1:] for name, words in first.items() if words and words[0].startswith("/")}
    if asked:
        # Loaded for such prompts only.
        from skillopt_mcp.backends.claude_code import list_commands  # noqa: PLC0415

        commands = list_commands() - {os.path.basename(os.path.abspath(skill.removesuffix("SKILL.md")))}
        for name, command in asked.items():
            if command in commands:
                why = f"'/{command}' is a command of Claude Code, which may answer without a model: reword the prompt"
                found.append(TaskFinding(name, "host_command", why))
    if store:
        try:
            # To list tasks takes none.
            from skillopt_mcp.backends.programs import trivial_programs  # noqa: PLC0415

            tried = trivial_programs(store, [task for task in tasks if task.name in names])
            found += [TaskFinding(name, "program", why) for name, why in tried]
        except BackendError as error:
            found.append(TaskFinding("", "program", str(error)))
    return found


# Held-out tasks that are nearly train tasks


@dataclass(frozen=True, slots=True)
class _Tasks:
    """Tasks that are the same as others by what `key` says of them."""

    key: tuple[tuple[int, str, str], ...]
    tasks: tuple[Task, ...] = field(compare=False)


def near_train_tasks(
    store: Store, skill_id: int, held_out: Sequence[Task], others: Iterable[Task] | None = None
) -> Note | None:
    """How many of these held-out tasks have nearly the prompt of a train task among `others`, if any.

    The others are the tasks in use, if none are given. The ids stay out: who does the work may read the note.
    """
    tasks = {task.id: task for task in (*(store.tasks.list_in_use(skill_id) if others is None else others), *held_out)}
    key = tuple((task.id, task.split, task.digest) for task in tasks.values())
    near = _near_train(_Tasks(key, tuple(tasks.values())))
    n = sum(task.id in near for task in held_out)
    return Note(code="near_train_tasks", numbers={"n": n, "of": len(held_out)}) if n else None


def describe_near_train(store: Store, skill_id: int, held_out: Sequence[Task]) -> str:
    """`near_train_tasks` as a sentence; "" for none."""
    note = near_train_tasks(store, skill_id, held_out)
    if note is None:
        return ""
    check = f"skillopt-mcp tasks check {quote_handle(store, store.skills.get_skill(skill_id))} names them"
    asks = "asks" if note.numbers["n"] == 1 else "ask"
    return f"{note.numbers['n']:.0f} of {len(held_out)} held-out tasks {asks} nearly what a train task asks ({check})"


# A test that goes on asks again and again, and its tasks stay.
@lru_cache(maxsize=4)
def _near_train(known_tasks: _Tasks) -> frozenset[int]:
    return find_asked_in_train(known_tasks.tasks)


# Removing


class RemovalRow(BaseModel):
    """A task to remove; `n_tests` promotion tests have drawn it."""

    id: str
    split: Split
    n_tests: int
    prompt: str


class Removal(BaseModel):
    """What removing these tasks would do; what is `under_way` (runs and promotion tests) keeps them."""

    skill: str
    rows: list[RemovalRow]
    already: list[str]
    under_way: list[str]

    @property
    def n_held_out(self) -> int:
        """How many of them are test tasks."""
        return sum(row.split == "test" for row in self.rows)

    @property
    def n_drawn(self) -> int:
        """How many of them promotion tests have drawn."""
        return sum(row.n_tests > 0 for row in self.rows)


class Removed(Result):
    """The tasks that are drawn no more, by id; `already` were removed before. `splits` counts those left in use."""

    skill: str
    removed: list[str]
    already: list[str]
    under_way: list[str]
    splits: SplitCounts


def review_removal(store: Store, place: Place, skill: str, ids: Sequence[str]) -> Removal:
    """What removing these tasks would do; nothing is written. Raises NotFound for an unknown id."""
    tracked = place.find_kept(skill)
    found, already = _find_named(store, tracked, ids)
    tests = store.tests.list_of_skill(tracked.id)
    rows = [
        RemovalRow(
            id=each.name, split=each.split, n_tests=sum(each.id in test.tasks for test in tests), prompt=each.prompt
        )
        for each in found
    ]
    under_way = _list_under_way(store, tracked, {task.id for task in found})
    return Removal(skill=tracked.name, rows=rows, already=already, under_way=under_way)


def remove_tasks(store: Store, place: Place, skill: str, ids: Sequence[str], reason: str = "") -> Removed:
    """Take tasks out of use, all or none: nothing that begins later draws them, and verdicts stay.

    Their ids and prompts are free for corrected ones. Raises NotFound when one is no task of the skill, BadInput when
    the reason is too long.
    """
    if len(reason) > REASON_CHARACTERS:
        raise BadInput(f"the reason has {len(reason):,} characters, at most {REASON_CHARACTERS:,}: shorten it")
    tracked = place.find_kept(skill)
    found, already = _find_named(store, tracked, ids)
    if any(task.looked_at for task in found) and place.caller != "person":
        raise Refused("only a person at a terminal removes tasks that a person has looked at: all of these stay")
    removed = set(
        store.retirements.retire(tracked.id, [task.id for task in found], place.redactor.text(storable(reason)))
    )
    counts = store.tasks.count_tasks(tracked.id)
    return Removed(
        skill=tracked.name,
        removed=[task.name for task in found if task.id in removed],
        already=[*already, *(task.name for task in found if task.id not in removed)],
        under_way=_list_under_way(store, tracked, removed),
        splits=SplitCounts(**counts),
        next_step=NextStep(
            action="add_tasks",
            arguments={"skill": handle(store, tracked)},
            why="corrected tasks join the split of those that they replace",
        )
        if removed
        else None,
    )


def _find_named(store: Store, skill: Skill, ids: Sequence[str]) -> tuple[list[Task], list[str]]:
    """Return the tasks in use of these ids, and the ids that only removed tasks had."""
    in_use = {task.name: task for task in store.tasks.list_in_use(skill.id)}
    removed = {each.name for each in store.retirements.list_retired(skill.id).values()}
    wanted = list(dict.fromkeys(ids))
    if unknown := [each for each in wanted if each not in in_use and each not in removed]:
        raise NotFound(f"'{skill.name}' has no task {quoted(unknown[0])}: see them with 'skillopt-mcp tasks list'")
    return [in_use[each] for each in wanted if each in in_use], [each for each in wanted if each not in in_use]


def _list_under_way(store: Store, skill: Skill, task_ids: set[int]) -> list[str]:
    """Return the unfinished runs and undecided promotion tests that hold one of these tasks."""
    runs = store.runs.list_runs(skill.id)
    found = [f"run {run.id}" for run in runs if run.status != "finished" and task_ids.intersection(run.tasks)]
    for row in store.tests.list_of_skill(skill.id):
        if task_ids.intersection(row.tasks) and not store.decisions.latest_in(row.id):
            found.append(f"promotion test {row.id}")
    return found
