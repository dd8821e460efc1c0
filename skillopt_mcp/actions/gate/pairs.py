"""Pairs: the texts of each skill that differs between two revisions, and the tasks that decide between them."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from skillopt_mcp.actions.evals import AS_THEY_ARE, read_file
from skillopt_mcp.actions.gate.revisions import Difference, Revision, list_differences, open_revisions
from skillopt_mcp.actions.skill_checks import find_evals
from skillopt_mcp.actions.suites import read_tasks
from skillopt_mcp.actions.tasks import parse_rows
from skillopt_mcp.core.errors import BackendError, BadInput, Busy, NotFound, Refused, Stopped
from skillopt_mcp.core.gating import Require
from skillopt_mcp.core.limits import FILE_BYTES, MIB
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.skills import Skill, SkillFiles, is_memory
from skillopt_mcp.core.tasks import NewTask, Task
from skillopt_mcp.core.text import counted, quoted
from skillopt_mcp.store.copying import copy_store, is_database
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.skills import GATED
from skillopt_mcp.tasks.formats.skillopt import parse_row
from skillopt_mcp.tasks.splits import DEFAULT_SHARES, default_name
from skillopt_mcp.training.promotion_test import held_out
from skillopt_mcp.workspace.linting import ask_git
from skillopt_mcp.workspace.skill_folders import read_skill

OF_A_SKILL = (BadInput, NotFound, Refused, Busy, Stopped, BackendError)
"""The errors that keep one skill from being tested, and no other."""
_NONE = SkillFiles(())


@dataclass(frozen=True, slots=True)
class GateOptions:
    """What a gate is asked: the skills at `paths` and below (default: all) that differ between two revisions.

    `head` "" is the working tree. `tasks` are a file of tasks, or a store with held-out ones. Tests are numbered by
    `series`: the pull request, "" where that is not known; `count_earlier` says how many tests of a skill, by its path
    at the base, it is known to have had elsewhere, None where that could not be read. With
    `one_text` two models, which it names, are compared on all skills there.
    """

    paths: Sequence[str] = ()
    base: str | None = None
    head: str = ""
    require: Require = "any-but-worse"
    tasks: Path | None = None
    series: str = ""
    count_earlier: Callable[[str], int | None] | None = None
    one_text: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """A skill that differs: its texts, without a file where it is new or gone, and the tasks that decide.

    `is_changed`: the head has other tasks than the base, whose decide. `fault`: why it cannot be tested.
    """

    found: Difference
    old: SkillFiles = _NONE
    new: SkillFiles = _NONE
    tasks: Sequence[NewTask] = ()
    origin: Literal["base", "head", "given"] = "base"
    is_changed: bool = False
    notes: list[str] = field(default_factory=list)
    fault: str = ""


class Compared(NamedTuple):
    """What differs between two revisions of a repository, named by its first commit.

    `is_whole`: the checkout has the whole history.
    """

    top: Path
    root: str
    is_whole: bool
    base: Revision
    head: Revision
    pairs: list[Pair]


def compare_revisions(folder: Path, options: GateOptions) -> Compared:
    """The skills that differ, with their texts and tasks. Raises BadInput where git or a file of tasks cannot be read.

    A skill that cannot be read has a fault.
    """
    top, base, head = open_revisions(folder, "HEAD" if options.one_text else options.base, options.head)
    base = head if options.one_text else base
    roots = ask_git(top, options.base or "", "rev-list", "--max-parents=0", head.commit or "HEAD").split()
    is_whole = ask_git(top, "", "rev-parse", "--is-shallow-repository").strip() == "false"
    wanted = [os.path.relpath(os.path.realpath(folder / each), top) for each in options.paths]
    found = [
        each for each in ([Difference(each, "changed") for each in head.list_skills()] if options.one_text
                          else list_differences(base, head))
        if not wanted or any(path == "." or _is_in(each.path, path) or _is_in(path, each.path) for path in wanted)
    ]  # fmt: skip
    for name, path in zip(options.paths, wanted, strict=True):
        if not any(_is_in(each, path) or _is_in(path, each) for each in (*base.paths, *head.paths, ".")):
            raise BadInput(f"there is nothing at {quoted(name)} in either revision")
    testable, given = [each.path for each in found if each.change != "deleted"], options.tasks
    if given and not is_database(given) and len(testable) > 1:
        raise BadInput(f"--tasks {quoted(str(given))} is for one skill, and {len(testable)} differ: name PATH")
    with TemporaryDirectory(prefix="skillopt-gate-") as temporary:
        place = Path(temporary).resolve()
        base.lay_out(place / "base", [each.before or each.path for each in found if each.change != "added"])
        head.lay_out(place / "head", testable)
        if given and is_database(given):
            copy_store(given, place / "store.db")
        pairs = [_read_pair(each, (base, head), place, given) for each in found]
    return Compared(top, min(roots)[:12], is_whole, base, head, pairs)


def _is_in(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _read_pair(found: Difference, revisions: tuple[Revision, Revision], place: Path, given: Path | None) -> Pair:
    if found.change == "deleted":
        return Pair(found)
    try:
        old, old_tasks, old_notes = _NONE, list[NewTask](), list[str]()
        if found.change != "added":
            old, old_tasks, old_notes = _read_side(revisions[0], found.before or found.path, place / "base")
        new, new_tasks, new_notes = _read_side(revisions[1], found.path, place / "head")
        if given:
            tasks = _read_given(given, place / "store.db", {posixpath.basename(each) for each in found[::2] if each})
            return Pair(found, old, new, tasks, "given")
    except OF_A_SKILL as error:
        return Pair(found, fault=str(error).replace(f"{place}/base/", "").replace(f"{place}/head/", ""))
    if not old_tasks:
        return Pair(found, old, new, new_tasks, "head", notes=new_notes)
    is_changed = {task.digest for task in old_tasks} != {task.digest for task in new_tasks}
    return Pair(found, old, new, old_tasks, "base", is_changed, old_notes)


def _read_side(revision: Revision, skill: str, place: Path) -> tuple[SkillFiles, list[NewTask], list[str]]:
    """The text of a skill without its evals, the tasks of these, and what of them is not taken. Raises BadSkill."""
    own, folder = place / skill, (place / skill).parent if is_memory(skill) else place / skill
    for name in revision.list_files(skill):
        if not (folder / name).is_file():
            raise BadInput(
                f"{quoted(name)} is larger than {FILE_BYTES // MIB} MiB, or not in this clone: fetch it whole"
            )
    files = read_skill(own)
    tasks, read = read_tasks(*(([folder], ()) if is_memory(skill) else find_evals(folder)))
    left_out = ["evals", *(os.path.relpath(path, folder) for path, _ in read)]
    text = SkillFiles(tuple(file for file in files.files if not any(_is_in(file.path, each) for each in left_out)))
    notes = [evals.describe(os.path.relpath(path, place)) for path, evals in read
             if evals.refused or not all(case.kept for case in evals.cases)]  # fmt: skip
    return text, tasks, [note.replace(f"{place}/", "") for note in notes]


def _read_given(path: Path, copy: Path, names: set[str]) -> list[NewTask]:
    """The tasks of a file, or the held-out ones of the skills of these names in the copy of a store."""
    if not copy.exists():
        return [row if isinstance(row, NewTask) else parse_row(row) for row in read_file(path, AS_THEY_ARE)[0]]
    with Store(copy) as store:
        skills = [skill for skill in store.skills.list_listed() if posixpath.basename(skill.path) in names]
        found = [task for skill in skills for task in held_out(store.tasks.list_in_use(skill.id))]
    return _renew(found)


def _renew(tasks: Sequence[Task]) -> list[NewTask]:
    return [NewTask(each.prompt, each.judge, each.name, "test", each.tags, each.files, each.group) for each in tasks]


def store_tasks(
    store: Store, secrets: KnownSecrets, compared: Compared, pair: Pair
) -> tuple[Skill | None, list[Task], list[str]]:
    """The skill of the store that a pair is tested as, its tasks, and notes; None without a task that can be used.

    A pair without tasks is the tracked skill with held-out ones, if there is one; any other has a hidden row.
    """
    path, notes = pair.found.path, list(pair.notes)
    if not pair.tasks and pair.origin == "head" and store.is_made:
        tracked = store.skills.find_listed(str(compared.top / path))
        if tracked and (held := held_out(store.tasks.list_in_use(tracked.id))):
            if pair.old != pair.new:
                store.skills.add_version(tracked.id, pair.old)
                return tracked, list(held), notes
            # One text with two models has a row of its own, too: no candidate of the tracked skill comes of it.
            pair = replace(pair, origin="given", tasks=_renew(held))
    plan = parse_rows(pair.tasks, store if store.is_made else None, secrets) if pair.tasks else None
    if plan and plan.rejected:
        notes.append(f"{counted(len(plan.rejected), 'task')} left out: {next(iter(plan.rejected.values()))}")
    if not (plan and plan.tasks):
        return None, [], notes
    row_path = f"{GATED}{compared.root}{'+' * (pair.origin == 'given')}:{path}"
    skill = store.skills.add_gated(posixpath.basename(path) or "skill", row_path, pair.old)
    taken = {task.name: task.digest for task in store.tasks.list_tasks(skill.id)}
    tasks = dict[str, NewTask]()
    for task in plan.tasks.values():  # one id may name other tasks in time, or in other files
        name = default_name(task)
        name = name if taken.setdefault(name, task.digest) == task.digest else f"{name}-{task.digest[:8]}"
        tasks[task.digest] = replace(task, name=name, split="test")
    store.tasks.add_tasks(skill.id, [*tasks.values()], DEFAULT_SHARES)
    return skill, [task for task in store.tasks.list_in_use(skill.id) if task.digest in tasks], notes
