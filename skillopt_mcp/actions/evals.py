"""Evals: what is read of other tools' evals, and what their judges say of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Score
from skillopt_mcp.core.tasks import NewTask, Split
from skillopt_mcp.core.text import counted, quoted
from skillopt_mcp.tasks.formats.cases import Case, EvalOptions, decode, read_evals
from skillopt_mcp.tasks.formats.registry import join_names, list_suffixes, read_rows, show_path
from skillopt_mcp.tasks.formats.skillopt import parse_row, read_data_set
from skillopt_mcp.tasks.judges.judging import leaves, score
from skillopt_mcp.tasks.judges.kinds.rubric import Rubric
from skillopt_mcp.tasks.splits import default_name
from skillopt_mcp.training.settings.reading import SplitPlan

Plan = SplitPlan | EvalOptions
AS_THEY_ARE = EvalOptions()
_SHOWN = 3
ANSWERED, LABELLED = '{"case": id, "answer": text}', '{"case": id, "answer": text, "passes": true or false}'


class CaseRead(BaseModel):
    """A case as it was read: `prompt` as its file asks it, `rubric` the points that a model judges.

    `trigger`: whether the skill should open.
    """

    model_config = ConfigDict(frozen=True)
    id: str
    kept: bool
    prompt: str
    lost: list[dict[Literal["what", "why"], str]]
    rubric: list[str] | None = None
    files: list[str] | None = None
    split: Split | None = None
    trigger: bool | None = None

    def describe_lost(self) -> str:
        """What is lost of it, each with its reason."""
        return "; ".join(f"{each['what']}: {each['why']}" for each in self.lost) or "it has no grader"


class EvalsRead(BaseModel):
    """The cases of another tool's evals, in its owner's order; `results` are earlier ones that lie next to them.

    `by_model` and `by_machine` count the points of the cases that are kept. `refused`: why none could be taken.
    """

    model_config = ConfigDict(frozen=True)
    format: str
    cases: list[CaseRead]
    by_model: int = 0
    by_machine: int = 0
    results: dict[str, dict[str, int]] | None = None
    refused: str | None = None

    def describe(self, name: str) -> str:
        """The summary, in one sentence."""
        if self.refused:
            return f"{name} ({self.format}) is refused: {self.refused}"
        n_kept = sum(case.kept for case in self.cases)
        reasons = Counter(lost["why"].partition(":")[0] for case in self.cases for lost in case.lost)
        lost = f" (lost: {', '.join(f'{n} {reason}' for reason, n in reasons.most_common())})" if reasons else ""
        return (
            f"{name} ({self.format}): {counted(len(self.cases), 'case')}, {n_kept} kept{lost}; "
            f"{counted(self.by_model, 'point')} judged by a model, {self.by_machine} by machine"
        )

    def reject(self, reasons: Mapping[str | None, str]) -> EvalsRead:
        """The same, without the cases that cannot be tasks, by id."""
        updates = {name: {"kept": False, "lost": [{"what": "case", "why": why}]} for name, why in reasons.items()}
        return self.model_copy(update={"cases": [case.model_copy(update=updates.get(case.id)) for case in self.cases]})


def read_cases(path: Path, how: EvalOptions) -> tuple[list[NewTask], EvalsRead] | None:
    """Read the evals of a file or folder: the tasks of the cases that are kept, and all cases. None where it has none.

    Raises BadInput where the path cannot be read.
    """
    evals = read_evals(path, how)
    if evals is None:
        return None
    tasks, cases = list[NewTask](), list[CaseRead]()
    points = Counter[bool]()
    for case in evals.cases:
        task = None
        lost: list[dict[Literal["what", "why"], str]] = [{"what": each.what, "why": each.why} for each in case.lost]
        try:
            task = case.make_task(partial=how.partial)
        except BadInput as error:
            lost.append({"what": "case", "why": str(error)})
        graders = list(leaves(case.judge)) if case.judge else []
        rubrics = [each for each in graders if isinstance(each, Rubric)]
        if task:
            tasks.append(task)
            points[True] += sum(len(each.points) or 1 for each in rubrics)
            points[False] += len(graders) - len(rubrics)
        cases.append(CaseRead(
            id=case.id, kept=task is not None, prompt=case.asked or case.prompt, lost=lost, split=case.split,
            rubric=[point for each in rubrics for point in each.points or [each.rubric]] or None,
            files=[file.path for file in case.files] or None,
            trigger=next((each.model_dump()["expected"] for each in graders if each.kind == "opens"), None),
        ))  # fmt: skip
    return tasks, EvalsRead(
        format=evals.format, cases=cases, by_model=points[True], by_machine=points[False],
        results={name: dict(each) for name, each in evals.results.items()} or None, refused=evals.refused or None,
    )  # fmt: skip


def read_file(path: Path, how: Plan) -> tuple[list[object], EvalsRead | None]:
    """The rows of a file or folder, and what was read of it where it holds another tool's evals. Raises BadInput."""
    if isinstance(how, SplitPlan):
        return read_data_set(path, has_splits=how.mode == "split_dir"), None
    if found := read_cases(path, how):
        return list(found[0]), found[1]
    if path.is_dir():
        raise BadInput(
            f"{show_path(path)} is a folder without evals of a known format: name their file, "
            f"or a {join_names(list_suffixes())} file of tasks"
        )
    return read_data_set(path), None


class Tried(BaseModel):
    """What the judge of a case says of an answer; None where a model, a program or events would have to judge."""

    case: str
    passes: bool | None
    why: str


def read_answers(path: Path, names: Collection[str], *, has_labels: bool = False) -> Iterator[tuple[str, str, bool]]:
    """Read {"case": id, "answer": text} a line, with labels also {"passes": bool}. Raises BadInput naming the row."""
    rows = decode(path)
    for n, row in enumerate(rows if isinstance(rows, list) else [rows], 1):
        given = row if isinstance(row, dict) else {}
        name, answer, passes = str(given.get("case", given.get("task"))), given.get("answer"), given.get("passes")
        if name not in names or not isinstance(answer, str) or (has_labels and not isinstance(passes, bool)):
            shape, known = LABELLED if has_labels else ANSWERED, ", ".join(map(quoted, list(names)[:_SHOWN]))
            raise BadInput(f"{show_path(path)} row {n} is no {shape} of a case there, such as {known}")
        yield name, answer, passes is True


def try_answers(path: Path, answers: Path, how: EvalOptions) -> list[Tried]:
    """Judge given answers by the cases or tasks of a file, without a model or a program, in the order of the answers.

    `answers` holds one {"case": id, "answer": text} a line. A case that is not kept is judged by what is left of it.
    Raises BadInput where a file cannot be read, or an answer is of no case.
    """
    evals = read_evals(path, how)
    if evals and evals.refused:
        raise BadInput(evals.refused)
    tasks = [] if evals else [parse_row(row) for row in read_rows(path)]
    own = evals.cases if evals else [Case(default_name(task), task.prompt, task.judge) for task in tasks]
    cases = {each.id: each for each in own}
    found = list[Tried]()
    for name, answer, _ in read_answers(answers, cases):
        case = cases[name]
        outcome = score(case.judge, answer) if case.judge else None
        why = [outcome.reason] if outcome else ["no grader of it is left"]
        why += [f"not looked at: {each.what}: {each.why}" for each in case.lost]
        found.append(
            Tried(case=case.id, passes=outcome.hard if isinstance(outcome, Score) else None, why="; ".join(why))
        )
    return found
