"""Base: the seam between calls and the models that answer them."""

from __future__ import annotations

import difflib
from math import inf
from typing import Protocol, get_args, runtime_checkable

from skillopt_mcp.core.calls import Arrival, Call, Fault, Reply, Role, Rollout, Usage
from skillopt_mcp.core.errors import BackendError
from skillopt_mcp.core.limits import MAX_CONCURRENCY
from skillopt_mcp.core.text import quoted

# More than any call can use, and few enough that the sum over all calls can be stored.
MOST = 10**12
_MAX_SHOWN = 40


def unusable_usage(usage: object) -> str:
    """Return why a usage cannot be kept: it is none, or its numbers would get round a cap. Empty when it can."""
    if not isinstance(usage, Usage):
        return f"its usage is of type {type(usage).__name__}, not skillopt_mcp.Usage"
    for name in ("tokens_in", "tokens_out", "tokens_cached"):
        n: object = getattr(usage, name)
        if not isinstance(n, int) or not 0 <= n <= MOST:
            return f"the {name} of its usage is {quoted(repr(n), _MAX_SHOWN)}, not a whole number from 0 to {MOST:,}"
    usd: object = usage.usd
    for name, amount in (("usd", 0 if usd is None else usd), ("latency_ms", usage.latency_ms)):
        # Not to be had of one that is not a number, nor of infinity.
        if not isinstance(amount, int | float) or not 0 <= amount <= MOST:
            return f"the {name} of its usage is {quoted(repr(amount), _MAX_SHOWN)}, not a number from 0 to {MOST:,}"
    return ""


FAULTS: tuple[Fault, ...] = get_args(Fault)
RETRYABLE: frozenset[Fault] = frozenset(
    {"rate_limit", "overloaded", "timeout", "connection", "server", "malformed", "worker_lost"}
)
FATAL: frozenset[Fault] = frozenset({"auth", "model_not_found", "unsupported"})

CHECK = "check"
CONCURRENCY = 8
# Longer than any run, and short enough to be a date.
_MAX_SECONDS = 1e9


class BackendFault(Exception):
    """One failed attempt at one call. `retry_after` is how many seconds the backend asks to be left alone, if it does.

    `fault` is its kind. Retried: "rate_limit", "overloaded", "server", "connection" (also where the wire hangs, or
    its body cannot be read), "worker_lost" (the process or the machine that asked is gone); for a question also
    "timeout" and "malformed" (no answer could be read), which an attempt at a task may bring upon itself. Recorded as
    missing at once: "refusal", "truncated", "empty", "context_too_long", "internal" (any other). "auth",
    "model_not_found" and "unsupported" (an option) end the run. `usage` is what the attempt cost all the same: one that
    was cut off is paid. One whose numbers cannot be is left out, and the message says so: then the attempt costs what
    one costs that does not say. `is_overload`, where it is set, says that
    a server of few slots was too slow for so many calls at once. Raises BackendError for a kind that is
    none, and for a message, a wait or a usage of another type.
    """

    is_overload = False

    def __init__(
        self, fault: Fault, message: str, retry_after: float | None = None, usage: Usage | None = None
    ) -> None:
        where = f"in a BackendFault ({quoted(str(message))})"
        if fault not in FAULTS:
            near = difflib.get_close_matches(str(fault), FAULTS, n=1, cutoff=0.0)[0]
            raise BackendError(
                f"unknown fault {quoted(str(fault))} {where}: did you mean '{near}'? Kinds: {', '.join(FAULTS)}"
            )
        if not isinstance(message, str):
            raise BackendError(
                f"the message of a BackendFault ({fault}) is of type {type(message).__name__}: give a text"
            )
        wrong = "" if usage is None else unusable_usage(usage)
        # Numbers that cannot be are left out.
        if wrong and not (isinstance(usage, Usage) and all(isinstance(each, int | float | None) for each in usage)):
            raise BackendError(
                f"{wrong} {where}: give usage a skillopt_mcp.Usage(...), or None where it is not known what was used"
            )
        self.fault = fault
        self.message = f"{message} (left out: {wrong})" if wrong else message
        wait: object = retry_after
        if wait is not None and not (isinstance(wait, int | float) and abs(wait) < inf):
            raise BackendError(f"retry_after is {quoted(repr(wait))} {where}: give a number of seconds, or None")
        # A time that is over is 0.
        self.retry_after = None if retry_after is None else float(min(max(retry_after, 0.0), _MAX_SECONDS))
        self.usage = None if wrong else usage
        super().__init__(self.message)

    def __reduce__(self) -> tuple[object, ...]:
        # It goes from one process to another by its arguments.
        return type(self), (self.fault, self.message, self.retry_after, self.usage), self.__dict__


class Backend(Protocol):
    """Who answers for a role: `train(target=, optimizer=, judge=)` takes it.

    A target is asked a Rollout (call.request), and answers as it would the task; optimizer and judge are asked a
    Question, and answer with one JSON object of the form that its `schema` names (see help(skillopt_mcp.Question)).
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


def environment_name(backend: Backend) -> str | None:
    """Return the name of the environment that answers as this backend, None for any other."""
    name: object = getattr(backend, "environment_name", None)
    return name if isinstance(name, str) else None


def concurrency_of(backend: Backend) -> int:
    """The calls that go to the backend at once by default: its `concurrency`, if it has any.

    Raises BackendError for any other value.
    """
    concurrency: object = getattr(backend, "concurrency", None)
    if concurrency is None:
        return CONCURRENCY
    if not isinstance(concurrency, int) or not 1 <= concurrency <= MAX_CONCURRENCY:
        raise BackendError(
            f"concurrency of the backend {quoted(backend.name)} must be 1-{MAX_CONCURRENCY}, got "
            f"{quoted(repr(concurrency))}"
        )
    return concurrency


def is_instant(backend: Backend) -> bool:
    """Whether answers take no time, so that they are asked for one by one, and come about again in the same order."""
    return bool(getattr(backend, "is_instant", False))


def no_backend(role: Role) -> BackendError:
    """Return the error for a role that no backend was named for."""
    return BackendError(
        f"no backend for the role '{role}': pass --{role} claude-code (uses your Claude login, no API key needed)"
    )


@runtime_checkable
class Bounded(Protocol):
    """A backend that knows the limit of what it can use."""

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at a call can use, None when there is no limit to it."""


def worst_case(backend: Backend, call: Call) -> Usage | None:
    """Return the most that one attempt at a call can use; None when there is no limit. An unknown price is None."""
    return backend.worst_case(call) if isinstance(backend, Bounded) else None


@runtime_checkable
class Loading(Protocol):
    """A backend whose program loads skills by itself, where `loads` says so."""

    loads: bool

    async def load(self, request: Rollout, *, by_prompt: bool) -> Arrival | None:
        """What comes of the request's skill in the program, asked by no model; None where there is no skill."""


@runtime_checkable
class Showing(Protocol):
    """A backend that stands before another one, and changes what it is shown."""

    def shown(self, call: Call) -> Call:
        """Return the call as the backend behind it is shown it."""


def shown(backend: Backend, call: Call) -> Call:
    """Return the call as the model behind the backend is shown it."""
    return backend.shown(call) if isinstance(backend, Showing) else call


def is_deferred(backend: Backend, call: Call) -> bool:
    """True for a call that is answered later, by another way: a judge may ask a host, yet run commands at once."""
    return backend.deferred and call.stage != CHECK
