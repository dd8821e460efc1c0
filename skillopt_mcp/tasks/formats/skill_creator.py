"""skill-creator: `evals/evals.json`, prompts with points for a model to judge, in the shapes that are in use."""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt_mcp.core import limits
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.skills import MAIN_FILE
from skillopt_mcp.core.tasks import Task, TaskFile
from skillopt_mcp.core.text import quoted
from skillopt_mcp.tasks.formats.cases import Case, EvalOptions, Evals, Loss, Reason, decode, eval_format, read_case_file
from skillopt_mcp.tasks.judges.kinds.rubric import Rubric

SUFFIXES = (".json", ".jsonl")
PROMPTS = ("prompt", "query", "input", "user_prompt", "task", "text")
POINTS = ("expectations", "assertions", "expected_behavior", "expected_behaviors", "success_criteria", "checks")
_LISTS = ("evals", "test_cases", "cases", "tests")
_NAMES = ("id", "name", "eval_name", "description")
_OUTPUTS = ("expected_output", "expected_outcome", "expected_response")
_TEXTS = ("text", "description", "assertion", "expectation", "criterion", "statement", "check")
TRIGGERS = (
    "should_trigger", "shouldTrigger", "should_activate", "should_invoke", "should_use", "expected_trigger", "trigger",
)  # fmt: skip
# What says about a case, or of a point, neither what is asked nor how an answer is judged.
_ABOUT = frozenset([
    *_NAMES, "title", "tags", "category", "area", "family", "group", "type", "kind", "domain", "language", "difficulty",
    "level", "priority", "severity", "source", "author", "date", "created", "updated", "version", "skill", "skill_name",
    "note", "notes", "comment", "comments", "rationale", "reason", "why", "explanation", "passed", "evidence",
])  # fmt: skip
_OF_ALL = (*POINTS, "assert", "rubric", "graders", "scorers", "setup")
_CODE = ("command", "commands", "script", "setup", "validation", "code", "test")
_BY_MODEL = re.compile(r"(?:llm|model|ai)?[-_ ]?(?:llm|model|rubric|judged?|graded|semantic|qualitative|quality)")


def find_text(row: Mapping[str, object], names: Sequence[str]) -> str:
    """The first of these fields of a row that holds a text, "" without one."""
    return next((text for name in names if isinstance(text := row.get(name), str) and text.strip()), "")


def find_field(row: Mapping[str, object], names: Sequence[str]) -> str:
    """The first of these fields that a row has, whatever it holds but nothing, "" without one."""
    return next((name for name in names if row.get(name) not in (None, [])), "")


def find_rows(value: object, *lists: str) -> list[Mapping[str, object]]:
    """The rows of a file: of a list, or of the first of these lists in an object; what is no object is a prompt."""
    if isinstance(value, Mapping):
        value = next((value[name] for name in lists if isinstance(value.get(name), list)), None)
    return [row if isinstance(row, Mapping) else {"prompt": row} for row in value] if isinstance(value, list) else []


def find_id(row: Mapping[str, object]) -> str:
    """The id of a row, which may be a number, or what else it is called; "" without one that fits."""
    named = (str(each).strip() for each in map(row.get, _NAMES) if isinstance(each, str | int))
    return next((each for each in named if 0 < len(each) <= limits.NAME_CHARACTERS), "")


def is_trigger_set(rows: Sequence[Mapping[str, object]]) -> bool:
    """Whether most rows ask whether the skill opens, and none has points for a model."""
    asked = sum(isinstance(row.get(find_field(row, TRIGGERS)), bool) or TRIGGERS[0] in row for row in rows)
    return 2 * asked > len(rows) and not any(find_field(row, POINTS) for row in rows)


def _is_evals(path: Path, value: object) -> bool:
    rows = find_rows(value, *_LISTS)
    is_named = isinstance(value, Mapping) and isinstance(value.get("evals"), list)
    asked = [row for row in rows if find_text(row, PROMPTS) and (is_named or find_field(row, (*POINTS, *_OUTPUTS)))]
    return path.suffix in SUFFIXES and not is_trigger_set(rows) and (bool(asked) or (is_named and not rows))


def _write_evals(tasks: Sequence[Task], path: Path) -> dict[Path, str]:
    """Write tasks whose judges are points, with files in the skill's folder. Raises BadInput naming the others."""
    place = path if path.suffix else path / "evals" / "evals.json"
    rows, written, bad = list[dict[str, object]](), dict[Path, str](), list[str]()
    for task in tasks:
        points, files = task.judge.points if isinstance(task.judge, Rubric) else [], [file.path for file in task.files]
        texts = [written.setdefault(_skill_folder(place) / file.path, file.content) for file in task.files]
        if not points or task.judge != Rubric(points=points) or texts != [file.content for file in task.files]:
            bad.append(task.name)
        id = int(task.name[:9]) if task.name[:9].isdecimal() else ""
        rows.append({
            "id": id if str(id) == task.name else task.name, "prompt": task.prompt, "expected_output": "",
            "files": files, "expectations": points, "tags": list(task.tags),
        })  # fmt: skip
    if bad:
        named = ", ".join(map(quoted, bad))
        raise BadInput(f"skill-creator has points for a model, and one file of a name: leave out {named}")
    text = json.dumps({"skill_name": tasks[0].folder if tasks else "", "evals": rows}, ensure_ascii=False, indent=2)
    return {**written, place: f"{text}\n"}


@eval_format("skill-creator", ("evals/evals.json", "evals.json"), _is_evals, _write_evals)
def read_skill_creator(place: Path, value: Any, _: EvalOptions) -> Evals:
    """Read the cases of a file. Each expectation is a point; without any, the expected output is the only one."""
    rows, read = find_rows(value, *_LISTS), dict[str, TaskFile | Loss | None]()
    shared = {name: value[name] for name in _OF_ALL if value.get(name)} if isinstance(value, Mapping) else {}
    cases = [_read_case(place, row, read, shared) for row in rows]
    return Evals("skill-creator", cases, _count_results(place, {each.id for each in cases}))


def _lose_fields(row: Mapping[str, object], known: Collection[str]) -> list[Loss]:
    """Lose each field that could be a grader, or a part of what is asked: all but those known, and empty ones."""
    names = [str(name) for name, each in row.items() if name not in known and each not in (None, "", [], {})]
    return [
        Loss(name[:80], "runs code" if name in _CODE else "cannot be expressed", "no text says what it does")
        for name in names
    ]


def _read_case(
    place: Path, row: Mapping[str, object], read: dict[str, TaskFile | Loss | None], shared: Mapping[str, object]
) -> Case:
    lost, points, files = list[Loss](), dict[str, None](), dict[TaskFile, None]()
    for name, each in [(field, each) for field in POINTS for each in _as_list(row.get(field))]:
        fields = each if isinstance(each, Mapping) else {"text": each}
        text, kind = find_text(fields, _TEXTS), find_text(fields, ("type", "kind"))
        said = next((field for field in _TEXTS if fields.get(field) == text), "")
        unknown = _lose_fields(fields, {*_ABOUT, *_TEXTS[:-1], said})
        what = find_text(fields, ("name", "id")) or kind or next((one.what for one in unknown), name)
        if text and not unknown and (not kind or _BY_MODEL.fullmatch(kind.lower())):
            points[text] = None
        elif each is None or isinstance(each, str):
            lost.append(Loss(what, "says nothing", decides=False))
        else:
            reason: Reason = "runs code" if not fields.keys().isdisjoint(_CODE) else "cannot be expressed"
            lost.append(Loss(what[:80], reason, "no text says all that it asks"))
    if not points and not any(each.decides for each in lost):
        if output := find_text(row, _OUTPUTS):
            points[output] = None
        else:
            lost.append(Loss("expectations", "says nothing", "there are none, and no expected output"))
    asked = next((name for name in PROMPTS if row.get(name)), "")
    lost += _lose_fields(shared, ()) + _lose_fields(
        row, {*_ABOUT, *row.keys() & POINTS, *_OUTPUTS, *TRIGGERS, "files", asked}
    )
    if asked := find_field(row, TRIGGERS):
        lost.append(Loss(asked, "needs events", "whether the skill opens is asked by a trigger set of its own"))
    for path in _as_list(row.get("files")):
        named = os.path.normpath(path.strip()) if isinstance(path, str) else "?"
        if named not in read:
            read[named] = _read_file(place, named)
        if isinstance(found := read[named], Loss):
            lost.append(found)
        elif found:
            files[found] = None
    if not (prompt := find_text(row, PROMPTS)):
        lost.append(Loss("prompt", "cannot be expressed", "it is no text"))
    judge = Rubric(points=[*points]) if points else None
    tags = [each for name in ("category", "tags") for each in _as_list(row.get(name)) if isinstance(each, str) and each]
    return Case(find_id(row), prompt, judge, tuple(files), tuple(tags), lost=tuple(lost))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _skill_folder(place: Path) -> Path:
    folder = Path(os.path.abspath(place)).parent
    return folder.parent if folder.name == "evals" else folder


def _read_file(place: Path, path: str) -> TaskFile | Loss | None:
    """Read a file by its path from the skill's folder, that of the cases, or the repository's root; None: the skill."""
    folder, parts = _skill_folder(place), Path(path).parts
    if path == "." or parts[-1:] == (MAIN_FILE,) or parts[:1] == ("references",):
        return None
    roots = [folder, evals := Path(os.path.abspath(place)).parent]
    roots += [folder.parents[n - 1] for n in range(1, len(folder.parts)) if folder.parts[-n:] == parts[:n]]
    roots += [each for each in folder.parents if os.path.exists(each / ".git")][:1]
    root = next((each for each in roots if os.path.exists(each / path)), None)
    # What lies around evals right in a folder of the home folder, such as Downloads, is not theirs.
    is_own = folder.parent != Path(os.path.expanduser("~")) or (folder / MAIN_FILE).exists()
    near = folder if is_own else evals
    return read_case_file(root, path, near) if root else Loss(path, "needs files", "it is not there")


def _count_results(place: Path, ids: Collection[str]) -> dict[str, Counter[str]]:
    """The attempts of cases by benchmark.json, else grading.json, next to them or in a workspace."""
    folder, found = _skill_folder(place), defaultdict[str, Counter[str]](Counter)
    workspaces = [folder.parent / f"{folder.name}-workspace", *folder.glob("*-workspace")]
    places = {folder, Path(os.path.abspath(place)).parent, *(path for each in workspaces for path in each.glob("*"))}
    benchmarks = [path for each in places if (path := each / "benchmark.json").exists()]
    for path in benchmarks or [path for each in workspaces for path in each.glob("*/eval-*/**/grading.json")]:
        try:
            value: Any = decode(path)
        except BadInput:
            continue
        if path.name == "grading.json":
            id = next(part for part in path.parts[::-1] if part.startswith("eval-")).removeprefix("eval-")
            value = [{"eval_id": id, "result": value.get("summary")}] if isinstance(value, Mapping) else []
        for run in find_rows(value, "runs"):
            result, id = run.get("result"), str(run.get("eval_id"))
            is_scored = isinstance(result, Mapping) and isinstance(result.get("pass_rate"), int | float)
            if id in ids:
                found[id].update(attempts=1, scored=is_scored, not_scored=not is_scored)
    return dict(found)
