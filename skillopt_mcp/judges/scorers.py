"""Scorers: which environments score tasks themselves, and what may be attempted with whom as the target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skillopt_mcp.judges.judging import leaves
from skillopt_mcp.records.judging import ByEnvironment, ByHost, JudgeSpec
from skillopt_mcp.records.tasks import Task


def environment_of(spec: JudgeSpec) -> str | None:
    """Return the environment whose own score the judge takes over, or None."""
    return next((leaf.name for leaf in leaves(spec) if isinstance(leaf, ByEnvironment)), None)


def attemptable(tasks: Iterable[Task], environment: str | None) -> list[Task]:
    """Return the tasks that a target can get a score for: an environment its own, any other target the rest."""
    return [task for task in tasks if environment_of(task.judge) == environment]


def scored_by(tasks: Sequence[Task]) -> str:
    """Return what a verdict on these tasks must add: which environment or host scored them itself, if any."""
    names = sorted({name for task in tasks if (name := environment_of(task.judge))})
    said = [f"; scored by the environment {', '.join(repr(name) for name in names)} itself"] if names else []
    if any(isinstance(leaf, ByHost) for task in tasks for leaf in leaves(task.judge)):
        said.append("; scored by the host itself")
    return "".join(said)
