"""Registry: how an entry point is called."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from skillopt_mcp.environments import registry
from skillopt_mcp.environments import registry as entries
from skillopt_mcp.environments.base import Environment
from skillopt_mcp.environments.registry import open_environment
from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.tasks import NewTask, Split


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


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = (Plain, Sized, Needing, Named)
    points = [EntryPoint(kind.__name__.lower(), f"{__name__}:{kind.__name__}", registry.GROUP) for kind in kinds]
    monkeypatch.setattr(entries, "entry_points", lambda group: points)


def test_an_entry_point_without_options_is_called_with_nothing_where_it_takes_that() -> None:
    found: Environment = open_environment("plain")
    assert found.name == "plain"
    sized = open_environment("sized")
    assert isinstance(sized, Sized)
    assert sized.size == 20


def test_an_entry_point_is_called_with_its_options_as_one_text() -> None:
    assert open_environment("named:a=1,b=2:c").name == "named a=1,b=2:c"
    assert open_environment("named").name == "named nothing"


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
