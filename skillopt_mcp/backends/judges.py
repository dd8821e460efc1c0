"""Judges: the backend of the role `judge`: rubrics go to a model, checks to the commands that a person registered."""

from __future__ import annotations

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Call, Reply

CHECK = "check"


class Judges:
    """Answers for the role `judge`; `model` is None where none was named, and then only checks are answered."""

    deferred = False

    def __init__(self, model: Backend | None, commands: Backend) -> None:
        if model is not None and model.deferred:
            raise BackendError(f"'{model.name}' cannot judge: it answers later, and a trial is judged when it comes in")
        self._model, self._commands = model, commands
        self.name = model.name if model else commands.name
        self.fingerprint = f"{model.fingerprint if model else 'none'}+{commands.fingerprint}"

    async def complete(self, call: Call) -> Reply:
        """Return the answer to a call. Raises what its answerer raises, BackendError when there is none."""
        if call.stage == CHECK:
            return await self._commands.complete(call)
        if self._model is None:
            raise BackendError("no backend is set for the role 'judge': start with --judge BACKEND:MODEL")
        return await self._model.complete(call)
