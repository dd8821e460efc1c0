"""Environment: an environment that attempts its tasks itself, as the backend of the role target."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Sequence

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.environments.base import Rolled, RolloutFailed, RollsOut, rolls_out
from skillopt_mcp.environments.foreign import SHOWN, foreign, raised
from skillopt_mcp.environments.registry import open_environment
from skillopt_mcp.errors import BackendError, BadInput
from skillopt_mcp.judges.environments import evaluation
from skillopt_mcp.records.calls import EVALUATION, Call, Message, Reply, Rollout, Usage, storable
from skillopt_mcp.records.judging import Score

PREFIX = "env:"


class Rolling:
    """Answers rollouts by the environment's own; the score goes into a message that only this backend writes."""

    deferred = False

    def __init__(self, environment: RollsOut, spec: str | None = None) -> None:
        self.environment = environment
        self.environment_name = environment.name
        self.name = f"{PREFIX}{spec or environment.name}"
        with foreign(f"the environment {quoted(environment.name, SHOWN)} cannot tell its version"):
            self.fingerprint = f"{PREFIX}{environment.name}@{environment.version}"

    async def complete(self, call: Call) -> Reply:
        """Return one attempt with its score recorded. Raises BackendFault when the environment broke it off."""
        if not isinstance(call.request, Rollout):
            raise BackendError(f"'{self.name}' only attempts its tasks: name another --optimizer BACKEND:MODEL")
        try:
            rolled = await self._rolled(call.request, call.draw)
        except RolloutFailed as failed:
            raise BackendFault("internal", str(failed)) from failed
        # What an environment does is foreign code: whatever it raises, a wish to exit too, is no verdict on the answer.
        except (Exception, SystemExit) as error:
            raise BackendFault("internal", f"'{self.name}' failed: {raised(error)}") from error
        try:
            return self._reply(_checked(rolled))
        except BadInput as error:
            raise BackendFault("internal", f"'{self.name}' gave no result that can be used: {error}") from error

    async def _rolled(self, request: Rollout, draw: str) -> Rolled:
        rollout = functools.partial(self.environment.rollout, request.task, request.files, draw)
        if inspect.iscoroutinefunction(self.environment.rollout):
            rolled = rollout()
        else:
            rolled = await asyncio.to_thread(rollout)
        return await rolled if inspect.isawaitable(rolled) else rolled

    def _reply(self, rolled: Rolled) -> Reply:
        """Return a reply with its score recorded. Raises BadInput when that is none."""
        score = Score(rolled.hard, rolled.soft, storable(rolled.reason), storable(rolled.hint))
        recorded = evaluation(self.environment_name, score)
        messages = tuple(message for message in rolled.messages if message.role != EVALUATION)
        return Reply(rolled.answer, (*messages, recorded), rolled.usage)


def _checked(rolled: object) -> Rolled:
    """Return what a rollout gave. Raises BadInput naming what of it has the wrong type."""
    if not isinstance(rolled, Rolled):
        raise BadInput(f"it is of type {type(rolled).__name__}, not skillopt_mcp.Rolled")
    for name, value in (("answer", rolled.answer), ("reason", rolled.reason), ("hint", rolled.hint)):
        if not isinstance(value, str):
            raise BadInput(f"its {name} is of type {type(value).__name__}, not a text")
    messages: object = rolled.messages
    if not isinstance(messages, Sequence) or not all(map(_is_message, messages)):
        raise BadInput("its messages are no tuple of skillopt_mcp.Message(role, content), both texts")
    if not isinstance(rolled.usage, Usage):
        raise BadInput(f"its usage is of type {type(rolled.usage).__name__}, not skillopt_mcp.Usage")
    return rolled


def _is_message(value: object) -> bool:
    return (
        isinstance(value, Message)
        and isinstance(value.role, str)
        and isinstance(value.content, str)
        and isinstance(value.name, str | None)
    )


def open_rolling(spec: str) -> Rolling:
    """Return the backend of an environment's spec. Raises BackendError when it leaves the rollouts to a model."""
    environment = open_environment(spec)
    if not rolls_out(environment):
        raise BackendError(f"the environment '{spec}' does not attempt its tasks itself: name --target BACKEND:MODEL")
    return Rolling(environment, spec)
