"""Plugin: a backend of another package, found by the name of its entry point."""

from __future__ import annotations

from skillopt_mcp.backends.base import Backend, concurrency_of, worst_case
from skillopt_mcp.backends.registry import backend
from skillopt_mcp.backends.user_backend import require_backend
from skillopt_mcp.core.calls import Call, Reply, Usage
from skillopt_mcp.core.errors import BackendError, BadInput
from skillopt_mcp.core.text import quoted
from skillopt_mcp.tasks.environments.registry import SHOWN, open_registered, run_foreign

GROUP = "skillopt_mcp.backends"
PREFIX = "plugin:"


class Plugged:
    """A backend under the spelling that it was opened by; whatever else it says of itself stays."""

    deferred = False

    def __init__(self, backend: Backend, model: str) -> None:
        self.name = f"{PREFIX}{model}"
        # Two may differ by their options alone; a simulation is known by what a fingerprint begins with.
        self.fingerprint = f"{backend.fingerprint}@{self.name}"
        self.concurrency = concurrency_of(backend)
        self._backend = backend

    async def complete(self, call: Call) -> Reply:
        """Return the backend's answer to one attempt. Raises what it raises."""
        return await self._backend.complete(call)

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt can use, None where there is no limit or the backend does not say."""
        return worst_case(self._backend, call)


@backend(
    "plugin",
    spec="plugin:NAME or plugin:NAME:OPTIONS",
    answers="a backend of another package ([Python](extending.md))",
    needs="that package",
)
def open_plugged(model: str) -> Backend:
    """Return the backend of a spec, NAME or NAME:OPTIONS: what the entry point of that name makes of the options.

    Raises BackendError when there is none, or what it makes cannot be used.
    """
    name, _, options = model.partition(":")
    shown = quoted(f"{PREFIX}{model}", SHOWN)
    try:
        with run_foreign(f"the backend {shown} cannot be opened"):
            opened = open_registered(GROUP, "backend", name, options)
        backend = require_backend(f"what the entry point of {shown} made", opened)
    except BadInput as error:
        raise BackendError(str(error)) from error
    if backend.deferred:
        raise BackendError(f"the backend {shown} is deferred, which a plugin cannot be: write deferred = False")
    return Plugged(backend, model)
