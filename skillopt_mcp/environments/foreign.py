"""Foreign: the code of an environment's owner, called so that whatever it raises or gives is told in one line."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

from skillopt_mcp import limits
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.environments.base import Environment, rolls_out
from skillopt_mcp.errors import BadInput, SkillOptError
from skillopt_mcp.judges.scorers import environment_of
from skillopt_mcp.judges.specs import check_spec
from skillopt_mcp.records.calls import storable
from skillopt_mcp.records.judging import SPECS
from skillopt_mcp.records.tasks import SPLITS, NewTask, Split, TaskFile
from skillopt_mcp.redaction.redacting import Redactor

T = TypeVar("T")
SHOWN = 200
_OURS = str(Path(__file__).parents[1])
_LIBRARY = str(Path(traceback.__file__).parent)
_TOLD = 500
_REDACTOR = Redactor()


@contextmanager
def foreign(what: str) -> Iterator[None]:
    """Enter to run an environment's own code. Raises BadInput that says what went wrong there, and where."""
    try:
        yield
    except SkillOptError as error:
        text = _REDACTOR.text(str(error))
        if text == str(error):
            raise
        raise BadInput(text) from None
    # The code is the user's own: whatever it raises is told as what it is, its wish to exit too.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | GeneratorExit):
            raise
        raise BadInput(f"{what}: {raised(error)}; correct that, and try again") from error


def is_stop(error: BaseException) -> bool:
    """Return whether what came out of awaited foreign code was sent there: Ctrl-C, or a cancellation asked for."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def raised(error: BaseException, redactor: Redactor = _REDACTOR) -> str:
    """Return what foreign code raised on one line, without secrets, with the place in that code."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_foreign(frame.filename)]
    # A syntax error tells its own place.
    told = frames and not isinstance(error, SyntaxError)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if told else ""
    text = " ".join(said_by(error, redactor).split())
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{said if len(said) <= _TOLD else said[:_TOLD] + '...'}{place}"


def said_by(error: BaseException, redactor: Redactor = _REDACTOR) -> str:
    """Return the text of what foreign code raised, without secrets."""
    try:
        return redactor.text(str(error))
    except Exception as broken:  # noqa: BLE001 - to spell it out is the foreign code's own work, too
        return f"its text cannot be told ({type(broken).__name__})"


def _is_foreign(path: str) -> bool:
    return "site-packages" in path or not path.startswith((_OURS, _LIBRARY, "<"))


def tasks_of(environment: Environment) -> list[NewTask]:
    """Return all tasks of an environment, each with its split. Raises BadInput naming the first that is none."""
    called = f"the environment '{environment.name}'"
    found: list[NewTask] = []
    for split in SPLITS:
        with foreign(f"{called} gave no {split} tasks"):
            given: object = environment.tasks(split)
            if not isinstance(given, Iterable) or isinstance(given, str):
                raise BadInput(
                    f"{called} gave {_kind(given)} for the split '{split}': its method 'tasks' is to return a list of "
                    "skillopt_mcp.NewTask"
                )
            rows = list(given)
        for n, row in enumerate(rows, 1):
            try:
                found.append(_task(row, split, environment))
            except BadInput as error:
                raise BadInput(f"{called}, {split} task {n}{_named(row)}: {error}") from None
    if not found:
        raise BadInput(f"{called} has no tasks")
    lacking = [split for split in ("train", "val") if all(task.split != split for task in found)]
    if lacking:
        raise BadInput(f"{called} has no {lacking[0]} tasks: a run learns from train tasks and chooses by val tasks")
    return found


def _task(row: object, split: Split, environment: Environment) -> NewTask:
    """Return a task as it is stored. Raises BadInput for what is none, or stands in the wrong split."""
    if not isinstance(row, NewTask):
        raise BadInput(f"it is {_kind(row)}: give skillopt_mcp.NewTask(prompt, parse_judge({{'kind': ...}}), id)")
    if not isinstance(row.prompt, str) or not row.prompt.strip() or len(row.prompt) > limits.PROMPT_CHARACTERS:
        raise BadInput(f"its prompt is to be a text of 1 to {limits.PROMPT_CHARACTERS:,} characters")
    if not isinstance(row.judge, tuple(SPECS.values())):
        raise BadInput(f"its judge is {_kind(row.judge)}: make it with skillopt_mcp.parse_judge({{'kind': ...}})")
    check_spec(row.judge)
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
    tags, files = _all(row.tags, str, "tags"), _all(row.files, TaskFile, "files")
    return replace(row, prompt=storable(row.prompt), split=split, tags=tags, files=files)


def _all(given: object, kind: type[T], name: str) -> tuple[T, ...]:
    if isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(each, kind) for each in given):
        return tuple(given)
    raise BadInput(f"its {name} are to be a tuple of {kind.__name__}")


def _named(row: object) -> str:
    name: object = getattr(row, "name", None)
    return f" {quoted(name)}" if isinstance(name, str) else ""


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
