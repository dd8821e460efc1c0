"""promptfoo: its configuration, whose prompts, variables and assertions make the cases."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice, product
from math import isfinite, prod
from pathlib import Path
from typing import Any, TypeGuard

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Judge
from skillopt_mcp.core.skills import MAIN_FILE
from skillopt_mcp.core.tasks import Task, TaskFile
from skillopt_mcp.core.text import quoted
from skillopt_mcp.tasks.formats.cases import (
    Case,
    EvalOptions,
    Evals,
    Loss,
    Reason,
    decode,
    eval_format,
    find_root,
    read_case_file,
)
from skillopt_mcp.tasks.formats.registry import show_path
from skillopt_mcp.tasks.judges.kinds.assertion import (
    BLANKS,
    TYPES,
    Assertion,
    AssertionPart,
    AssertionSet,
    parse_json,
    show_value,
)  # fmt: skip
from skillopt_mcp.tasks.judges.kinds.rubric import MAX_POINTS, MAX_RUBRIC_CHARS, Rubric

MAX_VALUES, MAX_DEPTH, MAX_CASES, MAX_CHARS = 200_000, 60, 5_000, 1_000_000
_DATA = (".json", ".yaml", ".yml")
_CONFIGS = [f"promptfooconfig.{end}" for end in ("yaml", "yml", "json", "js", "cjs", "mjs", "ts", "cts", "mts")]
_CODE = re.compile(r"^(?:exec|package):|\.(?:[cm]?[jt]s|py|rb|sh|bash|exe|bat|cmd|ps1|pl|go)(?::[^/]*)?$")
# A prompt that ends so, or looks like a path, is a file for promptfoo.
_FILE = re.compile(r"file://.*|.*[*/\\].*|.*\.(?:..|...)|.*\.(?:[cm]?[jt]s|j2|jsonl?|md|py|txt|ya?ml)(?::[^:]*)?", re.S)
_TAG = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_OPEN = re.compile(r"\{[{%#][^\n]{0,40}")
# Names that a template takes for something else, or has from the run alone.
_RESERVED = {"true", "false", "none", "null", "not", "and", "or", "in", "is", "if", "else", "env", "_conversation"}
_TESTED = "\0tested\0"
"""What stands in a prompt where the text under test was."""
_RUBRICS = ("llm-rubric", "model-graded-closedqa")
_REASONS: dict[str, tuple[Reason, str]] = {
    **dict.fromkeys(("javascript", "python", "ruby", "webhook"), ("runs code", "")),
    **dict.fromkeys(("cost", "latency"), ("says nothing", "it asks for the price of the answer")),
    **dict.fromkeys(("perplexity", "perplexity-score", "finish-reason"), ("says nothing", "it asks how it was made")),
    **dict.fromkeys(("skill-used", "tool-call-f1"), ("needs events", "it asks which tools were called")),
}
# What a cell may expect: [not-]type[(threshold)][:value].
_EXPECTED = re.compile(
    rf"(not-)?({'|'.join([*TYPES, *_RUBRICS, *_REASONS])}|agent-rubric|answer-relevance|bleu|classifier|"
    r"contains-(?:html|sql|xml)|context-(?:faithfulness|recall|relevance)|conversation-relevance|factuality|g-eval|gleu|"
    r"guardrails|human|is-(?:html|refusal|sql|xml|valid-[a-z-]+-call)|levenshtein|max-score|meteor|"
    r"model-graded-factuality|moderation|pi|rouge-n|search-rubric|select-best|similar)(?:\(\d+(?:\.\d+)?\))?(?::(.*))?",
    re.S,
)


def _detect(path: Path, value: object) -> bool:
    # One of these keys stands in many a file.
    keys = {"prompts", "providers", "targets", "tests", "scenarios", "defaultTest"}
    is_config = isinstance(value, dict) and len(keys & value.keys()) > 1
    return path.name in _CONFIGS or (is_config and path.suffix in _DATA)


def _write(tasks: Sequence[Task], path: Path) -> dict[Path, str]:
    """Write tasks that read back equal. Raises BadInput naming one that cannot be written."""
    tests = list[object]()
    for task in tasks:
        prompt = task.prompt + "\n" * task.prompt.endswith("\n")
        try:
            if task.files or prompt.startswith(("file://", "package:")) or not _is_literal(prompt, {"prompt": ""}):
                raise ValueError("its files, or a prompt that is a template")
            tests.append({"description": task.name, "vars": {"prompt": prompt}, **_write_judge(task.judge)})
        except ValueError as error:
            raise BadInput(f"task {quoted(task.name)} cannot be written for promptfoo: {error}") from error
    text = json.dumps({"prompts": ["{{prompt}}"], "providers": ["echo"], "tests": tests}, ensure_ascii=False, indent=2)
    # JSON is YAML, but for characters that YAML does not print.
    text = re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda match: f"\\u{ord(match[0]):04x}", text)
    return {path if path.suffix in _DATA else path / _CONFIGS[2]: text + "\n"}


def _write_judge(judge: Judge) -> dict[str, Any]:
    """The `assert` and `threshold` that read back as a judge. Raises ValueError."""
    found, limit = list[dict[str, Any]](), None
    if isinstance(judge, Assertion):
        found = [{"type": judge.type, "value": judge.value}]
    elif isinstance(judge, Rubric) and judge.points:
        found = [{"type": _RUBRICS[0], "value": point} for point in judge.points]
    elif isinstance(judge, AssertionSet):
        limit = judge.threshold
        for part in judge.judges:
            inner = _write_judge(part.judge)
            items = [{"type": "assert-set", **inner}] if isinstance(part.judge, AssertionSet) else inner["assert"]
            found += items if part.weight == len(items) else [{**each, "weight": part.weight} for each in items]
    else:
        raise ValueError(f"its judge {judge.kind!r} is not one of promptfoo's")
    texts = [text for each in found for text in _list(each.get("value")) if isinstance(text, str)]
    if any(_OPEN.search(text) or text.startswith(("file://", "package:")) for text in texts):
        raise ValueError("its judge holds what promptfoo takes for a template or a file")
    return {"assert": found} if limit is None else {"assert": found, "threshold": limit}


@eval_format("promptfoo", tuple(f"{folder}{name}" for folder in ("", "evals/") for name in _CONFIGS), _detect, _write)
def _read(path: Path, value: Any, reading: EvalOptions) -> Evals:
    if path.suffix not in _DATA:
        raise BadInput(f"{show_path(path)} is a program, which is not run: write the configuration as YAML or JSON")
    if not isinstance(value, dict):
        raise BadInput(f"{show_path(path)} is no configuration of promptfoo: it is no mapping")
    cases = list(islice(_Reader(path, value).read_cases(), MAX_CASES + 1))
    if len(cases) > MAX_CASES:
        raise BadInput(f"{show_path(path)} makes more than {MAX_CASES:,} cases: split it")
    return Evals("promptfoo", cases)


class _Reader:
    """A configuration with its references resolved, and the files that it names."""

    def __init__(self, path: Path, value: object) -> None:
        self.path, self.folder = path, Path(os.path.abspath(path)).parent
        self.left = MAX_VALUES
        self.values = self.resolve(value, value)
        default = self.values.get("defaultTest")
        self.default = _mapping(self.load(default.removeprefix("file://")) if isinstance(default, str) else default)
        self.stored = {"storeOutputAs"}

    def resolve(self, value: object, document: object, depth: int = 0) -> Any:
        """A decoded value as promptfoo has it: references replaced, dates empty objects. Raises BadInput."""
        self.spend(1 if depth <= MAX_DEPTH else MAX_VALUES)
        if isinstance(value, list):
            return [self.resolve(each, document, depth + 1) for each in value]
        if not isinstance(value, dict):
            if value is None or isinstance(value, str | bool):
                return value
            number = float(repr(value)) if isinstance(value, int | float) else None
            return {} if number is None else int(number) if abs(number) < 1e15 and number.is_integer() else number
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return {show_value(key): self.resolve(each, document, depth + 1) for key, each in value.items()}
        target: Any = document if reference.startswith("#") else None
        for step in reference.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list):
                target = dict(zip(map(str, range(len(target))), target, strict=True))
            target = target.get(step) if isinstance(target, dict) else None
        if target is None:
            raise BadInput(f'{show_path(self.path)}: "$ref": {quoted(reference)} leads to nothing in the file')
        found = self.resolve({key: each for key, each in value.items() if key != "$ref"}, document, depth + 1)
        target = self.resolve(target, document, depth + 1)
        return {**target, **found} if isinstance(target, dict) else target

    def spend(self, n: int) -> None:
        """Take so much from what the configuration may grow to. Raises BadInput."""
        self.left -= n
        if self.left < 0:
            raise BadInput(f"{show_path(self.path)} is nested too deep, or too large with its references")

    def read(self, path: str) -> str | Loss | None:
        """The text of a file; None where it is part of the text under test."""
        if len(path) > 4_096:
            return Loss(path[:80], "needs files", "it is not there")
        place = Path(os.path.normpath(self.folder / path))
        if place.name == MAIN_FILE:
            return None
        found = read_case_file(Path("/"), str(place), self.folder)
        self.spend(len(found.content) // 50 if isinstance(found, TaskFile) else 1)
        return found.content if isinstance(found, TaskFile) else found and replace(found, what=path)

    def load(self, path: str) -> Any:
        """The value of a JSON, YAML or JSON lines file. Raises BadInput."""
        found = self.read(path)
        if not isinstance(found, str):
            raise BadInput(f"{quoted(path)} is not read: {found.detail if found else 'it belongs to the skill'}")
        # YAML takes 30 times as long as JSON, and each test may name a file.
        self.spend(len(found) // 32 * path.endswith((".yaml", ".yml")))
        return self.resolve(value := decode(self.folder / path), value)

    def expand(self, pattern: str) -> list[str]:
        """The paths that a pattern stands for, sorted; a path is itself."""
        is_plain = len(pattern) > 1_000 or pattern.count("**") > 1 or not re.search(r"[*?\[]", pattern)
        root = find_root(self.folder)
        if is_plain or not (root and Path(os.path.normpath(self.folder.resolve() / pattern)).is_relative_to(root)):
            return [pattern]
        # In a name, "**" is "*".
        parts = os.path.relpath(self.folder / pattern, self.folder).split("/")
        glob = "/".join(part if part == "**" else re.sub(r"\*+", "*", part) for part in parts)
        found = (os.path.relpath(each, self.folder) for each in self.folder.glob(glob))
        return sorted(each for each in islice(found, MAX_CASES) if not re.search(r"(?:^|/)\.[^./]", each))

    def read_prompts(self) -> Iterator[tuple[str | Loss, tuple[object, ...]]]:
        """The prompts, of files too, each with the names that tests have for it."""
        given = self.values.get("prompts") or "{{prompt}}"
        if isinstance(given, dict):
            given = [{"raw": raw, "label": label} for raw, label in given.items()]
        for each in _list(given):
            entry = each if isinstance(each, dict) else {"raw": each}
            raw = entry.get("raw") or entry.get("id")
            if not isinstance(raw, str):
                raise BadInput(f"{show_path(self.path)}: a prompt is neither a text nor a file")
            names = (entry.get("label", raw), entry.get("id"))
            path = raw.removeprefix("file://")
            is_file = "\n" not in raw and _FILE.fullmatch(raw)
            if re.match("exec:|portkey://|langfuse://|helicone://", raw) or (is_file and _CODE.search(path)):
                yield Loss(f"prompt {raw}", "runs code" if _CODE.search(path) else "cannot be expressed"), names
            elif is_file and (paths := self.expand(path)):
                for path in paths:
                    yield from ((text, names) for text in self.read_prompt(path))
            else:
                yield raw, names

    def read_prompt(self, path: str) -> Iterator[str | Loss]:
        """The prompts of a file."""
        text, suffix = self.read(path), Path(path).suffix
        if text is None:
            yield _TESTED
        elif isinstance(text, Loss) and text.detail != "it is not there":
            yield replace(text, what=f"prompt {path}")
        elif isinstance(text, Loss) or suffix not in (".txt", ".md", ".j2", ".jsonl", ".csv", *_DATA):
            raise BadInput(
                f"{show_path(self.path)}: promptfoo takes {quoted(path)} for a file of prompts, and finds none"
            )
        elif suffix == ".csv" or (suffix in _DATA and "file://" in text):
            yield Loss(f"prompt {path}", "cannot be expressed", "a table, or files in a file")
        elif suffix == ".txt":
            for is_end, lines in groupby(re.split("\r?\n", text), lambda line: line.strip() == "---"):
                yield from [part] if not is_end and (part := "\n".join(lines).strip()) else []
        elif suffix == ".jsonl":
            yield from (line for line in re.split("\r?\n", text) if line)
        elif suffix in (".yaml", ".yml"):
            yield json.dumps(self.load(path), ensure_ascii=False, separators=(",", ":"))
        else:
            yield text

    def read_tests(self, given: object) -> Iterator[dict[str, Any]]:
        """The tests of a list, a file, or files."""
        for each in _list(given):
            source = each.get("path", each) if isinstance(each, dict) else each
            if isinstance(source, dict):
                yield source
                continue
            path = str(source).removeprefix("file://")
            if "://" in path or _CODE.search(path):
                why = "they are code" if _CODE.search(path) else "they are in no file here"
                raise BadInput(f"{show_path(self.path)}: the tests of {quoted(path)} are not read: {why}")
            for name in self.expand(path):
                is_table = name.endswith(".csv")
                for n, row in enumerate(_list(self.read_table(name) if is_table else self.load(name)), 1):
                    if is_table or (isinstance(given, str) and not name.endswith((".yaml", ".yml"))):
                        row = {**_mapping(row), "description": _mapping(row).get("description") or f"Row #{n}"}
                    yield _mapping(row)

    def read_table(self, path: str) -> list[object]:
        """The tests of a CSV file: a variable a column, and what is expected."""
        text, tests = self.read(path), list[object]()
        try:
            rows = list(csv.reader(io.StringIO(text if isinstance(text, str) else ""), strict=True))
        except csv.Error as error:
            raise BadInput(f"{quoted(path)} is not CSV ({error})") from error
        if not rows or any(len(row) != len(rows[0]) for row in rows):
            raise BadInput(f"{quoted(path)} cannot be read, or a row has another number of cells than the first")
        for row in rows[1:]:
            test: dict[str, Any] = {"vars": {}, "assert": [], "options": {}}
            for name, cell in zip(map(str.strip, rows[0]), row, strict=True):
                if name.startswith("__expected"):
                    test["assert"] += [_parse_expected(cell.strip())] if cell.strip() else []
                elif name == "__threshold":
                    test |= {"threshold": float(cell)} if re.fullmatch(r"\s*\d+(\.\d+)?\s*", cell) else {}
                elif name == "__description":
                    test["description"] = cell
                elif not name.startswith("__"):
                    test["vars"][name] = cell
                elif cell and not name.startswith("__me"):
                    test["options"][name[2:]] = cell
            tests.append(test)
        return tests

    def read_cases(self) -> Iterator[Case]:
        """The cases: of each test each combination of its variables, with each prompt."""
        prompts, tests = list(self.read_prompts()), list(self.read_tests(self.values.get("tests")))
        given = _list(self.values.get("scenarios"))
        loaded = [self.load(each.removeprefix("file://")) if isinstance(each, str) else each for each in given]
        scenarios = [_mapping(scenario) for each in loaded for scenario in _list(each)]
        for scenario in scenarios:
            inner = list(self.read_tests(scenario.get("tests"))) or [{}]
            for data, test in product(map(_mapping, _list(scenario.get("config"))), inner):
                asserts = {"assert": [*_list(data.get("assert")), *_list(test.get("assert"))]}
                pairs = {name: {**_mapping(data.get(name)), **_mapping(test.get(name))} for name in ("vars", "options")}
                tests.append({**data, **test, **asserts, **pairs})
        self.stored = {str(_mapping(each.get("options")).get("storeOutputAs")) for each in [self.default, *tests]}
        for test in tests or ([] if scenarios else [{}]):
            yield from self.make_cases(test, prompts)

    def make_cases(
        self, test: Mapping[str, Any], prompts: Sequence[tuple[str | Loss, tuple[object, ...]]]
    ) -> Iterator[Case]:
        """The cases of a test."""
        own, default = _mapping(test.get("options")), self.default
        options = {**_mapping(default.get("options")), **own}
        asserts = [*_list(default.get("assert") if own.get("disableDefaultAsserts") is not True else None)]
        asserts += _list(test.get("assert"))
        limits = [each for each in (test.get("threshold"), default.get("threshold")) if each is not None]
        everything = {**self.values, **default, **test, **options}
        codes = ("transform", "postprocess", "transformVars", "assertScoringFunction", "extensions")
        whole = [Loss(name, "runs code") for name in codes if everything.get(name)]
        odd = [name for name in everything if name == "providerOutput" or name.startswith("config:")]
        odd += [f"vars {each['vars']}" for each in (default, test) if isinstance(each.get("vars"), str | list)]
        whole += [Loss(name, "cannot be expressed") for name in odd]
        if whole:
            why = f"it comes behind {whole[0].what}"
            whole += [Loss(show_value(_mapping(each).get("type")), whole[0].reason, why) for each in asserts]

        variables = {**_mapping(default.get("vars")), **_mapping(test.get("vars"))}
        values = list[list[Any]]()
        for value in variables.values():
            if isinstance(value, str) and value.startswith("file://") and not options.get("disableVarExpansion"):
                values.append([f"file://{path}" for path in self.expand(value[7:])] or [Loss(value, "needs files")])
            else:
                is_spread = isinstance(value, list) and value and isinstance(value[0], str)
                values.append(value if is_spread and not options.get("disableVarExpansion") else [value])
        allowed = test.get("prompts", default.get("prompts"))
        if isinstance(allowed, list):
            starts = tuple(each[:-1] if each.endswith("*") else f"{each}:" for each in map(str, allowed))
            prompts = [each for each in prompts if any(n in allowed or str(n).startswith(starts) for n in each[1])]
        n_cases = prod(map(len, values)) * len(prompts)
        if n_cases > MAX_CASES:
            raise BadInput(f"{show_path(self.path)}: the variables of a test make {n_cases:,} cases: use fewer")
        name = show_value(test["description"]) if test.get("description") is not None else ""
        for combination in product(*values):
            found = self.read_variables(dict(zip(variables, combination, strict=True)))
            judge, lost = (None, whole) if whole else self.make_set(asserts, next(iter(limits), None), found)
            if isinstance(judge, AssertionSet) and len(judge.judges) == 1 and judge.threshold is None:
                judge = judge.judges[0].judge if judge.judges[0].weight else judge
            lost = lost if asserts else [*lost, Loss("assert", "says nothing", "the test has none")]
            for raw, _ in prompts:
                framed = f"{options.get('prefix') or ''}{raw}{options.get('suffix') or ''}"
                text = raw if isinstance(raw, Loss) else self.make_prompt(framed, found)
                if isinstance(text, Loss):
                    yield Case(name, "", judge, lost=(*lost, text))
                else:
                    yield Case(name, text, judge, lost=tuple(lost))

    def read_variables(self, variables: dict[str, Any]) -> dict[str, Any]:
        """The variables with those of files read, and those that name others filled in."""
        for name, value in variables.items():
            text, is_file = value, isinstance(value, str) and value.startswith(("file://", "package:"))
            if is_file and (value.startswith("package:") or _CODE.search(value)):
                text = Loss(value, "runs code")
            elif is_file:
                text = self.read(value[7:])
                if isinstance(text, str) and value.endswith((".yaml", ".yml")):
                    text = json.dumps(self.load(value[7:]), ensure_ascii=False, separators=(",", ":"))
                text = _TESTED if text is None else text.strip(BLANKS) if isinstance(text, str) else text
            variables[name] = text.removesuffix("\n") if isinstance(text, str) else text
        for name in list(variables) * 5:
            value = variables[name]
            tag = re.search(r"\{\{\s*(\w+)\s*\}\}", value, re.A) if isinstance(value, str) else None
            if tag and tag[1] in variables:
                inner = variables[tag[1]]
                text = inner if isinstance(inner, Loss) else show_value(inner)
                if isinstance(text, str) and ("$" in text or len(text) + len(value) > MAX_CHARS):
                    text = Loss(tag[0], "cannot be expressed", "what it stands for holds a $, or is too long")
                variables[name] = text if isinstance(text, Loss) else value.replace(tag[0], text, 1)
        return variables

    def render(self, template: str, variables: Mapping[str, Any], *, is_prompt: bool) -> str | Loss:
        """A template with its variables filled in, or what of it is not plain."""
        pieces = _TAG.split(template)
        for n, piece in enumerate(pieces):
            if n % 2 == 0:
                if (tag := _OPEN.search(piece)) or (piece.endswith("{") and n + 1 < len(pieces)):
                    return Loss(tag[0] if tag else "{{{", "cannot be expressed", "a template")
                continue
            value = variables.get(piece)
            if isinstance(value, Loss):
                return value
            if piece in _RESERVED | self.stored or piece.startswith("__"):
                return Loss(f"{{{{{piece}}}}}", "cannot be expressed", "a template")
            if is_prompt and isinstance(value, str) and not _is_literal(value, variables):
                return Loss(f"{{{{{piece}}}}}", "cannot be expressed", "its value is a template")
            pieces[n] = "" if value is None else show_value(value)
        return "".join(pieces)

    def make_prompt(self, template: str, variables: Mapping[str, Any]) -> str | Loss:
        """The prompt without the text under test; of a chat what one user says, behind what the system says."""

        def fill(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: fill(each) for key, each in value.items()}
            if isinstance(value, list):
                return [fill(each) for each in value]
            text = self.render(value, variables, is_prompt=True) if isinstance(value, str) else value
            lost.extend([text] if isinstance(text, Loss) else [])
            return text

        lost = list[Loss]()
        try:
            parsed = fill(self.resolve(json.loads(template, parse_constant=int), {}))
            text = "" if lost else json.dumps(parsed, ensure_ascii=False, indent=2)
        except (ValueError, RecursionError):
            parsed, text = None, fill(template)
        if lost:
            return replace(lost[0], what=f"prompt {lost[0].what}")
        if isinstance(parsed, list) and parsed and all("role" in _mapping(each) for each in parsed):
            roles, contents = [each["role"] for each in parsed], list[str]()
            for content in (each.get("content") for each in parsed):
                parts = [{"type": "text", "text": content}] if isinstance(content, str) else _list(content)
                is_text = all(_mapping(part).get("type") == "text" for part in parts)
                contents += ["\n".join(show_value(part.get("text")) for part in parts)] if is_text else []
            others = {*map(str, roles)} - {"user", "system", "developer"}
            if roles.count("user") != 1 or others or len(contents) < len(roles):
                return Loss("prompt", "cannot be expressed", "a chat of other than one user message")
            text = "\n\n".join(each for content in contents if (each := content.replace(_TESTED, "").strip()))
        elif text.lstrip().startswith("- role:"):
            return Loss("prompt", "cannot be expressed", "a chat as YAML in a text")
        rest = text.replace(_TESTED, "").strip() if _TESTED in text else text
        self.spend(len(rest) // 50)
        why = "it is empty" if rest == text else "nothing is left of it without the text under test"
        return rest if rest.strip() else Loss("prompt", "cannot be expressed", why)

    def make_set(
        self, items: Sequence[Any], threshold: object, variables: Mapping[str, Any]
    ) -> tuple[Judge | None, list[Loss]]:
        """The judge of assertions, and those that have none."""
        parts, lost, limit = list[AssertionPart](), list[Loss](), float(threshold) if _is_number(threshold) else None
        for item in map(_mapping, items):
            kind, weight, inner = show_value(item.get("type")), item.get("weight", 1), _list(item.get("assert"))
            made: Judge | Loss | None
            if (
                not _is_number(weight)
                or weight < 0
                or any(_mapping(each).get("type") == "assert-set" for each in inner)
            ):
                made = Loss(kind, "cannot be expressed", "its weight is no number of 0 or more, or a set is in a set")
            elif kind == "assert-set":
                made, lost_inside = self.make_set(inner, item.get("threshold"), variables)
                lost += lost_inside
            else:
                made = self.make_judge(kind, item, variables)
            if isinstance(made, Loss):
                lost.append(replace(made, decides=weight != 0 and made.reason != "says nothing"))
            elif made:
                parts.append(AssertionPart(judge=made, weight=float(weight)))
        # One call of a model judges all points.
        rubrics = [part for part in parts if isinstance(part.judge, Rubric) and part.weight == 1][:MAX_POINTS]
        points = [point for part in rubrics if isinstance(part.judge, Rubric) for point in part.judge.points]
        if len(points) > 1 and len("\n".join(points)) <= MAX_RUBRIC_CHARS:
            parts[parts.index(rubrics[0])] = AssertionPart(judge=Rubric(points=points), weight=len(points))
            parts = [part for part in parts if not any(part is each for each in rubrics)]
        if limit is not None:  # a mean has all of them
            lost = [replace(each, decides=True) for each in lost]
        return AssertionSet(judges=parts, threshold=limit) if parts else None, lost

    def make_judge(self, kind: str, item: Mapping[str, Any], variables: Mapping[str, Any]) -> Judge | Loss:
        """The judge of one assertion."""
        base, given = kind.removeprefix("not-"), item.get("value")
        if base not in TYPES and kind not in _RUBRICS:
            reason: Reason = "needs events" if base.startswith(("trace-", "trajectory:")) else "cannot be expressed"
            return Loss(kind, *_REASONS.get(base, (reason, "")))
        if item.get("transform"):
            return Loss(kind, "runs code", "its transform")
        values = [self.read_value(each, variables) for each in (given if isinstance(given, list) else [given])]
        if lost := next((each for each in values if isinstance(each, Loss)), None):
            return replace(lost, what=kind, detail=": ".join(filter(None, [lost.what, lost.detail])))
        value = values if isinstance(given, list) else values[0]
        try:
            if base.endswith("-json") and isinstance(value, str) and value:
                value = next(iter(parse_json(value)), value)
            judge: Judge = Assertion(type=kind, value=value)
            if kind in _RUBRICS:
                judge = Rubric(points=[value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)])
            if "value" not in item and not base.endswith("-json"):
                raise BadInput("it has no value")
            judge.check()
        except BadInput as error:
            return Loss(kind, "cannot be expressed", str(error))
        return judge

    def read_value(self, value: Any, variables: Mapping[str, Any]) -> Any:
        """A value of an assertion, of a file too, or why it is lost."""
        if not isinstance(value, str) or not value.startswith(("file://", "package:")):
            text = self.render(value, variables, is_prompt=False) if isinstance(value, str) else value
            is_tested = isinstance(text, str) and _TESTED in text
            return Loss(value, "cannot be expressed", "it holds the text under test") if is_tested else text
        path = value.removeprefix("file://").partition(":")[0]
        if value.startswith("package:") or _CODE.search(path):
            return Loss(value, "runs code")
        text = self.read(path)
        if isinstance(text, str) and path.endswith(_DATA):
            return self.load(path)
        if isinstance(text, str) and path.endswith(".txt"):
            return text.strip(BLANKS)
        return text if isinstance(text, Loss) else Loss(value, "cannot be expressed", "no text or data")


def _parse_expected(text: str) -> dict[str, Any]:
    """The assertion of a cell."""
    if code := re.match(r"(javascript|fn|eval|python):|file://.*\.(?:[cm]?[jt]s|(py))(?::|$)", text):
        return {"type": "python" if code[2] or code[1] == "python" else "javascript"}
    if rubric := re.match(r"(?:grade|llm-rubric):(.*)", text, re.S):
        return {"type": _RUBRICS[0], "value": rubric[1]}
    if not (found := _EXPECTED.fullmatch(text)):
        return {"type": "equals", "value": text}
    negation, kind, value = found.groups()
    test: dict[str, Any] = {"type": f"{negation or ''}{kind}"}
    if value and kind.endswith(("-any", "-all")):
        return {**test, "value": Assertion(type=kind, value=value).texts()}
    return test if value is None else {**test, "value": value if kind.endswith("-json") else value.strip()}


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_literal(value: str, variables: Mapping[str, Any]) -> bool:
    """Whether the value of a variable is no template: it names variables that are not there, if any."""
    return not _OPEN.search(_TAG.sub("", value)) and variables.keys().isdisjoint(_TAG.findall(value))
