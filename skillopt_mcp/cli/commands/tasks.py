"""Tasks: list, add, export and check what a skill is trained and tested on; the person at the terminal owns them."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.cli.retiring import retire
from skillopt_mcp.cli.rotating import rotate
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.environments.rows import read_stream
from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.results import TasksAdded
from skillopt_mcp.operations.skills.linting import folder_of
from skillopt_mcp.operations.skills.resembling import told_likeness
from skillopt_mcp.operations.stores.appearing import write_new, write_over
from skillopt_mcp.operations.tasks.adding import add_data_set, add_tasks
from skillopt_mcp.operations.tasks.checking import check_file, check_stored
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.judging import spec_json
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.records.tasks import SPLITS, Task
from skillopt_mcp.settings.splitting import SplitPlan, split_plan
from skillopt_mcp.store.retirements import Retirement

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """What to do with the tasks of which skill, and with which file."""

    action: str = "list"
    skill: str = ""
    file: str | None = None
    split_mode: str | None = None
    ratio: str | None = None
    seed: int | None = None
    looks: int = 10
    ids: Sequence[str] = ()
    reason: str = ""
    retired: bool = False
    force: bool = False
    yes: bool = False


def run(options: Options) -> int:
    """Return 0 when it was done, 1 when a task was rejected or has something wrong."""
    with Workspace(options.store_path) as workspace:
        if options.action in ("add", "import"):
            return _add(workspace, options)
        if options.action == "check":
            return _check(workspace, options)
        if options.action == "rotate":
            return rotate(workspace, options.skill, options.looks, options, yes=options.yes)
        if options.action == "retire":
            given = (options.skill, options.ids, options.reason)
            return retire(workspace, *given, options, yes=options.yes)
        skill = workspace.kept(options.skill)
        store = workspace.store
        tasks = store.tasks.list_tasks(skill.id) if options.retired else store.tasks.list_in_use(skill.id)
        retired = store.retirements.list_retired(skill.id)
        likeness = told_likeness(workspace, skill.path)
    if options.action == "export":
        _export(skill.name, tasks, options)
    else:
        _list(skill, tasks, retired, as_json=options.json)
    if likeness:
        terminal.note(options.on_store(f"note: {likeness}."))
    return 0


def _add(workspace: Workspace, options: Options) -> int:
    result = _result(workspace, options)
    if options.json:
        terminal.emit(result, options)
        return 1 if result.rejected else 0
    splits = result.splits
    terminal.say(
        f"{result.added} added, {result.duplicates} there already; {result.skill} has {splits.train} train, "
        f"{splits.val} val and {splits.test} test tasks."
    )
    for each in result.rejected:
        terminal.note(f"error: task {each.index + 1} was rejected: {each.reason}")
    for warning in result.warnings:
        terminal.note(options.on_store(f"warning: {warning}."))
    terminal.note(terminal.advice(result.next_step, options))
    return 1 if result.rejected else 0


def _result(workspace: Workspace, options: Options) -> TasksAdded:
    plan = _plan(options)
    if plan is not None:
        return add_data_set(workspace, options.skill, Path(options.file or "").expanduser(), plan)
    if options.file == STDIN:
        return add_tasks(workspace, options.skill, read_stream(sys.stdin.buffer))
    return add_tasks(workspace, options.skill, file=options.file)


def _plan(options: Options) -> SplitPlan | None:
    """Return how the rows of the file come into splits; None where nothing was said. Raises BadInput."""
    if options.split_mode is None:
        if options.ratio is not None or options.seed is not None:
            raise BadInput("--ratio and --seed belong to --split-mode ratio: name it too")
        if options.file and Path(options.file).expanduser().is_dir():
            raise BadInput(
                f"'{options.file}' is a folder: add --split-mode split_dir if it holds train, val and test, or name a "
                ".json, .jsonl or .csv file"
            )
        return None
    if options.file in (STDIN, None):
        raise BadInput("--split-mode reads a file or a folder: name one in the place of '-'")
    if options.split_mode != "ratio" and (options.ratio is not None or options.seed is not None):
        raise BadInput("in a folder of splits nothing is drawn: leave out --ratio and --seed")
    return split_plan(options.split_mode, options.ratio, options.seed)


def _check(workspace: Workspace, options: Options) -> int:
    plan = _plan(options)
    # Only a file of tasks for a skill that is given by its path can be checked without a store.
    if options.file is None or folder_of(options.skill) is None:
        options.require_store()
    if options.file is not None:
        found = check_file(workspace, options.skill, Path(options.file).expanduser(), plan)
    else:
        found = check_stored(workspace, options.skill)
    if options.json:
        terminal.emit(found)
        return 1 if found.problems else 0
    for problem in found.problems:
        terminal.note(f"error: {problem}")
    for remark in found.remarks:
        terminal.note(f"note: {remark}")
    terminal.say(f"{counted(found.n_tasks, 'task')}, {counted(len(found.problems), 'problem')}.")
    return 1 if found.problems else 0


def _list(skill: Skill, tasks: Sequence[Task], retired: Mapping[int, Retirement], *, as_json: bool) -> None:
    in_use = [task for task in tasks if task.id not in retired]
    splits = Counter(task.split for task in in_use)
    if as_json:
        counts = {split: splits[split] for split in SPLITS}
        shown = [_plain(task) | _mark(retired.get(task.id)) for task in tasks]
        terminal.emit({"skill": skill.name, "splits": counts, "tasks": shown})
        return
    rows = [
        (
            task.name,
            f"{task.split}, retired" if task.id in retired else task.split,
            task.judge.kind,
            " ".join(task.tags),
            " ".join(task.prompt.split()),
        )
        for task in sorted(tasks, key=lambda task: SPLITS.index(task.split))
    ]
    if rows:
        terminal.say_table(("id", "split", "judge", "tags", "prompt"), rows, n_long=2)
    kinds = Counter(task.judge.kind for task in in_use)
    judged = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()) or "none"
    shares = ", ".join(f"{splits[split]} {split}" for split in SPLITS)
    terminal.note(f"{counted(len(in_use), 'task')} of {skill.name}: {shares}; judges: {judged}; it is at {skill.path}.")
    if retired:
        way = "" if len(tasks) > len(in_use) else ": see them with --all"
        terminal.note(f"{counted(len(retired), 'more is', 'more are')} retired{way}.")


def _mark(retirement: Retirement | None) -> dict[str, object]:
    """Return what the list says of a retired task beside what it is; nothing for one in use."""
    if retirement is None:
        return {}
    return {"retired": {"at": retirement.at, "reason": retirement.reason, "n_tests": retirement.n_looks}}


def _export(name: str, tasks: Sequence[Task], options: Options) -> None:
    rows = [_plain(task) for task in tasks]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if options.file:
        _write(Path(options.file).expanduser(), lines, over=options.force)
        if options.json:
            terminal.emit({"skill": name, "n_tasks": len(rows), "file": options.file})
        else:
            terminal.note(f"{counted(len(rows), 'task')} of {name} written to {options.file}.")
    elif options.json:
        terminal.emit({"skill": name, "tasks": rows})
    else:
        terminal.say_raw(lines)


def _write(path: Path, text: str, *, over: bool) -> None:
    if over:
        write_over(path, text.encode())
        return
    if os.path.lexists(path):
        raise BadInput(f"'{path}' exists: name a file that does not, or say --force to write over it")
    write_new(path, text.encode())


def _plain(task: Task) -> dict[str, object]:
    """Return a task as `tasks add` reads it."""
    plain: dict[str, object] = {
        "id": task.name, "prompt": task.prompt, "judge": json.loads(spec_json(task.judge)), "split": task.split,
    }  # fmt: skip
    if task.tags:
        plain["tags"] = list(task.tags)
    if task.files:
        plain["files"] = {file.path: file.content for file in task.files}
    return plain
