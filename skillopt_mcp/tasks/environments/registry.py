"""Registry: environments by name, and the code of their owners, whose failures are reported in one line."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import os
import re
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import entry_points
from inspect import getattr_static
from pathlib import Path
from typing import TypeVar, cast

from skillopt_mcp.core import limits
from skillopt_mcp.core.errors import BadInput, SkillOptError
from skillopt_mcp.core.judging import Judge
from skillopt_mcp.core.redacting import Redactor
from skillopt_mcp.core.tasks import SPLITS, NewTask, Split, Task, TaskFile
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.tasks.environments.base import Environment, rolls_out
from skillopt_mcp.tasks.formats.cases import EvalOptions, read_evals
from skillopt_mcp.tasks.formats.registry import list_suffixes, read_rows
from skillopt_mcp.tasks.formats.rows import parse_group
from skillopt_mcp.tasks.judges.judging import check_judge, environment_of, leaves
from skillopt_mcp.tasks.judges.kinds.reported import ByEnvironment

T = TypeVar("T")
SHOWN = 200
_OURS = str(Path(__file__).parents[2])
_LIBRARY = str(Path(traceback.__file__).parent)
_MAX_CHARACTERS = 500
_REDACTOR = Redactor()


@contextmanager
def run_foreign(what: str) -> Iterator[None]:
    """Enter to run an environment's own code. Raises BadInput that says what went wrong there, and where."""
    try:
        yield
    except SkillOptError as error:
        text = _REDACTOR.text(str(error))
        if text == str(error):
            raise
        raise BadInput(text) from None
    # The code is the user's own: whatever it raises is reported, an exit too.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | GeneratorExit):
            raise
        raise BadInput(f"{what}: {describe_raised(error)}; correct that and retry") from error


def is_stop(error: BaseException) -> bool:
    """Whether what came out of awaited foreign code was sent there: Ctrl-C, or a cancellation asked for."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def describe_raised(error: BaseException, redactor: Redactor = _REDACTOR) -> str:
    """What foreign code raised on one line, without secrets, with the place in that code."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_foreign(frame.filename)]
    # A syntax error names its own place.
    has_place = frames and not isinstance(error, SyntaxError)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if has_place else ""
    text = " ".join(read_message(error, redactor).split())
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{said if len(said) <= _MAX_CHARACTERS else said[:_MAX_CHARACTERS] + '...'}{place}"


def read_message(error: BaseException, redactor: Redactor = _REDACTOR) -> str:
    """Return the text of what foreign code raised, without secrets."""
    try:
        return redactor.text(str(error))
    except Exception as broken:  # noqa: BLE001 - to spell it out is the foreign code's own work, too
        return f"its text cannot be read ({type(broken).__name__})"


def _is_foreign(path: str) -> bool:
    return "site-packages" in path or not path.startswith((_OURS, _LIBRARY, "<"))


def list_tasks(environment: Environment) -> list[NewTask]:
    """Return all tasks of an environment, each with its split. Raises BadInput naming the first that is none."""
    called = f"the environment '{environment.name}'"
    found: list[NewTask] = []
    for split in SPLITS:
        with run_foreign(f"{called} gave no {split} tasks"):
            given: object = environment.tasks(split)
            if not isinstance(given, Iterable) or isinstance(given, str):
                raise BadInput(
                    f"{called} gave {_describe_type(given)} for the split '{split}': its method 'tasks' is to return a "
                    "list of skillopt_mcp.NewTask"
                )
            rows = list(given)
        for n, row in enumerate(rows, 1):
            try:
                found.append(_check_task(row, split, environment))
            except BadInput as error:
                own: object = getattr(row, "name", None)
                shown = f" {quoted(own)}" if isinstance(own, str) else ""
                raise BadInput(f"{called}, {split} task {n}{shown}: {error}") from None
    if not found:
        raise BadInput(f"{called} has no tasks")
    if all(task.split != "train" for task in found):
        raise BadInput(f"{called} has no train tasks: a run learns from them")
    return found


def _check_task(row: object, split: Split, environment: Environment) -> NewTask:
    """Return a task as it is stored. Raises BadInput for what is none, or stands in the wrong split."""
    if not isinstance(row, NewTask):
        raise BadInput(
            f"it is {_describe_type(row)}: give skillopt_mcp.NewTask(prompt, parse_judge({{'kind': ...}}), id)"
        )
    if not isinstance(row.prompt, str) or not row.prompt.strip() or len(row.prompt) > limits.PROMPT_CHARACTERS:
        raise BadInput(f"its prompt is to be a text of 1 to {limits.PROMPT_CHARACTERS:,} characters")
    if not isinstance(row.judge, Judge):
        raise BadInput(
            f"its judge is {_describe_type(row.judge)}: make it with skillopt_mcp.parse_judge({{'kind': ...}})"
        )
    check_judge(row.judge)
    own = environment.name
    if rolls_out(environment) and environment_of(row.judge) != own:
        raise BadInput(
            f"its judge is to be {{'kind': 'environment', 'name': '{own}'}}: 'rollout' scores its own attempts"
        )
    name = cast(object, row.name)
    if name is not None and not (isinstance(name, str) and len(name) <= limits.NAME_CHARACTERS):
        raise BadInput(f"its name is to be a text of up to {limits.NAME_CHARACTERS} characters, or None")
    if row.split not in (None, split):
        raise BadInput(f"its split is {quoted(str(row.split))}: tasks('{split}') is to give the {split} tasks alone")
    tags, files = _check_all(row.tags, str, "tags"), _check_all(row.files, TaskFile, "files")
    return replace(row, prompt=storable(row.prompt), split=split, tags=tags, files=files, group=parse_group(row.group))


def _check_all(given: object, kind: type[T], name: str) -> tuple[T, ...]:
    if isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(each, kind) for each in given):
        return tuple(given)
    raise BadInput(f"its {name} are to be a tuple of {kind.__name__}")


def _describe_type(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def list_names(group: str) -> list[str]:
    """Return the names that are registered in a group, sorted."""
    return sorted({point.name for point in entry_points(group=group)})


def open_registered(group: str, kind: str, name: str, options: str) -> object:
    """What an entry point of this name makes, which is called with the options as one text.

    Without any it is called with nothing where it takes that, and else with an empty text. Raises BadInput when there
    is none of that name or there are several, or it takes no such arguments, and whatever it raises itself.
    """
    points = [point for point in entry_points(group=group) if point.name == name]
    if not points:
        known = list_names(group)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        meant = f"did you mean {quoted(near[0])}? " if near else ""
        raise BadInput(f"unknown {kind} {quoted(name)}: {meant}Registered: {', '.join(known) or 'none'}")
    if len({point.value for point in points}) > 1:
        places = ", ".join(sorted(point.value for point in points))
        raise BadInput(f"the {kind} {quoted(name)} is registered more than once ({places}): uninstall one")

    factory: Callable[..., object] = points[0].load()
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return factory(options)
    given = [options] if options else next((each for each in ([], [""]) if _takes(signature, each)), [""])
    if not _takes(signature, given):
        takes = "no options" if _takes(signature, []) else "other arguments"
        raise BadInput(
            f"{quoted(getattr(factory, '__name__', 'it'), SHOWN)} takes {takes}: an entry point is called with one "
            f"text, here {quoted(options, SHOWN)}; register a function that reads it and returns the object"
        )
    return factory(*given)


def _takes(signature: inspect.Signature, given: Sequence[str]) -> bool:
    try:
        signature.bind(*given)
    except TypeError:
        return False
    return True


GROUP = "skillopt_mcp.environments"
_MEMBERS = ("name", "version", "task_types", "tasks")
SKILLOPTS_OWN = {
    "alfworld": "ALFWorldAdapter", "docvqa": "DocVQAAdapter", "livemathematicianbench": "LiveMathematicianBenchAdapter",
    "officeqa": "OfficeQAAdapter", "searchqa": "SearchQAAdapter", "spreadsheetbench": "SpreadsheetBenchAdapter",
}  # fmt: skip
"""The environments that SkillOpt 0.2 brings, by name, with the classes of their adapters."""


def environment_names() -> list[str]:
    """Return the names under which environments are registered, sorted."""
    return list_names(GROUP)


def open_environment(spec: str) -> Environment:
    """Return the environment of a spec, NAME or NAME:OPTIONS.

    The entry point NAME of the group `skillopt_mcp.environments` is called with the options as one text; without any,
    with nothing where it takes that, and else with an empty text. One of SkillOpt's own names opens its adapter. Raises
    BadInput when there is no such environment, or it cannot be opened.
    """
    name, _, options = spec.strip().partition(":")
    if name in SKILLOPTS_OWN and name not in environment_names():
        where = f"skillopt.envs.{name}.adapter:{SKILLOPTS_OWN[name]}"
        name, options = "skillopt", f"{where},{options}" if options else where
    with run_foreign(f"the environment {quoted(spec, SHOWN)} cannot be opened"):
        opened = open_registered(GROUP, "environment", name, options)
    return check_environment(opened, spec)


def open_source(
    tasks: Environment | Sequence[object] | str | os.PathLike[str] | None,
) -> Environment | list[object] | None:
    """The environment, or the rows, that a program gives or names; None for neither. Raises BadInput."""
    if isinstance(tasks, str | os.PathLike):
        path = Path(os.path.expanduser(tasks))
        if isinstance(tasks, str) and not path.exists() and path.suffix not in list_suffixes():
            return open_environment(tasks)
        evals = read_evals(path, EvalOptions())
        return [*filter(None, (case.make_task() for case in evals.cases))] if evals else read_rows(path)
    return tasks if tasks is None else list(tasks) if isinstance(tasks, Sequence) else check_environment(tasks)


def check_environment(value: object, spec: str = "") -> Environment:
    """Return a value as the environment that it is. Raises BadInput when it is none."""
    shown = quoted(spec or (value.__name__ if isinstance(value, type) else type(value).__name__), SHOWN)
    # Looked up without being read: a version may take a data set to compute.
    lacking = [name for name in _MEMBERS if getattr_static(value, name, None) is None]
    if lacking:
        raise BadInput(f"{shown} is not an environment, it has no '{lacking[0]}': see help(skillopt_mcp.Environment)")
    if isinstance(value, type):
        raise BadInput(f"{shown} is a class: give an environment made of it, {value.__name__}(...)")
    with run_foreign(f"{shown} has no name"):
        name: object = getattr(value, "name")  # noqa: B009
    if not isinstance(name, str) or not name.strip():
        raise BadInput(f"the name of {shown} is to be a text that is not empty, not {quoted(str(name))}")
    return cast(Environment, value)


_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_REAL = re.compile(r"[+-]?([0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18}|[0-9]{1,18}(?=[eE]))([eE][+-]?[0-9]{1,3})?")
_WORDS: dict[str, bool | None] = {
    "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "null": None, "~": None, "": None,
}  # fmt: skip
Scalar = str | int | float | bool | None


def plain_value(text: str) -> Scalar:
    """What a text written without quotes means: a number, a truth value, nothing, or the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text):
        return float(text)
    return text


def parse_options(text: str) -> dict[str, Scalar]:
    """Return the settings of "name=value,name=value". Raises BadInput for a part that is none, or comes twice."""
    found: dict[str, Scalar] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or name.strip() in found:
            raise BadInput(f"cannot use {quoted(part)}: write each setting once, as name=value")
        found[name.strip()] = plain_value(value.strip())
    return found


def check_left(name: str, offered: Sequence[NewTask], left: Sequence[NewTask], stored: Mapping[str, Split]) -> None:
    """Raise BadInput when the tasks that are left of those that the environment offered cannot be trained on.

    `stored` is the split of each task that is there already, by its digest.
    """
    first: dict[str, NewTask] = {}
    for task in left:
        # The store could keep only the first of two tasks of one name.
        if task.name and first.setdefault(task.name, task).digest != task.digest:
            other = first[task.name].split
            place = f"two {task.split} tasks" if other == task.split else f"a {other} task and a {task.split} task"
            way = "" if other == task.split else f", for instance {quoted(f'{task.split}-{task.name}')}"
            raise BadInput(
                f"the environment {quoted(name)} calls {place} {quoted(task.name)}: give each a name of its own{way}"
            )
    splits = dict(stored)
    for task in left:
        splits.setdefault(task.digest, cast(Split, task.split))
    if "train" not in {splits[task.digest] for task in left}:
        n = sum(task.split == "train" for task in offered)
        elsewhere = [splits[task.digest] for task in left if task.split == "train"]
        why = [f"{n - len(elsewhere):,} were retired"] if n > len(elsewhere) else []
        if elsewhere:
            there = " and ".join(sorted(set(elsewhere)))
            why.append(f"{len(elsewhere):,} are {there} tasks already (the same prompt, judge and files)")
        raise BadInput(
            f"none of the {n:,} train tasks of the environment {quoted(name)} can be used: {', '.join(why)}. "
            "A run learns from train tasks: let the environment give others, which no other split has"
        )


def find_unknown_environments(tasks: Iterable[Task], names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the tasks of these names that an environment scores which is not installed, and why they cannot be."""
    scored = [
        (task.name, leaf.name)
        for task in tasks
        for leaf in leaves(task.judge)
        if task.name in names and isinstance(leaf, ByEnvironment)
    ]
    there = environment_names() if scored else ()
    for name, environment in scored:
        # What follows the colon is up to the environment.
        if environment.partition(":")[0] not in there:
            yield (
                name,
                f"the environment {quoted(environment)} is not installed (installed: {', '.join(there) or 'none'})",
            )
