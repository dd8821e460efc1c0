"""Entries: what other packages register as entry points, by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.environments.foreign import SHOWN
from skillopt_mcp.errors import BadInput


def names(group: str) -> list[str]:
    """Return the names that are registered in a group, sorted."""
    return sorted({point.name for point in entry_points(group=group)})


def made(group: str, kind: str, name: str, options: str) -> object:
    """Return what an entry point of this name makes, which is called with the options as one text.

    Without any it is called with nothing where it takes that, and else with an empty text. Raises BadInput when there
    is none of that name or there are several, or it takes no such arguments, and whatever it raises itself.
    """
    return _called(_found(group, kind, name).load(), options)


def _called(factory: Callable[..., object], options: str) -> object:
    """Return what an entry point makes. Raises BadInput when it cannot be called with the options."""
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


def _found(group: str, kind: str, name: str) -> EntryPoint:
    points = [point for point in entry_points(group=group) if point.name == name]
    if not points:
        known = names(group)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        meant = f"did you mean {quoted(near[0])}? " if near else ""
        raise BadInput(f"unknown {kind} {quoted(name)}: {meant}Registered: {', '.join(known) or 'none'}")
    if len({point.value for point in points}) > 1:
        places = ", ".join(sorted(point.value for point in points))
        raise BadInput(f"the {kind} {quoted(name)} is registered more than once ({places}): uninstall one")
    return points[0]
