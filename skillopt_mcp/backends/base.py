"""Base: the seam between calls and whoever answers them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from skillopt_mcp.records.calls import Call, Fault, Reply, Usage

RETRYABLE: frozenset[Fault] = frozenset({"rate_limit", "overloaded", "timeout", "connection", "server", "malformed"})
FATAL: frozenset[Fault] = frozenset({"auth", "model_not_found", "unsupported"})

CHECK = "check"
SLOTS = 8


class BackendFault(Exception):
    """One failed attempt at one call. `retry_after` is how many seconds the backend asks to be left alone, if it does.

    A fault in RETRYABLE may be tried again, one in FATAL ends the run, any other is recorded as missing at once.
    `usage` is what the attempt cost all the same: an answer that was cut off is paid.
    """

    def __init__(
        self, fault: Fault, message: str, retry_after: float | None = None, usage: Usage | None = None
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.message = message
        self.retry_after = retry_after
        self.usage = usage


class Backend(Protocol):
    """Who answers for a role.

    `name` is its spelling for people; `fingerprint` changes when equal calls may be answered otherwise, and no sooner;
    a `deferred` backend answers later by another way, and is never asked to complete a call.
    """

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def deferred(self) -> bool: ...

    async def complete(self, call: Call) -> Reply:
        """Return the answer to one attempt at `call`. Raises BackendFault when the attempt failed."""
        ...


def environment_name(backend: Backend) -> str | None:
    """Return the name of the environment that answers as this backend, None for any other."""
    name: object = getattr(backend, "environment_name", None)
    return name if isinstance(name, str) else None


def slots_of(backend: Backend) -> int:
    """Return how many calls the backend is sent at once where nobody says otherwise: its `n_slots`, if it has any."""
    n_slots: object = getattr(backend, "n_slots", SLOTS)
    return n_slots if isinstance(n_slots, int) else SLOTS


@runtime_checkable
class Bounded(Protocol):
    """A backend that knows the limit of what it can use."""

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at a call can use, None when there is no limit to it."""
        ...


def worst_case(backend: Backend, call: Call) -> Usage | None:
    """Return the most that one attempt at a call can use; None when there is no limit. An unknown price is None."""
    return backend.worst_case(call) if isinstance(backend, Bounded) else None


@runtime_checkable
class Showing(Protocol):
    """A backend that stands before another one, and changes what it is shown."""

    def shown(self, call: Call) -> Call:
        """Return the call as the backend behind it is shown it."""
        ...


def shown(backend: Backend, call: Call) -> Call:
    """Return the call as whoever answers it is shown it."""
    return backend.shown(call) if isinstance(backend, Showing) else call


def is_deferred(backend: Backend, call: Call) -> bool:
    """Return whether a call is answered later, by another way: a judge may ask a host, yet run commands at once."""
    return backend.deferred and call.stage != CHECK
