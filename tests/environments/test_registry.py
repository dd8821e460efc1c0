"""Registry: how an entry point is called, and what an environment's own code may raise or return wrongly."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

from skillopt_mcp.core.errors import BadInput, NotFound
from skillopt_mcp.core.tasks import NewTask, Split
from skillopt_mcp.tasks.environments import registry
from skillopt_mcp.tasks.environments import registry as entries
from skillopt_mcp.tasks.environments.base import Environment
from skillopt_mcp.tasks.environments.registry import check_environment, list_tasks, open_environment, run_foreign
from skillopt_mcp.tasks.judges.judging import parse_judge


class Plain:
    """An environment without an argument."""

    name, version, task_types = "plain", "1", ("word",)

    def tasks(self, split: Split) -> list[NewTask]:
        return []


class Sized(Plain):
    """One whose only argument is no text."""

    def __init__(self, size: int = 20) -> None:
        self.size = size


class Needing(Plain):
    """One that cannot be made of a text alone."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size


class Named(Plain):
    """What reads the options."""

    def __init__(self, options: str) -> None:
        self.name = f"named {options or 'nothing'}"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = (Plain, Sized, Needing, Named)
    points = [EntryPoint(kind.__name__.lower(), f"{__name__}:{kind.__name__}", registry.GROUP) for kind in kinds]
    monkeypatch.setattr(entries, "entry_points", lambda group: points)


@pytest.mark.usefixtures("registered")
def test_an_entry_point_without_options_is_called_with_nothing_where_it_takes_that() -> None:
    found: Environment = open_environment("plain")
    assert found.name == "plain"
    sized = open_environment("sized")
    assert isinstance(sized, Sized)
    assert sized.size == 20


@pytest.mark.usefixtures("registered")
def test_an_entry_point_is_called_with_its_options_as_one_text() -> None:
    assert open_environment("named:a=1,b=2:c").name == "named a=1,b=2:c"
    assert open_environment("named").name == "named nothing"


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("plain:x=1", '"Plain" takes no options: an entry point is called with one text, here "x=1"'),
        ("needing", '"Needing" takes other arguments: an entry point is called with one text, here ""; register a'),
        ("needing:3", '"Needing" takes other arguments'),
    ],
)
def test_an_entry_point_that_takes_other_arguments_is_named(spec: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        open_environment(spec)
    assert message in str(error.value)


TASK = NewTask("why?", parse_judge({"kind": "exact", "expected": "so"}), "q1", tags=("why",))


def environment(tasks: Callable[[str], object]) -> Environment:
    return cast(Environment, SimpleNamespace(name="mine", version="1", task_types=(), tasks=tasks))


def broken(*_: object) -> object:
    raise RuntimeError("no\n  data")


def leaving(*_: object) -> object:
    raise SystemExit(3)


def halting(*_: object) -> Iterator[NewTask]:
    yield TASK
    raise KeyError("gone")


def test_an_exception_is_one_line_with_its_place() -> None:
    line = broken.__code__.co_firstlineno + 1
    line_out = f"it failed: RuntimeError: no data \\(test_registry.py, line {line}\\); correct that and retry"
    with pytest.raises(BadInput, match=f"^{line_out}$"), run_foreign("it failed"):
        broken()
    with pytest.raises(NotFound, match="mine"), run_foreign("it failed"):
        raise NotFound("mine")
    with pytest.raises(KeyboardInterrupt), run_foreign("it failed"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("error", [ValueError, BadInput, StopIteration, asyncio.CancelledError, BaseException])
def test_an_exception_is_shown_without_secrets(error: type[BaseException]) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3

    def leaking(*_: object) -> object:
        raise error(f"the key is {secret}")

    with pytest.raises(BadInput, match=r"the key is \[redacted:") as raised:
        list_tasks(environment(leaking))
    assert secret not in str(raised.value)


def test_tasks_of_an_environment_that_rolls_out_are_scored_by_itself() -> None:
    judge = parse_judge({"kind": "environment", "name": "mine"})
    given = SimpleNamespace(name="mine", version="1", task_types=(), rollout=broken, tasks=lambda _: [TASK])
    message = r"train task 1 \"q1\": its judge is to be \{'kind': 'environment', 'name': 'mine'\}"
    with pytest.raises(BadInput, match=message):
        list_tasks(cast(Environment, given))
    given.tasks = lambda _: [replace(TASK, judge=judge)]
    assert {task.judge for task in list_tasks(cast(Environment, given))} == {judge}


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (broken, "the environment 'mine' gave no train tasks: RuntimeError: no data (test_registry.py, line "),
        (halting, "gave no train tasks: KeyError: 'gone'"),
        (lambda split: [], "the environment 'mine' has no tasks"),
        (lambda split: [TASK] if split != "train" else [], "the environment 'mine' has no train tasks: a run learns"),
        (lambda split: [replace(TASK, group="g" * 129)], 'train task 1 "q1": group must be a text of up to 128'),
        (lambda split: [TASK, {"prompt": "x"}], "the environment 'mine', train task 2: it is of type dict: give"),
        (lambda split: [replace(TASK, prompt=" ")], 'train task 1 "q1": its prompt is to be a text of 1 to'),
        (lambda split: [replace(TASK, judge={"kind": "exact"})], "its judge is of type dict: make it with"),
        (lambda split: [replace(TASK, split="dev")], "its split is \"dev\": tasks('train') is to give the train tasks"),
        (lambda split: [replace(TASK, tags="why")], "its tags are to be a tuple of str"),
    ],
)
def test_what_is_not_a_task_is_named(tasks: Callable[[str], object], message: str) -> None:
    with pytest.raises(BadInput) as error:
        list_tasks(environment(tasks))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


class Mine:
    name, version, task_types = "mine", "1", ()

    def tasks(self, split: str) -> list[NewTask]:
        return []


class Nameless(Mine):
    name = ""


class Unnamed(Mine):
    name = property(broken)  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Mine, '"Mine" is a class: give an environment made of it, Mine(...)'),
        (Nameless(), 'the name of "Nameless" is to be a text that is not empty'),
        (Unnamed(), '"Unnamed" has no name: RuntimeError: no data'),
    ],
)
def test_what_is_not_an_environment_is_named(value: object, message: str) -> None:
    assert check_environment(Mine()).name == "mine"
    with pytest.raises(BadInput) as error:
        check_environment(value)
    assert message in str(error.value)


class Adapter:
    """A SkillOpt adapter with whatever a test puts in the place of its parts."""

    def __init__(self, size: int = 1) -> None:
        self.size = size

    def setup(self, cfg: dict[str, object]) -> None: ...

    def get_dataloader(self) -> object:
        return None

    def get_task_types(self) -> object:
        return ["t"]

    def rollout(self, *_: object) -> object:
        return None


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"__init__": broken}, "cannot be opened: RuntimeError: no data"),
        ({"setup": broken}, "gave no train tasks: RuntimeError: no data"),
        ({"setup": None}, "adapters:Made\" is not an EnvAdapter of SkillOpt: it has no method 'setup'"),
        ({"get_dataloader": lambda _: SimpleNamespace(get_split_items=lambda _: None)}, "gave NoneType, not a list"),
        ({}, "gave no train tasks: AttributeError: 'Made' object has no attribute 'build_train_env'"),
    ],
)
def test_an_adapter_that_fails_is_named(
    monkeypatch: pytest.MonkeyPatch, parts: dict[str, object], message: str
) -> None:
    module = ModuleType("adapters")
    built = {f"build_{kind}_env": lambda *_, **__: [{"id": "a"}] for kind in ("train", "eval")}
    module.Made = type("Made", (Adapter,), built | parts if parts else {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "adapters", module)
    with pytest.raises(BadInput) as error:
        list_tasks(open_environment("skillopt:adapters:Made,n_train=1,n_val=1,n_test=1"))
    assert message in str(error.value)
    assert "adapters:Made" in str(error.value)
