"""eval.yaml: the scenarios of skill-validator (dotnet/skills) and the stimuli of vally."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from skillopt_mcp.core import limits
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Judge
from skillopt_mcp.core.skills import MAIN_FILE
from skillopt_mcp.core.tasks import TaskFile
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.tasks.formats.cases import Case, EvalOptions, Evals, Loss, eval_format, read_case_file
from skillopt_mcp.tasks.formats.registry import show_path
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.judges.kinds.agent_output import OutputGrader
from skillopt_mcp.tasks.judges.kinds.combined import All, Weighted, WeightedJudge
from skillopt_mcp.tasks.judges.kinds.rubric import Rubric

_PLACES = tuple(f"{folder}{name}" for folder in ("", "evals/", "tests/") for name in ("eval.yaml", "eval.yml"))
_OF_EVENTS = frozenset({
    "expect_tools", "reject_tools", "max_turns", "max_tokens", "expect_skills", "reject_skills", "tool-calls",
    "tool-call-count", "skill-invocation", "system-event", "completed", "token-budget", "turn-count", "step-count",
    "error-count", "wall-time", "max-repeat", "loop-outcome", "transcript-contains", "transcript-not-contains",
    "transcript-matches", "transcript-not-matches", "assistant-contains-tool-output",
})  # fmt: skip


def _detect(_path: Path, value: object) -> bool:
    if not isinstance(value, Mapping) or "prompts" in value:
        return False
    rows = value.get("scenarios", value.get("stimuli"))
    return isinstance(rows, list) and any(isinstance(row, Mapping) and {"prompt", "turns"} & row.keys() for row in rows)


@eval_format("eval-yaml", _PLACES, _detect)
def read_eval_yaml(path: Path, value: Any, _how: EvalOptions) -> Evals:
    """Read scenarios or stimuli. What their owner's loader refuses refuses the file."""
    is_vally, cases = "scenarios" not in value, list[Case]()
    for n, row in enumerate(value.get("scenarios", value.get("stimuli")), 1):
        row = row if isinstance(row, Mapping) else {}
        name, lost = row.get("name"), list[Loss]()
        turns = row["turns"] if isinstance(row.get("turns"), list) else []
        texts = [each.get("prompt") if isinstance(each, Mapping) else each for each in turns]
        lost += [Loss("turns", "cannot be expressed", f"{len(texts)} turns")] if len(texts) > 1 else []
        prompt = row.get("prompt") or next(iter(texts), None)
        if not isinstance(name, str) or not name.strip() or not isinstance(prompt, str):
            raise BadInput(f"{show_path(path)} has no name or no prompt in its case {n}")
        where = f"{show_path(path)}, {quoted(name)}"
        if is_vally:
            judge = _read_graders(row, value.get("scoring"), lost)
            constraints = row.get("constraints")
            setups = [each for each in (value.get("environment"), row.get("environment")) if each]
        else:
            graders = [*_read_assertions(row.get("assertions"), where, lost), *_read_rubric(row.get("rubric"), lost)]
            judge = All(judges=graders) if len(graders) > 1 else next(iter(graders), None)
            constraints, setups = row, [row.get("setup")] if row.get("setup") else []
        limited = constraints if isinstance(constraints, Mapping) else {}
        lost += [Loss(limit, "needs events") for limit in _OF_EVENTS if limited.get(limit) not in (None, [])]
        files = {file.path: file for setup in setups for file in _read_setup(path, setup, lost)}
        cases.append(
            Case(name, prompt, judge, tuple(files.values()), lost=tuple(sorted(lost, key=lambda each: each.what)))
        )
    return Evals("eval-yaml", cases)


def _read_rubric(rubric: object, lost: list[Loss]) -> list[Judge]:
    points = [each for each in rubric if isinstance(each, str) and each.strip()] if isinstance(rubric, list) else []
    if rubric and (not isinstance(rubric, list) or len(points) < len(rubric)):
        lost.append(Loss("rubric", "cannot be expressed", "a point is no text"))
    return [Rubric(points=list(map(storable, points)))] if points else []


def _make_output_grader(kind: str, value: object, lost: list[Loss], *, case_sensitive: bool = False) -> list[Judge]:
    """The judge of a grader of the output, or none where it is lost."""
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise BadInput("its value is no text: put it in quotes")
        own = {"grader": kind, "value": storable(str(value or "")), "case_sensitive": case_sensitive}
        return [parse_judge({"kind": "agent_output", **own})]
    except BadInput as error:
        lost.append(Loss(kind, "cannot be expressed", str(error)))
        return []


def _read_assertions(assertions: object, where: str, lost: list[Loss]) -> Iterator[Judge]:
    for each in assertions if isinstance(assertions, list) else ():
        kind = each.get("type") if isinstance(each, Mapping) else None
        if kind in ("file_exists", "file_not_exists", "file_contains", "file_not_contains"):
            lost.append(Loss(str(kind), "needs files"))
        elif kind in get_args(OutputGrader) and "_" in str(kind):
            field = "pattern" if str(kind).endswith("matches") else "value"
            value = each.get(field) if kind != "exit_success" else ""
            if kind != "exit_success" and not str(value or "").strip():
                raise BadInput(f"{where}: {kind} has no {field}")
            yield from _make_output_grader(str(kind), value, lost)
        else:
            raise BadInput(f"{where}: unknown assertion type {quoted(str(kind))}")


def _read_graders(row: Mapping[str, Any], scoring: object, lost: list[Loss]) -> Judge | None:
    """The judge of vally's graders: all of them pass, or their mean reaches the threshold."""
    judges = list[Judge]()
    graders = row.get("graders")
    for each in graders if isinstance(graders, list) else ():
        kind = str(each.get("type")) if isinstance(each, Mapping) else ""
        config = each["config"] if kind and isinstance(each.get("config"), Mapping) else {}
        name = each["name"] if kind and isinstance(each.get("name"), str) else kind
        found = list[Loss]()
        if kind in get_args(OutputGrader) and "-" in kind:
            value = config.get("pattern") if kind.endswith("matches") else config.get("substring", config.get("value"))
            if kind != "exit-success" and value in (None, ""):
                found.append(Loss(name, "says nothing", "its value is missing", decides=False))
            else:
                if config.get("negate") is True and "-not-" not in kind:
                    kind = kind.replace("output-", "output-not-")
                is_sensitive = config.get("case_sensitive") is True
                judges += _make_output_grader(kind, value, found, case_sensitive=is_sensitive)
        elif kind in ("prompt", "panel"):
            points = _read_rubric(row.get("rubric"), found)
            judges += points
            found += [] if points else [Loss(name, "cannot be expressed", "the stimulus has no rubric")]
        elif kind == "pairwise":
            found.append(Loss(name, "cannot be expressed", "it compares two attempts", decides=False))
        elif kind in _OF_EVENTS:
            found.append(Loss(name, "needs events"))
        elif kind.startswith(("file-", "diff-")):
            found.append(Loss(name, "needs files"))
        else:
            found.append(Loss(name or "grader", "runs code"))
        lost += [replace(one, what=name) for one in found]
    threshold = scoring.get("threshold") if isinstance(scoring, Mapping) else None
    if isinstance(scoring, Mapping) and scoring.get("weights"):
        lost.append(Loss("scoring", "cannot be expressed", "weights of graders"))
    if len(judges) > 1 and isinstance(threshold, int | float) and 0 < threshold < 1:
        return Weighted(judges=[WeightedJudge(judge=each) for each in judges], threshold=float(threshold))
    return All(judges=judges) if len(judges) > 1 else next(iter(judges), None)


def _read_setup(path: Path, setup: object, lost: list[Loss]) -> Iterator[TaskFile]:
    """The files that are put into the working folder; commands are lost, and so is what else is set up."""
    if not isinstance(setup, Mapping):
        lost.append(Loss("environment", "cannot be expressed", "it stands in another file"))
        return
    lost += [Loss("commands", "runs code")] if setup.get("commands") else []
    others = set(map(str, setup)) - {"commands", "files", "skills", "copy_test_files"}
    lost += [Loss(f"environment.{name}", "cannot be expressed") for name in sorted(others) if setup.get(name)]
    skill, named = path.parent.parent, setup.get("files")
    wanted = [each for each in named if isinstance(each, Mapping)] if isinstance(named, list) else []
    if setup.get("copy_test_files") is True:
        wanted = [{"path": name, "src": name} for name in _list_files(path.parent) if name != path.name] + wanted
    for each in wanted:
        place, source, root = each.get("dest", each.get("path")), each.get("src"), path.parent
        if source is None:
            # skill-validator starts at the skill, whose evals may stand in its folder tests/.
            source, root = each.get("source"), skill if (skill / MAIN_FILE).is_file() else root
        if not isinstance(place, str) or place.startswith(("/", "~")) or ".." in place.split("/") or "\\" in place:
            lost.append(Loss(str(place), "needs files", "its path leads out of the working folder"))
        elif isinstance(content := each.get("content"), str):
            yield TaskFile(storable(os.path.normpath(place)), storable(content))
        elif not isinstance(source, str):
            lost.append(Loss(place, "needs files", "it has no content"))
        else:
            is_folder = ".." not in source.split("/") and "\0" not in source and (root / source).is_dir()
            for name in _list_files(root / source) if is_folder else [""]:
                found = read_case_file(root, os.path.join(source, name) if name else source, path.parent)
                if isinstance(found, Loss):
                    lost.append(found)
                elif found:
                    yield TaskFile(storable(os.path.normpath(os.path.join(place, name))), found.content)


def _list_files(folder: Path) -> list[str]:
    """The files below a folder, as many as a skill may have."""
    found = (os.path.relpath(os.path.join(base, name), folder) for base, _, names in os.walk(folder) for name in names)
    return sorted(islice(found, limits.SKILL_FILES))
