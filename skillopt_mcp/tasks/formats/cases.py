"""Cases: evals of other tools, whatever their format: where they are found, and what of a case is not taken over."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from math import isinf
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import ScalarNode

from skillopt_mcp.core import limits
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Judge
from skillopt_mcp.core.skills import MAIN_FILE
from skillopt_mcp.core.tasks import NewTask, Split, Task, TaskFile
from skillopt_mcp.core.text import is_text, quoted, storable
from skillopt_mcp.tasks.formats.registry import join_names, read_text, show_path
from skillopt_mcp.tasks.judges.judging import check_judge
from skillopt_mcp.tasks.judges.kinds.combined import Partial

Reason = Literal["cannot be expressed", "needs events", "needs files", "runs code", "says nothing"]
"""Why a grader is not taken over."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A grader that is not taken over: its owner's name for it, and why. `decides`: it could fail the case."""

    what: str
    reason: Reason
    detail: str = ""
    decides: bool = True

    @property
    def why(self) -> str:
        """The reason, with what is particular to this one."""
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


@dataclass(frozen=True, slots=True)
class Case:
    """A case of somebody's evals; `judge` is what its graders come to without those that are lost, if anything.

    `asked`: what its file asks, where the prompt frames that.
    """

    id: str
    prompt: str
    judge: Judge | None = None
    files: tuple[TaskFile, ...] = ()
    tags: tuple[str, ...] = ()
    family: str = ""
    split: Split | None = None
    lost: tuple[Loss, ...] = ()
    asked: str = ""

    def make_task(self, *, partial: bool = False) -> NewTask | None:
        """The task of this case. None where no grader is left, or one is lost that could fail it, unless `partial`.

        Raises BadInput where it is larger than a task may be.
        """
        decisive = [f"{each.what}: {each.why}" for each in self.lost if each.decides]
        if self.judge is None or not self.prompt.strip() or (decisive and not partial):
            return None
        check_judge(self.judge)
        if len(self.prompt) > limits.PROMPT_CHARACTERS or len(self.id) > limits.NAME_CHARACTERS:
            raise BadInput(
                f"a prompt has at most {limits.PROMPT_CHARACTERS:,} characters, an id {limits.NAME_CHARACTERS:,}"
            )
        if sum(len(file.content) for file in self.files) > limits.FILE_BYTES:
            raise BadInput(f"the files have more than {limits.FILE_BYTES:,} characters")
        judge = Partial(judge=self.judge, lost=decisive) if decisive else self.judge
        tags, name = tuple(map(storable, self.tags)), storable(self.id)
        return NewTask(storable(self.prompt), judge, name, self.split, tags, self.files, storable(self.family))


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """How evals are read: the scorer of a data set that names none, whether tool calls will be recorded, and whether a
    case is kept that lost a grader which could fail it.
    """

    scorer: str = ""
    events: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Evals:
    """The cases of a file or folder, in its owner's order, and how often each was attempted, where that is known.

    `results`: {case id: {"attempts", "scored", "not_scored"}}. `refused`: why no case could be taken, in one line.
    """

    format: str
    cases: Sequence[Case] = ()
    results: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    refused: str = ""


_Detect = Callable[[Path, object], bool]
_Read = Callable[[Path, Any, EvalOptions], Evals]
_Write = Callable[[Sequence[Task], Path], dict[Path, str]]


@dataclass(frozen=True, slots=True)
class EvalFormat:
    """A format of evals: where its file stands in a folder ("." is the folder itself), what detects, reads, writes it.

    `detect` and `read` take the path and its decoded content (None of a folder). `write` gives {path: text}.
    """

    name: str
    places: tuple[str, ...]
    detect: _Detect
    read: _Read
    write: _Write | None


EVAL_FORMATS: list[EvalFormat] = []
_OF_SKILL = (MAIN_FILE, "references", "scripts", "assets")


def eval_format(
    name: str, places: tuple[str, ...], detect: _Detect, write: _Write | None = None
) -> Callable[[_Read], _Read]:
    """Register the decorated function as what reads a format of evals; it raises BadInput naming place and ids."""

    def register(read: _Read) -> _Read:
        EVAL_FORMATS.append(EvalFormat(name, places, detect, read, write))
        return read

    return register


def read_evals(path: Path, reading: EvalOptions) -> Evals | None:
    """Read a file or folder in the format of its content; None where it is of none.

    Raises BadInput where it cannot be read, or a folder holds evals of several formats.
    """
    decoded, found = dict[Path, object](), list[tuple[EvalFormat, Path, object]]()
    for form in EVAL_FORMATS:
        for name in form.places if path.is_dir() else (".",):
            place = path / name
            if place not in decoded and place.exists():
                try:
                    decoded[place] = None if place.is_dir() else decode(place)
                except BadInput as error:
                    if named := _name_format(place, reading):
                        return Evals(named, refused=str(error))
                    if place.suffix in (".yaml", ".yml"):
                        raise
                    decoded[place] = None  # rows of our own, which have a reader of theirs
            if place in decoded and form.detect(place, decoded[place]):
                found.append((form, place, decoded[place]))
    if len(places := {place for _, place, _ in found}) > 1:
        raise BadInput(f"{show_path(path)} holds evals in {join_names([*map(show_path, sorted(places))])}: name one")
    if not found:
        value = decoded.get(path)
        rows = [row for row in (value if isinstance(value, list) else [value]) if isinstance(row, Mapping)]
        is_own = any(not row.keys().isdisjoint(("judge", "answers", "expected")) for row in rows)
        named = "" if path.is_dir() or is_own else _name_format(path, reading)
        return Evals(named, refused=f"{show_path(path)} holds no case of this format") if named else None
    form, place, value = found[0]
    try:
        evals = form.read(place, value, reading)
    except (BadInput, RecursionError) as error:
        return Evals(form.name, refused=str(error))
    if not evals.refused and not 0 < len(evals.cases) <= limits.TASKS_PER_CALL:
        many = f"{len(evals.cases):,} cases, at most {limits.TASKS_PER_CALL:,} are read: split it"
        return Evals(form.name, refused=f"{show_path(place)} holds {many if evals.cases else 'no case'}")
    taken, last, cases = set[str](), Counter[str](), list[Case]()
    for case in evals.cases:
        content = json.dumps([case.prompt, repr(case.judge), [file.path for file in case.files]])
        name = case.id or f"case-{sha256(content.encode()).hexdigest()[:8]}"
        last[name] = n = next(n for n in count(last[name] + 1) if (f"{name}-{n}" if n > 1 else name) not in taken)
        taken.add(name := f"{name}-{n}" if n > 1 else name)
        cases.append(replace(case, id=name))
    return replace(evals, cases=cases)


def _name_format(place: Path, reading: EvalOptions) -> str:
    """The format that a file must be of by its name, or by the scorer that is given for it; "" without any."""
    named = (each.name for each in EVAL_FORMATS if place.name in map(os.path.basename, each.places))
    return next(named, "inspect" if reading.scorer else "")


class _Constructor(SafeConstructor):
    """Takes `1_000`, `0b11`, `1e400` and `=` for texts, as JavaScript's readers of YAML do."""

    def construct_number(self, node: ScalarNode) -> object:
        is_whole = str(node.tag).endswith(":int")
        value = self.construct_yaml_int(node) if is_whole else self.construct_yaml_float(node)
        is_text = "_" in node.value or "0b" in node.value or (isinf(value) and "inf" not in node.value.lower())
        return node.value if is_text else value


for _kind in ("int", "float"):
    _Constructor.add_constructor(f"tag:yaml.org,2002:{_kind}", _Constructor.construct_number)
_Constructor.add_constructor("tag:yaml.org,2002:value", SafeConstructor.construct_yaml_str)


def decode(path: Path) -> object:
    """Decode a file by its suffix: YAML 1.2, JSON, the list of JSON lines, or else its text. Raises BadInput."""
    text = read_text(path)
    try:
        if path.suffix in (".yaml", ".yml"):
            yaml = YAML(typ="safe", pure=True)
            yaml.Constructor = _Constructor
            return yaml.load(text)
        if path.suffix == ".json":
            return json.loads(text)
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in text.split("\n") if line.strip()]
    except MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadInput(f"{show_path(path)}{line} is not YAML ({error.problem})") from error
    except (ValueError, RecursionError, YAMLError) as error:
        raise BadInput(f"{show_path(path)} cannot be decoded ({quoted(str(error))})") from error
    return text


def find_root(near: Path) -> Path | None:
    """The folder out of which no file of the evals in `near` may lie: their repository, plugin, skill, or `near`.

    None where that would be the home folder, or one above it.
    """
    near, home = near.resolve(), Path(os.path.expanduser("~")).resolve()
    above = [each for each in (near, *near.parents) if not home.is_relative_to(each)]
    marked = (each for mark in (".git", ".claude-plugin", MAIN_FILE) for each in above if (each / mark).exists())
    return next(marked, near if above else None)


def find_fault(place: Path, near: Path) -> str:
    """Why a file may not be read for the evals in `near`, wherever its links lead; "" where it may. Raises OSError."""
    real, root = place.resolve(), find_root(near)
    if not (root and real.is_relative_to(root)):
        return f"it lies outside of {show_path(root or near)}"
    is_hidden = any(part.startswith(".") and part != ".." for part in Path(os.path.relpath(real, near.resolve())).parts)
    return "it is hidden" if is_hidden else ""


def read_case_file(base: Path, path: str, near: Path) -> TaskFile | Loss | None:
    """Read a file that a case in the folder `near` names by its path from `base`.

    None for one of the skill itself, which the tested text replaces.
    """
    place = Path(os.path.normpath(base / path))
    try:
        fault = "" if place.is_relative_to(base) else f"it lies outside of {show_path(base)}"
        if fault := fault or find_fault(place, near):
            return Loss(path, "needs files", fault)
        real = place.resolve()
        skill = next((each for each in real.parents if (each / MAIN_FILE).is_file()), None)
        if skill and real.relative_to(skill).parts[0] in _OF_SKILL:
            return None
        if not real.is_file():
            return Loss(path, "needs files", "it is not there" if not real.exists() else "it is no file")
        if real.stat().st_size > limits.FILE_BYTES:
            return Loss(path, "needs files", f"it has more than {limits.FILE_BYTES:,} bytes")
        content = real.read_bytes()
    except (OSError, ValueError, RuntimeError) as error:
        return Loss(path, "needs files", f"it cannot be read ({type(error).__name__})")
    if not is_text(content):
        return Loss(path, "needs files", "it is no text")
    return TaskFile(storable(path.removeprefix("./")), content.decode())
