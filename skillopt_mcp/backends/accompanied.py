"""Accompanied: a target that has a second document at hand in every attempt, which is not the one under training."""

from __future__ import annotations

from skillopt_mcp.backends.base import Backend, environment_name, shown, slots_of, worst_case
from skillopt_mcp.backends.batches import batching
from skillopt_mcp.backends.names import BESIDE
from skillopt_mcp.records.calls import Call, Reply, Rollout, Usage
from skillopt_mcp.records.skills import SkillFiles, is_memory, short

_MOST_REMEMBERED = 64


class Accompanied:
    """A backend whose attempts see the files of `beside`, too.

    Its name and fingerprint say what is beside, so that a run, its calls and its evidence are those of both documents:
    no evidence with one companion counts for another, or for none.
    """

    def __init__(self, backend: Backend, beside: SkillFiles, called: str) -> None:
        self.name = f"{backend.name}{BESIDE}{called}@{short(beside.digest)}"
        self.fingerprint = f"{backend.fingerprint}{BESIDE}{beside.digest}"
        self.deferred = backend.deferred
        self.batching = batching(backend)
        self.n_slots = slots_of(backend)
        self.environment_name = environment_name(backend)
        self._backend = backend
        self._beside = beside
        self._joined: dict[str, SkillFiles] = {}

    async def complete(self, call: Call) -> Reply:
        """Return the backend's answer to the call with both documents."""
        return await self._backend.complete(self._both(call))

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at the call with both documents can use."""
        return worst_case(self._backend, self._both(call))

    def shown(self, call: Call) -> Call:
        """Return the call with both documents, as the backend is shown it."""
        return shown(self._backend, self._both(call))

    def _both(self, call: Call) -> Call:
        request = call.request
        if not isinstance(request, Rollout):
            return call
        mains = (request.files.main_path, self._beside.main_path)
        memory = next((path for path in mains if is_memory(path)), None)
        return call._replace(request=Rollout(self._files(request.files), request.task, memory))

    def _files(self, files: SkillFiles) -> SkillFiles:
        if len(self._joined) >= _MOST_REMEMBERED:
            self._joined.clear()
        return self._joined.setdefault(files.digest, SkillFiles((*files.files, *self._beside.files)))
