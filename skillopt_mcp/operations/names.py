"""Names: what callers may call a skill or any other thing by, before it is looked for."""

from __future__ import annotations

import re

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import NotFound
from skillopt_mcp.records.calls import storable

_LONGEST = 4096
_ID = re.compile(r"([ctrw])-\w*", re.IGNORECASE)
_VERSION = re.compile(r"(.+)@(\w*)", re.DOTALL)
_NAMED_VERSION = re.compile("(.+)@([0-9a-f]{8,64})", re.DOTALL)
_VERSION_ALONE = re.compile("[0-9a-f]{8,64}")
_TASK = re.compile("task-[0-9a-f]{8}")
_KINDS = {"c": ("a candidate", 12), "t": ("a promotion test", 12), "r": ("a run", 12), "w": ("work", 32)}


def id_meant(text: str) -> str:
    """Return what is wrong with a text that seems to be meant as an id and has not the shape of one, "" otherwise."""
    found = _ID.fullmatch(text)
    if found:
        kind, n_digits = _KINDS[found[1].lower()]
        shape = f"'{found[1].lower()}-' and {n_digits} digits of 0-9 and a-f"
        return f"{quoted(text)} is no id of {kind}, which is {shape}"
    if _TASK.fullmatch(text):
        return (
            f"{quoted(text)} seems to be a task's id, and no task is shown here: a person sees tasks by skillopt-mcp "
            "tasks list SKILL"
        )
    if is_version(text):
        return f"{quoted(text)} is a version of no skill here"
    found = _VERSION.fullmatch(text)
    if not found:
        return ""
    return f"{quoted(found[2])} is no version, which is given by 8 to 64 digits of 0-9 and a-f"


def version_named(id: str) -> tuple[str, str] | None:
    """Return the skill and the version that an id names, None when it names another thing."""
    found = _NAMED_VERSION.fullmatch(id)
    return (found[1], found[2]) if found else None


def is_version(id: str) -> bool:
    """Return whether an id may be that of a version alone, without its skill."""
    return _VERSION_ALONE.fullmatch(id) is not None


def known(name: str) -> str:
    """Return an id, a name or a path as it was given, but for blanks around an id or a name.

    Raises NotFound for a text that nothing can be called by.
    """
    name = name if "/" in name else name.strip()
    if not name or "\0" in name or len(name) > _LONGEST or storable(name) != name:
        raise NotFound(f"nothing is called {quoted(name)}: use an id, a name or a path as a result gave it")
    return name
