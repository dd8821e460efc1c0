"""Given: a backend that a program brings along, looked at before it is used, and so is each of its replies."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BackendError, BadInput
from skillopt_mcp.records.calls import Reply, Role, Usage

_WANTED = (
    "an object with name, fingerprint, deferred = False and 'async def complete(self, call) -> Reply': see "
    "help(skillopt_mcp.Backend)"
)


def checked_backend(role: Role, value: Backend | str | None) -> Backend | str | None:
    """Return what a program gave for a role. Raises BadInput when it is neither a backend nor BACKEND:MODEL."""
    given: object = value
    if given is None or isinstance(given, str):
        return value
    if isinstance(given, type):
        raise BadInput(f"the {role} is the class {given.__name__}: give a backend made of it, {given.__name__}(...)")
    said = f"the {role} is of type {type(given).__name__}"
    if not callable(getattr(given, "complete", None)):
        raise BadInput(f"{said}, which has no method 'complete': give 'BACKEND:MODEL', or {_WANTED}")
    for name in ("name", "fingerprint"):
        text: object = getattr(given, name, None)
        if not isinstance(text, str) or not text:
            raise BadInput(f"{said}, whose {name} is {quoted(repr(text))}, not a text: a backend is {_WANTED}")
    if not isinstance(getattr(given, "deferred", None), bool):
        raise BadInput(f"{said}, which has no 'deferred': write deferred = False; a backend is {_WANTED}")
    return value


async def awaited(name: str, replying: Awaitable[Reply]) -> Reply:
    """Return the reply of a backend's `complete`. Raises BackendError when it is none, or comes without await."""
    coming: object = replying
    if not inspect.isawaitable(coming):
        raise BackendError(f"'complete' of the backend {quoted(name)} is not async: write 'async def complete'")
    reply: object = await coming
    if not isinstance(reply, Reply):
        said = f"'complete' of the backend {quoted(name)} gave {type(reply).__name__}"
        raise BackendError(f"{said}, not a Reply: return skillopt_mcp.Reply(text, usage=skillopt_mcp.Usage(...))")
    if not isinstance(reply.text, str) or not isinstance(reply.usage, Usage):
        wrong = "text" if not isinstance(reply.text, str) else "usage"
        kind = type(getattr(reply, wrong)).__name__
        raise BackendError(f"the reply of the backend {quoted(name)} has a {wrong} of type {kind}: see Reply")
    return reply
