"""`claude plugin eval`: folders of cases below `evals/`, their graders, and the results of earlier runs."""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import YAMLError

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Judge
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.text import quoted
from skillopt_mcp.tasks.formats.cases import Case, EvalOptions, Evals, Loss, Reason, eval_format, find_fault
from skillopt_mcp.tasks.formats.registry import read_text
from skillopt_mcp.tasks.judges.javascript import BadPattern
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.judges.kinds.combined import All, Weighted
from skillopt_mcp.tasks.judges.kinds.js_regex import JavaScriptRegex
from skillopt_mcp.tasks.judges.kinds.rubric import Rubric
from skillopt_mcp.tasks.judges.kinds.tool_called import ToolCalled, ToolOrder

_FILES, _SKIPPED = ("case.yaml", "prompt.md"), ("node_modules", ".claude", "results", "mocks")
_MAX_DEPTH, _MAX_ENTRIES, _MAX_GRADERS = 12, 50_000, 256
# The shapes of what the owner loads (`_fits`): a type, a pattern, a range, a list, an object, or one of several.
_COUNT, _TARGET = range(2**53), (r"trace|last_message|files|mock_calls", {"source": "file", "path": str})
_CALL = (str, {"tool": str, "input_match": str})
_TOP = {
    "schema_version": str, "name": "(?s).+", "description": str, "tags": [str], "plugins": [str], "runs": range(1, 51),
    "expected_outcome": str,
}  # fmt: skip
_EXECUTION = {
    "prompt": str, "model": str, "max_turns": range(1, 201), "timeout_seconds": range(1, 3601), "allowed_tools": [str],
    "disallowed_tools": [str], "artifact_publish": bool, "growthbook_overrides": dict, "append_system_prompt": str,
    "env": {...: str},
}  # fmt: skip
_CONTEXT = {"scaffold_script": str, "history_file": str, "add_dirs": [str]}
_GRADERS: dict[str, dict[str, object]] = {
    "regex": {"pattern": str, "target": _TARGET, "flags": "[dgimsuvy]*", "match": r"contains|not_contains|count:\d+"},
    "tool_used": {"tool": str, "input_match": str, "min": _COUNT, "max": _COUNT},
    "tool_order": {"before": _CALL, "after": _CALL},
    "file_exists": {"path": str, "exists": bool},
    "llm": {"criteria": str, "focus": _TARGET},
    "baseline": {"criteria": str, "baseline_file": str},
}
_OPENED = ("tool_used", "Skill")
_ALL_GRADERS = {"type": str, "name": str, "weight": float, "arm": "with-only|both"}
_NEEDED = {"name", "pattern", "tool", "before", "after", "path", "criteria", "baseline_file"}
_BODY = {"regex": "pattern", "llm": "criteria", "baseline": "criteria"}
_NAMES = {"js_regex": "regex", "tool_called": "tool_used", "tool_order": "tool_order", "rubric": "llm"}


class _Yaml12(SafeConstructor):
    """The owner's YAML knows no dates."""


_Yaml12.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


def _find_cases(path: Path) -> Iterator[Path]:
    """The folders of cases: all below a folder `evals`, which may be a part of the path, none inside of another."""
    path = path.parent if path.name in _FILES else path
    root, seen, n_entries = path.resolve(), set[Path](), 0
    # A prompt.md of its own may be anything.
    is_inside = "evals" in root.parts or any((path / name).exists() for name in ("case.yaml", "graders"))
    for base, folders, names in os.walk(path, followlinks=True):
        folder, real = Path(base), Path(os.path.realpath(base))
        inner, n_entries = folder.relative_to(path).parts, n_entries + len(folders) + len(names)
        is_own = real.is_relative_to(root) and real not in seen
        is_case = is_own and (is_inside or "evals" in inner) and any((folder / name).is_file() for name in _FILES)
        if is_case:
            yield folder
        if n_entries >= _MAX_ENTRIES:
            return
        seen.add(real)
        goes_on = is_own and not is_case and len(inner) < _MAX_DEPTH
        folders[:] = sorted(name for name in folders if goes_on and name[0] != "." and name not in _SKIPPED)


def _detect(path: Path, value: object) -> bool:
    if path.is_dir():
        return any(True for _ in _find_cases(path))
    own = isinstance(value, Mapping) and not {"graders", "execution"}.isdisjoint(value)
    return path.name in _FILES and (own or path.name == "prompt.md" or (path.parent / "prompt.md").is_file())


def write_plugin_eval(tasks: Sequence[Task], path: Path) -> dict[Path, str]:
    """Write each task as a folder with a `case.yaml`. Raises BadInput naming a task that has no such graders."""
    root = path if "evals" in path.absolute().parts else path / "evals"
    written, taken = dict[Path, str](), set(_SKIPPED)
    for task in tasks:
        parts = [(each, 1.0) for each in (task.judge.judges if isinstance(task.judge, All) else [task.judge])]
        if isinstance(task.judge, Weighted) and task.judge.threshold == 1:
            parts = [(each.judge, each.weight) for each in task.judge.judges]
        rows = list[dict[str, Any]]()
        for at, (judge, weight) in enumerate(parts, 1):
            row: dict[str, Any] = {}
            if isinstance(judge, JavaScriptRegex | ToolOrder):
                row = judge.model_dump(exclude_defaults=True)
            elif isinstance(judge, ToolCalled) and not judge.arguments:
                row = judge.model_dump(exclude_defaults=True) | {"tool": judge.name, "arm": "both"}
            elif isinstance(judge, Rubric):
                mark = "- " if len(judge.points) > 1 else ""
                row = {"criteria": "\n".join(f"{mark}{each}" for each in judge.points)}
                row = row if judge == Rubric(points=_split_points(row["criteria"])) else {}
            if not row or task.files:
                why = "asked with files" if task.files else f"judged by {judge.kind}"
                raise BadInput(f"the task {quoted(task.name)} is {why}, which claude plugin eval cannot say")
            name = _NAMES[judge.kind]
            rows.append(row | {"type": name, "name": f"{name}-{at}", "weight": weight})
            rows[-1].pop("kind", None)
        slug = re.sub(r"[^\w-]+", "-", task.name).strip("-")[:60] or "case"
        slug = next(each for n in count(1) if (each := f"{slug}-{n}" if n > 1 else slug).lower() not in taken)
        taken.add(slug.lower())
        lines = [
            'schema_version: "1.1"', f"name: {_write(task.name)}", f"tags: {_write(task.tags)}", "execution:",
            f"  prompt: {_write(task.prompt)}", "graders:", *(f"  - {_write(row)}" for row in rows),
        ]  # fmt: skip
        written[root / slug / "case.yaml"] = "\n".join(lines) + "\n"
    return written


def _write(value: object) -> str:
    """A value as JSON that is YAML, too."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", text)


@eval_format("plugin-eval", (".",), _detect, write_plugin_eval)
def read_plugin_eval(path: Path, value: object, how: EvalOptions) -> Evals:
    """Read the cases of a plugin, of its `evals`, of a group, or one; what its owner does not load is lost by name."""
    folders = sorted(each.absolute() for each in _find_cases(path))
    cases = [_read_case(folder, how) for folder in folders]
    names = Counter(case.id for case in cases)
    # Two cases of one name have their paths as ids.
    ids = [
        case.id if names[case.id] < 2 else _label(each).removeprefix("evals/")
        for case, each in zip(cases, folders, strict=True)
    ]
    results = dict[str, dict[str, int]]()
    for root in dict.fromkeys(folder.parents[_label(folder).count("/") - 1] for folder in folders):
        rows = list[Mapping[str, Any]]()
        for newest in sorted(root.glob("results/*/aggregate-result.json"), reverse=True):
            with suppress(BadInput, ValueError, RecursionError):
                if rows := _read_list(json.loads(read_text(newest)), "cases"):
                    break
        for row in rows:
            runs = _read_list(row.get("arms"), "with")
            scored = sum(not run.get("error") and isinstance(run.get("score"), int | float) for run in runs)
            for case, folder, id in zip(cases, folders, ids, strict=True):
                is_own = names[case.id] < 2 or f"/{row.get('dir')}".endswith(f"/{_label(folder)}")
                if case.id == row.get("name") and is_own:
                    results[id] = {"attempts": len(runs), "scored": scored, "not_scored": len(runs) - scored}
    return Evals("plugin-eval", [replace(case, id=name) for case, name in zip(cases, ids, strict=True)], results)


def _read_list(value: object, key: str) -> list[Mapping[str, Any]]:
    rows = value.get(key) if isinstance(value, Mapping) else None
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _label(folder: Path) -> str:
    """The path of a case as its owner's messages have it: from the last folder `evals` on."""
    at = max((n for n, part in enumerate(folder.parts[:-1]) if part == "evals"), default=len(folder.parts) - 2)
    return "/".join(folder.parts[at:])


def _read_case(folder: Path, how: EvalOptions) -> Case:
    """Read one case. One that its owner does not load has a prompt at most."""
    spec: dict[str, Any] = {"name": folder.name}
    try:
        _load(folder, spec)
    except BadInput as error:
        prompt = (spec.get("execution") or {}).get("prompt", "")
        reason = Loss("case", "says nothing" if str(error) == "no grader" else "cannot be expressed", str(error))
        return Case(str(spec["name"]), prompt if isinstance(prompt, str) else "", lost=(reason,))
    lost, parts = list[Loss](), list[dict[str, Any]]()
    execution, graders = spec["execution"], spec["graders"]
    for key in _CONTEXT:
        if spec.get("context", {}).get(key):
            needed: Reason = "runs code" if key == "scaffold_script" else "needs files"
            lost.append(Loss(f"context.{key}", needed, "the case goes on from it"))
    for key in ("env", "append_system_prompt", "plugins"):
        if {**execution, **spec}.get(key):
            lost.append(Loss(key, "cannot be expressed", "it is set for the owner's runs alone", decides=False))
    # Indicators are not scored, but where all are some, they are the score.
    arms = [each.get("arm", "with-only" if (each["type"], each.get("tool")) == _OPENED else "both") for each in graders]
    for grader, arm in zip(graders, arms, strict=True):
        judge = _read_grader(grader, how)
        if arm == "with-only" and "both" in arms:
            why = "an indicator: its owner does not score it"
            lost.append(Loss(grader["name"], "says nothing", why, decides=False))
        elif isinstance(judge, Loss):
            lost.append(judge)
        else:
            parts.append({"judge": judge.model_dump(), "weight": grader.get("weight", 1)})
    found: Judge | None = None
    try:
        if parts:
            one = parts[0]["judge"] if len(parts) == 1 else {"kind": "weighted", "judges": parts, "threshold": 1.0}
            found = parse_judge(one)
    except BadInput as error:
        lost.append(Loss("graders", "cannot be expressed", str(error)))
    return Case(spec["name"], execution["prompt"], found, tags=tuple(spec.get("tags", ())), lost=tuple(lost))


def _read_grader(grader: Mapping[str, Any], how: EvalOptions) -> Judge | Loss:
    name, kind = grader["name"], grader["type"]
    target = grader.get("target", grader.get("focus", "last_message"))
    own = {key: value for key, value in grader.items() if key in _GRADERS[kind] and key not in ("target", "focus")}
    if kind in ("file_exists", "baseline") or target == "files" or isinstance(target, Mapping):
        return Loss(name, "needs files", "it looks at files that a run leaves")
    if target != "last_message":
        return Loss(name, "needs events", f"it looks at {target}")
    least, most = grader.get("min", 1), grader.get("max", math.inf)
    if most < least:
        return Loss(name, "cannot be expressed", f"max {most} without min {most} can never pass (min is {least})")
    if kind == "tool_used" and not least and most == math.inf:
        return Loss(name, "says nothing", "min 0 without max passes always", decides=False)
    try:
        if kind == "llm":
            own = {"points": _split_points(grader["criteria"])}
        elif kind == "tool_used":
            own["name"] = own.pop("tool")
        elif kind == "tool_order":
            own = {key: {"tool": each} if isinstance(each, str) else each for key, each in own.items()}
        judge = parse_judge({"kind": next(key for key in _NAMES if _NAMES[key] == kind), **own})
    except BadPattern:
        why = "the pattern is no regular expression (its owner counts that as failed, always)"
        return Loss(name, "cannot be expressed", why)
    except BadInput as error:
        return Loss(name, "cannot be expressed", str(error))
    if kind in ("tool_used", "tool_order") and not how.events:
        return Loss(name, "needs events", "it asks which tools were called")
    return judge


def _split_points(text: str) -> list[str]:
    """The items of a text that is a list and nothing else; else the text as one point."""
    items = list[str]()
    for line in text.strip().splitlines():
        if found := re.match(r"(?:[-*+]|\d+[.)])\s+", line):
            items.append(line[found.end() :].strip())
        elif items and (not line.strip() or line[0].isspace()):
            items[-1] += f" {line.strip()}" * bool(line.strip())
        else:
            return [text.strip()]
    return items


def _load(folder: Path, spec: dict[str, Any]) -> None:
    """Fill in the case of `case.yaml`, of `prompt.md` and `graders/*.md`, or of all, as its owner merges them."""
    label = _label(folder)
    own = _parse_yaml(_read(folder, "case.yaml"), f"{label}/case.yaml")
    own = {"schema_version": "1.1", "name": folder.name} if own is None else own
    front, body = _split_front_matter(folder, "prompt.md")
    front, prompt = front or {}, {"prompt": body.strip()} if body.strip() else {}
    execution = own["execution"] if isinstance(own.get("execution"), dict) else {}
    spec |= own | {key: front[key] for key in front if key in _TOP}
    spec["execution"] = {**execution, **{key: front[key] for key in front if key in _EXECUTION}, **prompt}
    if unknown := [key for key in front if key == "prompt" or key not in {*_TOP, *_EXECUTION}]:
        raise BadInput(f"unknown key {unknown[0]} in {label}/prompt.md")
    own_graders = own["graders"] if isinstance(own.get("graders"), list) else []
    graders: list[tuple[Any, str]] = [(row, f"{label}/case.yaml") for row in own_graders]
    for place in sorted((folder / "graders").glob("*.md"))[: _MAX_GRADERS + 1]:
        row, body = _split_front_matter(folder, f"graders/{place.name}")
        if row is not None:
            key = _BODY.get(str(row.get("type")))
            body_row = {key: body.strip()} if key and body.strip() else {}
            graders.append(({"name": place.stem, **body_row, **row}, f"{label}/graders/{place.name}"))
    for value, shape in ((spec, _TOP), (spec["execution"], _EXECUTION), (spec.get("context", {}), _CONTEXT)):
        _check(value, {**shape, ...: object}, label)
    version = re.match(r"\d+", str(spec.get("schema_version")))
    if not {"schema_version", "name"} <= spec.keys() or not version or int(version[0][:9]) > 1:
        raise BadInput(f"{label}/case.yaml has no name, or no schema_version of 1")
    if not spec["execution"].get("prompt", "").strip():
        raise BadInput(f"no prompt in {label}")
    if not graders:
        raise BadInput("no grader")
    for row, where in graders:
        kind = str(row.get("type")) if isinstance(row, dict) else ""
        if kind not in _GRADERS or len(graders) > _MAX_GRADERS:
            raise BadInput(f"no type of a grader in {where}, or more than {_MAX_GRADERS} graders")
        _check(row, {**_ALL_GRADERS, **_GRADERS[kind]}, where)
        if missing := [key for key in ("name", *_GRADERS[kind]) if key in _NEEDED and key not in row]:
            raise BadInput(f"no {missing[0]} in {where}")
    if twice := [each for each, n in Counter(row["name"] for row, _ in graders).items() if n > 1]:
        raise BadInput(f"two graders named {quoted(twice[0])} in {label}")
    spec["graders"] = [row for row, _ in graders]
    texts = [spec["execution"]["prompt"], *(str(row.get("criteria")) for row, _ in graders)]
    if re.search("TODO: describe what (?:the agent should do|a successful response looks like)", "\n".join(texts)):
        raise BadInput(f"{label} is a blank template with its TODO")


def _read(folder: Path, name: str) -> str:
    """The text of a file of a case, "" where there is none. Raises BadInput for one that lies elsewhere."""
    place, evals = folder / name, folder.parents[_label(folder).count("/") - 1]
    if not os.path.lexists(place):
        return ""
    try:
        fault = find_fault(place, evals if evals.name == "evals" else folder)
    except (OSError, RuntimeError) as error:  # a link to itself
        raise BadInput(f"{_label(folder)}/{name} cannot be read ({error})") from error
    if fault:
        raise BadInput(f"{_label(folder)}/{name} is not read: {fault}")
    return read_text(place)


def _split_front_matter(folder: Path, name: str) -> tuple[dict[str, Any] | None, str]:
    """The front matter of a file of a case, None where there is none, and what comes after it, as its owner cuts it."""
    text, where = _read(folder, name), f"{_label(folder)}/{name}"
    if found := re.match(r"---\s*\n(.*?)---\s*\n?", text, re.S):
        return _parse_yaml(found[1], where) or {}, text[found.end() :]
    if re.match(r"---\s*\n", text):
        raise BadInput(f"the front matter of {where} does not end")
    return None, text


def _parse_yaml(text: str, where: str) -> dict[str, Any] | None:
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Yaml12
    try:
        value = yaml.load(text)
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        raise BadInput(f"{where} is not YAML ({quoted(str(error).partition(chr(10))[0])})") from error
    if value is None or (isinstance(value, dict) and all(isinstance(key, str) for key in value)):
        return value
    raise BadInput(f"{where} is no object of YAML")


def _check(value: object, shape: Mapping[Any, Any], where: str) -> None:
    """Raise BadInput for a key of an object that its owner does not know, or that has not the shape."""
    for key, each in value.items() if isinstance(value, dict) else [("context", value)]:
        if key not in shape and ... not in shape:
            raise BadInput(f"unknown key {key} in {where}")
        if not isinstance(value, dict) or not _fits(each, shape.get(key, object)):
            raise BadInput(f"the value of {key} is not as its owner wants it in {where}")


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, tuple):
        return any(_fits(value, each) for each in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(each, shape[0]) for each in value)
    if isinstance(shape, dict):
        fits = isinstance(value, dict) and all(_fits(value[key], shape.get(key, shape.get(...))) for key in value)
        return fits and (... in shape or next(iter(shape)) in value)
    if isinstance(shape, str):
        return isinstance(value, str) and re.fullmatch(shape, value, re.ASCII) is not None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(shape, range):
        return is_number and value in shape
    if shape is float:
        return is_number and 0 < value < math.inf
    return shape is not None and isinstance(value, shape)
