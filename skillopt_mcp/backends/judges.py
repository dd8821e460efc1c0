"""Judges: the backend of the role `judge`: rubrics go to a model, checks to the commands that a person registered."""

from __future__ import annotations

from skillopt_mcp.backends.base import CHECK, Backend, shown, slots_of, worst_case
from skillopt_mcp.backends.batches import batching
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Call, Reply, Usage


class Judges:
    """Answers for the role `judge`; `model` is None where none was named, and then only checks are answered.

    `model_name` is the model's name, empty without one.
    """

    def __init__(self, model: Backend | None, commands: Backend) -> None:
        self.deferred = model is not None and model.deferred
        self.batching = batching(model)
        self._model, self._commands = model, commands
        self.n_slots = slots_of(model or commands)
        self.name = model.name if model else commands.name
        self.model_name = model.name if model else ""
        self.fingerprint = f"{model.fingerprint if model else 'none'}+{commands.fingerprint}"

    async def complete(self, call: Call) -> Reply:
        """Return the answer to a call. Raises what its answerer raises, BackendError when there is none."""
        if call.stage == CHECK:
            return await self._commands.complete(call)
        if self._model is None:
            raise BackendError("no backend is set for the role 'judge': start with --judge BACKEND:MODEL")
        return await self._model.complete(call)

    def shown(self, call: Call) -> Call:
        """Return the call as its answerer is shown it."""
        return shown(self._model, call) if self._model and call.stage != CHECK else call

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at a call can use; what a command does is not paid for."""
        if call.stage == CHECK or self._model is None:
            return Usage(usd=0.0)
        return worst_case(self._model, call)
