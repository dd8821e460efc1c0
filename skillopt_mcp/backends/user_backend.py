"""User backend: one that a program passes in; it is checked before it is used, and so is each of its replies."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from typing import cast, get_args

from skillopt_mcp.backends.base import Backend, unusable_usage
from skillopt_mcp.backends.registry import is_spec
from skillopt_mcp.core.calls import Fault, Message, Reply, Usage
from skillopt_mcp.core.errors import BackendError, BadInput
from skillopt_mcp.core.text import quoted

_SHOWN = 40
_WANTED = (
    "an object with name, fingerprint, deferred = False and 'async def complete(self, call) -> Reply': see "
    "help(skillopt_mcp.Backend)"
)


def require_backend(called: str, given: object) -> Backend:
    """Return a value as the backend that it is, `called` so where it is none. Raises BadInput then."""
    if isinstance(given, type):
        raise BadInput(f"{called} is the class {given.__name__}: give a backend made of it, {given.__name__}(...)")
    said = f"{called} is of type {type(given).__name__}"
    if not callable(getattr(given, "complete", None)):
        raise BadInput(f"{said}, which has no method 'complete': give 'BACKEND:MODEL', or {_WANTED}")
    for name in ("name", "fingerprint"):
        text: object = getattr(given, name, None)
        if not isinstance(text, str) or not text:
            raise BadInput(f"{said}, whose {name} is {quoted(repr(text))}, not a text: a backend is {_WANTED}")
        is_ours = type(given).__module__.partition(".")[0] == __name__.partition(".")[0]
        if name == "name" and is_spec(text) and not is_ours:
            raise BadInput(
                f"{said}, whose name is {quoted(text)}: a backend of skillopt-mcp has that name; give another, for "
                f"instance {quoted(f'my-{text}')}"
            )
    if not isinstance(getattr(given, "deferred", None), bool):
        raise BadInput(f"{said}, which has no 'deferred': write deferred = False; a backend is {_WANTED}")
    return cast(Backend, given)


async def await_reply(name: str, replying: Awaitable[Reply]) -> Reply:
    """Return the reply of a backend's `complete`.

    Raises BackendError when it is none, comes without await, or cannot be kept: the next one would be no other.
    """
    coming: object = replying
    if not inspect.isawaitable(coming):
        raise BackendError(f"'complete' of the backend {quoted(name)} is not async: write 'async def complete'")
    reply: object = await coming
    if not isinstance(reply, Reply):
        said = f"'complete' of the backend {quoted(name)} gave {type(reply).__name__}"
        raise BackendError(f"{said}, not a Reply: return skillopt_mcp.Reply(text, usage=skillopt_mcp.Usage(...))")
    kinds = {"text": str, "usage": Usage, "served": str}
    wrong = next((name for name, kind in kinds.items() if not isinstance(getattr(reply, name), kind)), "")
    if wrong:
        kind = type(getattr(reply, wrong)).__name__
        raise BackendError(f"the reply of the backend {quoted(name)} has a {wrong} of type {kind}: see Reply")
    wrong = describe_unusable(reply.messages, reply.usage)
    if not wrong and reply.fault not in (None, *get_args(Fault)):
        wrong = f"its fault is {quoted(repr(reply.fault), _SHOWN)}, not one of {', '.join(get_args(Fault))}"
    if wrong:
        raise BackendError(f"the reply of the backend {quoted(name)} cannot be used: {wrong}")
    return reply if isinstance(reply.messages, tuple) else reply._replace(messages=tuple(reply.messages))


def describe_unusable(messages: object, usage: object) -> str:
    """Why what came with an answer cannot be kept: no transcript, or a usage that would get round a cap."""
    is_transcript = isinstance(messages, Sequence) and all(
        isinstance(each, Message) and all(map(isinstance, each, (str, str, str | None))) for each in messages
    )
    if isinstance(messages, str) or not is_transcript:
        return "its messages are not a tuple of skillopt_mcp.Message(role, content), both texts"
    return unusable_usage(usage)
