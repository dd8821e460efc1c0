"""Environment: an environment that attempts its tasks itself, as the backend of the role target."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import cast

from skillopt_mcp.backends.base import FATAL, FAULTS, BackendFault, unusable_usage
from skillopt_mcp.backends.registry import backend
from skillopt_mcp.backends.user_backend import describe_unusable
from skillopt_mcp.core.calls import EVALUATION, Call, Reply, Rollout, Usage
from skillopt_mcp.core.errors import BackendError, BadInput
from skillopt_mcp.core.judging import Score
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.tasks.environments.base import Rolled, RolloutFailed, RollsOut, rolls_out
from skillopt_mcp.tasks.environments.registry import (
    SHOWN,
    describe_raised,
    is_stop,
    open_environment,
    read_message,
    run_foreign,
)
from skillopt_mcp.tasks.judges.kinds.reported import environment_evaluation

PREFIX = "env:"


class _BrokenOff(Exception):
    """What a rollout in a thread of its own raised, as the fault that it is."""

    def __init__(self, fault: BackendFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Rolling:
    """Answers rollouts by the environment's own; the score goes into a message that only this backend writes."""

    deferred = False

    def __init__(self, environment: RollsOut, spec: str | None = None) -> None:
        self.environment = environment
        self.environment_name = environment.name
        self.name = f"{PREFIX}{spec or environment.name}"
        with run_foreign(f"the environment {quoted(environment.name, SHOWN)} has no version"):
            self.fingerprint = f"{PREFIX}{environment.name}@{environment.version}"

    async def complete(self, call: Call) -> Reply:
        """Return one attempt with its score recorded. Raises BackendFault when the environment broke it off."""
        if not isinstance(call.request, Rollout):
            raise BackendError(f"'{self.name}' only attempts its tasks: name another --optimizer BACKEND:MODEL")
        try:
            return self._reply(await self._roll_out(call.request, call.draw))
        except BadInput as error:
            raise BackendFault("internal", f"'{self.name}' gave no result that can be used: {error}") from error

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt can use, None where the environment does not say."""
        bound: object = getattr(self.environment, "worst_case", None)
        return cast(Callable[[], Usage | None], bound)() if callable(bound) else None

    async def _roll_out(self, request: Rollout, draw: str) -> object:
        # The tasks of a wave have one draw, and each is to have luck of its own.
        draw = f"{draw}/{request.task.name}"
        rollout: Callable[[], object] = functools.partial(self.environment.rollout, request.task, request.files, draw)
        # An environment is foreign code: whatever it raises, an exit too, is not a verdict on the answer.
        try:
            is_async = inspect.iscoroutinefunction(self.environment.rollout)
            given = rollout() if is_async else await asyncio.to_thread(self._at_once, rollout)
            return await given if inspect.isawaitable(given) else given
        except _BrokenOff as broken:
            raise broken.fault from broken.__cause__
        except BaseException as error:
            if is_stop(error):
                raise
            raise self._fault(error) from error

    def _at_once(self, rollout: Callable[[], object]) -> object:
        """The result of a rollout. Raises _BrokenOff: not all that it may raise gets from one thread to another."""
        try:
            return rollout()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise _BrokenOff(self._fault(error)) from error

    def _fault(self, error: BaseException) -> BackendFault:
        """The fault of an attempt that broke off, as the environment reports it; none of them ends the run."""
        if not isinstance(error, RolloutFailed):
            return BackendFault("internal", f"'{self.name}' failed: {describe_raised(error)}")
        reported, message = getattr(error, "fault", "internal"), read_message(error)
        kind = next((each for each in FAULTS if each == reported and each not in FATAL), None)
        if kind is None:
            message = f"{message} (unknown fault {quoted(repr(reported), SHOWN)})"
        usage: object = getattr(error, "usage", None)
        wrong = "" if usage is None else unusable_usage(usage)
        if wrong:
            message = f"{message} (left out: {wrong})"
        used = usage if isinstance(usage, Usage) and not wrong else None
        return BackendFault(kind or "internal", message, usage=used)

    def _reply(self, rolled: object) -> Reply:
        """A rollout's result as a reply with its score recorded. Raises BadInput naming what of it cannot be used."""
        if not isinstance(rolled, Rolled):
            raise BadInput(f"it is of type {type(rolled).__name__}, not skillopt_mcp.Rolled")
        for name, value in (("answer", rolled.answer), ("reason", rolled.reason)):
            if not isinstance(value, str):
                raise BadInput(f"its {name} is of type {type(value).__name__}, not a text")
        wrong = describe_unusable(rolled.messages, rolled.usage)
        if wrong:
            raise BadInput(wrong)
        score = Score(rolled.hard, rolled.soft, storable(rolled.reason))
        recorded = environment_evaluation(self.environment_name, score)
        messages = tuple(message for message in rolled.messages if message.role != EVALUATION)
        return Reply(rolled.answer, (*messages, recorded), rolled.usage)


@backend(
    "env",
    spec="env:NAME",
    answers="an environment that attempts its tasks itself ([Python](extending.md))",
    needs="that environment",
    is_asked=False,
)
def open_rolling(spec: str) -> Rolling:
    """Return the backend of an environment's spec. Raises BackendError when it leaves the rollouts to a model."""
    environment = open_environment(spec)
    if not rolls_out(environment):
        raise BackendError(f"the environment '{spec}' does not attempt its tasks itself: name --target BACKEND:MODEL")
    return Rolling(environment, spec)
