"""Base: the seam between a run and an environment, a source of tasks that may also attempt and score them itself."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeGuard

from skillopt_mcp.core.calls import Fault, Message, Usage
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import NewTask, Split, Task


class RolloutFailed(Exception):
    """An attempt broke off without a score, which is not a zero. `fault` is the kind of failure, as of a BackendFault.

    It is "internal" where the reason is not the answer's. An attempt that broke by its own answer is "refusal",
    "truncated", "empty", "timeout" or "context_too_long": a promotion test counts it against the version that does it.
    `usage` is what the attempt cost all the same, None where that is not known.
    """

    def __init__(self, message: str = "", fault: Fault = "internal", usage: Usage | None = None) -> None:
        super().__init__(message)
        self.fault = fault
        self.usage = usage


@dataclass(frozen=True, slots=True)
class Rolled:
    """The result of an environment's own rollout.

    `reason` may quote what was expected: people read it, and, of train tasks alone, the optimizer.
    """

    answer: str
    hard: bool
    soft: float
    reason: str = ""
    messages: tuple[Message, ...] = ()
    usage: Usage = field(default_factory=Usage)


class Environment(Protocol):
    """A source of tasks. `name` and `version` together name all that its tasks and its scores depend on.

    An object with these members is one; it inherits from nothing. What the command line names (`--env NAME:OPTIONS`),
    and a program by a text, is an entry point of the group `skillopt_mcp.environments`: in pyproject.toml

        [project.entry-points."skillopt_mcp.environments"]
        capitals = "my_package:open_capitals"

    It is called with OPTIONS, one text, and returns the environment. Without options it is called with nothing, or with
    an empty text where it needs one, so that a class whose arguments all have defaults will do.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def task_types(self) -> Sequence[str]:
        """The kinds of task there are; the first tag of each task is its kind."""

    def tasks(self, split: Split) -> Sequence[NewTask]:
        """Return the tasks of a split; the same ones each time."""


class RollsOut(Environment, Protocol):
    """An environment that attempts its tasks itself: its tasks carry the judge `environment` with its name.

    Caps on tokens and money hold where it knows the most that one attempt can use, and has a method `worst_case()` that
    returns it as a Usage.
    """

    def rollout(self, task: Task, files: SkillFiles, draw: str) -> Rolled | Awaitable[Rolled]:
        """Return one scored attempt, at once (in a thread of its own) or awaited; chance is seeded from `draw`.

        Each attempt at a task has a draw of its own, and no two tasks share one. Two versions that are compared on a
        task have the same there, and so has an attempt that is made once more at once, as after a timeout.

        Raises RolloutFailed when the attempt has no score.
        """


def rolls_out(environment: Environment) -> TypeGuard[RollsOut]:
    """Whether the environment attempts its tasks itself."""
    return callable(getattr(environment, "rollout", None))
