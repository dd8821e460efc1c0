"""Tasks: list, add, review, check, export and remove what a skill is trained and tested on."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from skillopt_mcp.actions.evals import Tried, try_answers
from skillopt_mcp.actions.tasks import (
    Checked,
    Removed,
    add_file,
    add_tasks,
    check_file,
    check_stored,
    remove_tasks,
    review_removal,
)
from skillopt_mcp.admin.backup import write_new, write_over
from skillopt_mcp.cli.command import DRY_RUN, SKILL, YES, Arg, Capped, Command, Flag, WrongUsage, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.budgets import NO_CAPS
from skillopt_mcp.core.errors import BadInput, BadSkill, NotFound
from skillopt_mcp.core.notes import describe_note
from skillopt_mcp.core.results import TasksAdded
from skillopt_mcp.core.tasks import SPLITS
from skillopt_mcp.core.text import counted, on_line
from skillopt_mcp.tasks.formats.cases import EVAL_FORMATS, EvalOptions
from skillopt_mcp.tasks.formats.registry import FORMATS, join_names, read_rows, write_rows
from skillopt_mcp.tasks.formats.rows import make_row
from skillopt_mcp.tasks.judges.checking import Problem
from skillopt_mcp.tasks.judges.judging import kinds, n_votes
from skillopt_mcp.tasks.judges.kinds.combined import Partial
from skillopt_mcp.training.settings.reading import SplitPlan, split_plan
from skillopt_mcp.workspace.linting import folder_of
from skillopt_mcp.workspace.workspace import Workspace

if TYPE_CHECKING:
    from skillopt_mcp.actions.judge_checks import JudgeAgreement
    from skillopt_mcp.cli.spending import Planned

STDIN = "-"
_SEALED = "test tasks are not shown to agents: run it in a terminal of your own"
# What `tasks check` calls a problem, too.
_PROBLEMS = frozenset(get_args(Problem)) - {"alike"}
_FORMATS = join_names([each.name for each in FORMATS])
_EVALS = ", ".join(sorted(each.name for each in EVAL_FORMATS))
_WRITABLE = ", ".join(sorted(each.name for each in EVAL_FORMATS if each.write))
_SHOWN = 5
_ROWS = f"""a row of FILE (it needs prompt and judge, or question and answers; the columns of a CSV have these names):
  {{"id": "q1", "prompt": "What is 2 + 5?", "judge": {{"kind": "exact", "expected": "7"}}, "split": "val"}}

judge kinds:
  {", ".join(kinds())}

evals of other tools, found by content in a file or folder:
  {_EVALS}

Rows without a split join the one that is furthest below its share: 1:0:2, or what --split-mode ratio says."""


@command("tasks list", example="tasks list my-skill", needs_store=True)
class ListTasks(Command):
    """List the tasks of a skill."""

    skill: Annotated[str, Arg(SKILL)]
    all: Annotated[bool, Flag("removed ones, too")] = False

    def run(self, terminal: Terminal) -> dict[str, Any]:
        with terminal.workspace() as workspace:
            skill, store = workspace.place.find_kept(self.skill), workspace.store
            tasks = store.tasks.list_tasks(skill.id) if self.all else store.tasks.list_in_use(skill.id)
            removed = store.retirements.list_retired(skill.id)
        self._path, self._n_removed = skill.path, len(removed)
        splits = Counter(task.split for task in tasks if task.id not in removed)
        # Counted, and shown to a person alone.
        self._n_sealed = 0 if terminal.sees_held_out else splits["test"]
        rows = []
        for task in (each for each in tasks if terminal.sees_held_out or each.split != "test"):
            row = make_row(task)
            if gone := removed.get(task.id):
                row["removed"] = {"at": gone.at, "reason": gone.reason}
            rows.append(row)
        return {"skill": skill.name, "splits": {split: splits[split] for split in SPLITS}, "tasks": rows}

    def show(self, result: dict[str, Any], terminal: Terminal) -> None:
        rows = [
            (
                row["id"], f"{row['split']}, removed" if "removed" in row else row["split"], row["judge"]["kind"],
                " ".join(row.get("tags", ())), " ".join(row["prompt"].split()),
            )
            for row in sorted(result["tasks"], key=lambda row: SPLITS.index(row["split"]))
        ]  # fmt: skip
        if rows:
            terminal.table(("id", "split", "judge", "tags", "prompt"), rows, n_long=2)
        kinds = Counter(row["judge"]["kind"] for row in result["tasks"] if "removed" not in row)
        judges = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()) or "none"
        shares = ", ".join(f"{n} {split}" for split, n in result["splits"].items())
        n = counted(sum(result["splits"].values()), "task")
        terminal.note(f"{n} of {result['skill']} ({self._path}): {shares}; judges: {judges}.")
        if self._n_sealed:
            terminal.note(f"{counted(self._n_sealed, 'test task')} not shown: run it in a terminal of your own.")
        if self._n_removed and not self.all:
            terminal.note(f"{self._n_removed} removed: see them with --all.")


@command("tasks export", example="tasks export my-skill tasks.jsonl", needs_store=True, is_persons=True)
class ExportTasks(Command):
    """Write the tasks of a skill in the format of a file's suffix (default: JSON lines), or of another tool."""

    skill: Annotated[str, Arg(SKILL)]
    file: Annotated[str | None, Arg("where to write (default: the terminal)")] = None
    format: Annotated[str, Flag(f"evals of another tool, {_WRITABLE}; FILE may be a folder then", "NAME")] = ""
    force: Annotated[bool, Flag("write over FILE where it exists")] = False

    def run(self, terminal: Terminal) -> dict[str, Any]:
        form = next((each for each in EVAL_FORMATS if self.format and each.name == self.format), None)
        if self.format and not (form and form.write and self.file):
            raise WrongUsage(f"--format takes {_WRITABLE}, and needs FILE")
        with terminal.workspace() as workspace:
            skill = workspace.place.find_kept(self.skill)
            tasks = workspace.store.tasks.list_in_use(skill.id)
        if any(task.split == "test" for task in tasks):
            terminal.require_viewer("tasks export", self.file)
        rows = [make_row(task) for task in tasks]
        if not self.file:
            return {"skill": skill.name, "tasks": rows}
        path = Path(self.file).expanduser()
        if form and form.write:
            if in_part := [task.name for task in tasks if isinstance(task.judge, Partial)]:
                raise BadInput(
                    f"{', '.join(in_part[:_SHOWN])}: judged in part, which {form.name} cannot say: remove them"
                )
            contents = form.write(tasks, path)
        else:
            contents = {path: write_rows(rows, path.suffix)}
        if there := [each for each in contents if os.path.lexists(each) and not self.force]:
            raise BadInput(f"'{there[0]}' exists: name another file, or write over it with --force")
        for place, text in contents.items():
            # An id may name a folder.
            if not Path(os.path.normpath(place)).is_relative_to(os.path.normpath(path)):
                raise BadInput(f"'{place}' lies outside of '{path}': give the task another id")
            if place != path:
                with suppress(OSError):
                    place.parent.mkdir(parents=True, exist_ok=True)
            (write_over if self.force else write_new)(place, text.encode())
        return {"skill": skill.name, "n_tasks": len(rows), "file": self.file}

    def show(self, result: dict[str, Any], terminal: Terminal) -> None:
        if self.file:
            terminal.note(f"{counted(result['n_tasks'], 'task')} of {result['skill']} written to {self.file}.")
        else:
            terminal.raw(write_rows(result["tasks"]))


@dataclass(kw_only=True)
class _Rows(Command):
    """What add and check share: a skill, a file, and how its rows come into splits."""

    epilog = _ROWS
    skill: Annotated[str, Arg(SKILL)]
    file: Annotated[str | None, Arg(f"{_FORMATS} of tasks")]
    scorer: Annotated[str, Flag("how an inspect data set is scored, which does not say so", "NAME")] = ""
    partial: Annotated[bool, Flag("keep cases that lost a grader which could fail them; verdicts say how many")] = False
    events: Annotated[bool, Flag("keep graders of tool calls: the target records them (claude-code, codex)")] = False
    split_mode: Annotated[
        Literal["ratio", "split_dir"] | None,
        Flag("ratio: draw the splits by --ratio; split_dir: FILE is a folder of train, val and test"),
    ] = None
    ratio: Annotated[str | None, Flag("shares of train, val and test, with --split-mode ratio (2:1:7)", "A:B:C")] = None
    seed: Annotated[int | None, Flag("seed of that draw (42)")] = None

    def how(self) -> SplitPlan | EvalOptions:
        """How the file is read: by a plan of splits, where one was given, or as what it is. Raises WrongUsage."""
        is_drawn = self.ratio is not None or self.seed is not None
        if is_drawn and self.split_mode != "ratio":
            raise WrongUsage("--ratio and --seed need --split-mode ratio")
        if self.split_mode is None:
            return EvalOptions(self.scorer, self.events, self.partial)
        if self.file in (STDIN, None):
            raise WrongUsage("--split-mode needs a file or a folder")
        return split_plan(self.split_mode, self.ratio, self.seed)


@command("tasks add", example="tasks add my-skill tasks.jsonl")
class AddTasks(_Rows):
    """Add tasks, or questions with answers, from a file."""

    file: Annotated[str, Arg(f"{_FORMATS} of tasks; - reads standard input")]

    def run(self, terminal: Terminal) -> TasksAdded:
        how = self.how()
        with terminal.workspace() as workspace:
            if self.file == STDIN:
                return add_tasks(workspace.store, workspace.place, self.skill, read_rows(sys.stdin.buffer))
            return add_file(workspace.store, workspace.place, self.skill, Path(self.file).expanduser(), how)

    def show(self, result: TasksAdded, terminal: Terminal) -> None:
        if result.evals:
            terminal.say(on_line(f"{result.evals}."))
        terminal.say(f"{result.added} added, {result.duplicates} duplicates; {_describe_splits(result)}.")
        for line in _by_reason((f"{each.index + 1}", each.reason) for each in result.rejected):
            terminal.note(f"error: {line}")
        if more := result.n_rejected - len(result.rejected):
            terminal.note(f"error: {counted(more, 'more task')} were rejected")
        for note in result.notes:
            terminal.note(f"{'error' if note.code in _PROBLEMS else 'note'}: {describe_note(note)}")

    def exit_code(self, result: TasksAdded) -> int:
        # Other tools' evals are taken as they are.
        is_faulty = not result.evals and any(note.code in _PROBLEMS for note in result.notes)
        return int(bool(result.rejected) or is_faulty)


@command("tasks check", example="tasks check my-skill tasks.jsonl")
class CheckTasks(_Rows, Capped):
    """Check stored tasks, or a file before it is added; with --judge, also how often a judge model is right."""

    file: Annotated[str | None, Arg("a file of tasks (default: the stored tasks)")] = None
    answers: Annotated[
        str | None, Flag('with --judge: a file with {"case": id, "answer": text, "passes": bool} in each line', "FILE")
    ] = None
    yes: Annotated[bool, YES] = False
    dry_run: Annotated[bool, DRY_RUN] = False

    def run(self, terminal: Terminal) -> Checked:
        if not self.judge and (self.answers or self.dry_run or self.caps != NO_CAPS):
            raise WrongUsage("--answers, --dry-run and caps need --judge: nothing else asks a model")
        self._planned: Planned | None = None
        self._judged: JudgeAgreement | None = None
        with terminal.workspace(judge=self.judge, caps=self.caps) as workspace:
            found = self._check(terminal, workspace)
            if self.judge and not (found.evals and found.evals.refused):
                self._measure(terminal, workspace)
        return found

    def _measure(self, terminal: Terminal, workspace: Workspace) -> None:
        # What asks models is not loaded where tasks are listed.
        from skillopt_mcp.actions.judge_checks import list_labelled, measure_judge, read_tasks  # noqa: PLC0415
        from skillopt_mcp.cli.spending import Spending  # noqa: PLC0415

        store, place, skill = workspace.store, workspace.place, None
        with suppress(NotFound, BadSkill):
            skill = place.find_recorded(self.skill)
        if self.file is not None:
            tasks = read_tasks(store, place, Path(self.file).expanduser(), self.how())
        else:
            in_use = store.tasks.list_in_use(skill.id) if skill else []
            tasks = [task for task in in_use if terminal.sees_held_out or task.split != "test"]
        labelled = list_labelled(store, skill, tasks, Path(self.answers).expanduser() if self.answers else None)
        spending = Spending(yes=self.yes, dry_run=self.dry_run)
        spending.name_models(terminal, workspace.models)
        most, fewest = (sum(n_votes(each.task, fewest=fewest) for each, _ in labelled) for fewest in (False, True))
        text = f"{counted(len(labelled), 'labelled answer')}: {fewest} to {most} judge calls."
        self._planned = spending.agree(terminal, workspace, {"judge": most}, text)
        if not self._planned:
            self._judged = measure_judge(store, workspace.models, place, labelled)

    def _check(self, terminal: Terminal, workspace: Workspace) -> Checked:
        how = self.how()
        # Only a file of tasks for a skill that is given by its path can be checked without a store.
        if self.file is None or folder_of(self.skill) is None:
            terminal.require_store()
        if self.file is not None:
            return check_file(workspace.store, workspace.place, self.skill, Path(self.file).expanduser(), how)
        found = check_stored(workspace.store, workspace.place, self.skill)
        if terminal.sees_held_out:
            return found
        # A reason may quote what a judge expects.
        in_use = workspace.store.tasks.list_in_use(workspace.place.find_kept(self.skill).id)
        sealed = {task.name: {"reason": _SEALED} for task in in_use if task.split == "test"}
        shown = [each.model_copy(update=sealed.get(each.id)) for each in found.problems]
        return found.model_copy(update={"problems": shown})

    def as_json(self, result: Checked) -> dict[str, Any]:
        evals = result.evals.model_dump(mode="json", exclude_none=True) if result.evals else {}
        judged = {"judge": found.model_dump(mode="json")} if (found := self._judged or self._planned) else {}
        return evals | result.model_dump(mode="json", exclude={"evals"}) | judged

    def show(self, result: Checked, terminal: Terminal) -> None:
        for case in result.evals.cases if result.evals else ():
            if case.lost or not case.kept:
                terminal.note(on_line(f"{case.id}: {'kept' if case.kept else 'not kept'}: {case.describe_lost()}"))
        if result.evals:
            terminal.say(on_line(f"{result.evals.describe(Path(self.file or '').name)}."))
        for line in _by_reason((each.task, each.reason) for each in result.problems):
            terminal.note(f"error: {line}")
        for note in result.notes:
            terminal.note(f"note: {describe_note(note)}")
        terminal.say(f"{counted(result.n_tasks, 'task')}, {counted(len(result.problems), 'problem')}.")
        if self._planned:
            self._planned.show(terminal)
        if found := self._judged:
            for each in found.disagreements:
                terminal.note(
                    on_line(f"{each.case}: {'passes' if each.passes else 'fails'}, and should not: {each.why}")
                )
            terminal.say(
                f"The judge agrees on {found.agree} of {counted(found.n, 'labelled answer')}: {found.false_passes} "
                f"passed that should fail, {found.false_fails} failed that should pass, {found.unscored} had no score. "
                f"Used in all: {found.used}."
            )

    def exit_code(self, result: Checked) -> int:
        return int(not result.evals.cases) if result.evals else int(bool(result.problems))


@command("tasks try", example="tasks try my-skill evals/ --answers answers.jsonl")
class TryTasks(Command):
    """Judge given answers by the cases or tasks of a file. No model is asked, and no program runs."""

    skill: Annotated[str, Arg(SKILL)]
    file: Annotated[str, Arg("a file of tasks, or the evals of another tool")]
    answers: Annotated[str, Flag('a file with {"case": id, "answer": text} in each line', "FILE")]
    scorer: Annotated[str, Flag("how an inspect data set is scored, which does not say so", "NAME")] = ""

    def run(self, terminal: Terminal) -> dict[str, list[Tried]]:
        path, answers = Path(self.file).expanduser(), Path(self.answers).expanduser()
        return {"results": try_answers(path, answers, EvalOptions(self.scorer))}

    def show(self, result: dict[str, list[Tried]], terminal: Terminal) -> None:
        for each in result["results"]:
            word = {True: "passes", False: "fails", None: "not judged"}[each.passes]
            terminal.say(on_line(f"{each.case}: {word}: {each.why}"))


@command(
    "tasks remove", example="tasks remove my-skill q1 --reason 'wrong answer key'", needs_store=True, is_persons=True
)
class RemoveTasks(Command):
    """Take tasks with a wrong answer key out of use, for good; corrected ones may have their ids.

    What has begun keeps them, and no verdict changes. Removing what a candidate has failed would cheat its test.
    """

    skill: Annotated[str, Arg(SKILL)]
    ids: Annotated[tuple[str, ...], Arg("the id of a task, as 'tasks list' shows it", "ID")]
    reason: Annotated[str, Flag("what is wrong with them, for the record", "TEXT")] = ""
    yes: Annotated[bool, YES] = False

    def run(self, terminal: Terminal) -> Removed:
        with terminal.workspace() as workspace:
            review = review_removal(workspace.store, workspace.place, self.skill, self.ids)
            if review.rows:
                rows = [
                    (row.id, row.split, str(row.n_tests), " ".join(row.prompt.split()))
                    for row in review.rows
                    if terminal.sees_held_out or row.split != "test"
                ]
                terminal.table(("id", "split", "tests", "prompt"), rows)
                if review.n_held_out:
                    n_drawn = f"promotion tests have drawn {review.n_drawn} of them"
                    terminal.note(f"warning: {review.n_held_out} are held out, and {n_drawn}. It stays on record.")
                terminal.ask(f"Remove {counted(len(review.rows), 'task')} of {review.skill} for good?", yes=self.yes)
            return remove_tasks(workspace.store, workspace.place, self.skill, self.ids, self.reason)

    def show(self, result: Removed, terminal: Terminal) -> None:
        before = f", {len(result.already)} were before" if result.already else ""
        terminal.say(f"{counted(len(result.removed), 'task')} removed{before}; {_describe_splits(result)}.")


def _by_reason(problems: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield one line for each reason, with the tasks that have it; numbers of rows in a file as ranges."""
    tasks_of: dict[str, list[str]] = {}
    for task, reason in problems:
        tasks_of.setdefault(reason, []).append(task)
    for reason, tasks in tasks_of.items():
        named = []
        for _, run in groupby(enumerate(tasks), lambda at: int(at[1]) - at[0] if at[1].isdecimal() else at[1]):
            names = [name for _, name in run]
            named.append(names[0] if len(names) == 1 else f"{names[0]}-{names[-1]}")
        shown = ", ".join(named)
        yield on_line(f"task{'s' if len(tasks) > 1 else ''} {shown}: {reason}" if shown else reason)


def _describe_splits(result: TasksAdded | Removed) -> str:
    splits = result.splits
    return f"{result.skill} has {splits.train} train, {splits.val} val and {splits.test} test tasks"
