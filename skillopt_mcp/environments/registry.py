"""Registry: environments by name, those that ship and those that other packages register as entry points."""

from __future__ import annotations

from inspect import getattr_static
from typing import cast

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.environments.base import Environment
from skillopt_mcp.environments.entries import made, names
from skillopt_mcp.environments.foreign import SHOWN, foreign
from skillopt_mcp.errors import BadInput

GROUP = "skillopt_mcp.environments"
_MEMBERS = ("name", "version", "task_types", "tasks")


def environment_names() -> list[str]:
    """Return the names under which environments are registered, sorted."""
    return names(GROUP)


def open_environment(spec: str) -> Environment:
    """Return the environment of a spec, NAME or NAME:OPTIONS.

    The entry point NAME of the group `skillopt_mcp.environments` is called with the options as one text; without any,
    with nothing where it takes that, and else with an empty text. Raises BadInput when there is no such environment, or
    it cannot be opened.
    """
    name, _, options = spec.strip().partition(":")
    with foreign(f"the environment {quoted(spec, SHOWN)} cannot be opened"):
        opened = made(GROUP, "environment", name, options)
    return checked(opened, spec)


def checked(value: object, spec: str = "") -> Environment:
    """Return a value as the environment that it is. Raises BadInput when it is none."""
    shown = quoted(spec or (value.__name__ if isinstance(value, type) else type(value).__name__), SHOWN)
    # Looked up without being read: a version may take a data set to compute.
    lacking = [name for name in _MEMBERS if getattr_static(value, name, None) is None]
    if lacking:
        raise BadInput(f"{shown} is no environment, it has no '{lacking[0]}': see help(skillopt_mcp.Environment)")
    if isinstance(value, type):
        raise BadInput(f"{shown} is a class: give an environment made of it, {value.__name__}(...)")
    with foreign(f"{shown} cannot tell its name"):
        name: object = getattr(value, "name")  # noqa: B009
    if not isinstance(name, str) or not name.strip():
        raise BadInput(f"the name of {shown} is to be a text that is not empty, not {quoted(str(name))}")
    return cast(Environment, value)
