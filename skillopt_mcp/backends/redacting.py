"""Redacting: a backend that is shown no secret of the evidence, and whose secrets nobody is shown."""

from __future__ import annotations

from dataclasses import replace

from skillopt_mcp.backends.base import Backend, BackendFault, environment_name, shown, slots_of, worst_case
from skillopt_mcp.backends.batches import batching
from skillopt_mcp.backends.given import awaited, checked_bound
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.environments.foreign import is_stop, raised
from skillopt_mcp.errors import BackendError, SkillOptError, Waiting
from skillopt_mcp.records.calls import Call, Question, Reply, Rollout, Usage
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.redaction.redacting import Redactor


class Redacting:
    """A backend with a redactor before and behind it: questions to the optimizer, all replies, all failures.

    What a task says itself is a person's own, and stays. Name and fingerprint are the backend's: calls keep their keys.
    """

    def __init__(self, backend: Backend, redactor: Redactor) -> None:
        self.name = backend.name
        self.fingerprint = backend.fingerprint
        self.deferred = backend.deferred
        self.batching = batching(backend)
        self.n_slots = slots_of(backend)
        self.environment_name = environment_name(backend)
        self._backend = backend
        self._redactor = redactor

    async def complete(self, call: Call) -> Reply:
        """Return the backend's answer without secrets.

        Raises BackendFault or BackendError as the backend does, without secrets; whatever else it raises is a fault.
        """
        try:
            reply = await awaited(self.name, self._backend.complete(self._shown(call)))
        except BackendFault as fault:
            text = self._redactor.text(str(fault.message))
            raise BackendFault(fault.fault, text, fault.retry_after, fault.usage) from None
        except BackendError as error:
            text = self._redactor.text(str(error))
            if text == str(error):
                raise
            raise BackendError(text) from None
        except (SkillOptError, Waiting):
            raise
        # A program's own backend is foreign code: whatever it raises is this call's failure, not the run's.
        except BaseException as error:
            if is_stop(error) or isinstance(error, SystemExit):
                raise
            raise BackendFault("internal", f"'{self.name}' failed: {raised(error, self._redactor)}") from error
        return self._kept(call, reply)

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at the call can use. Raises BackendError when the backend cannot tell."""
        try:
            most = worst_case(self._backend, call)
        except SkillOptError:
            raise
        # Foreign code, too: its wish to exit is no way to end a run without a word.
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | GeneratorExit):
                raise
            told = raised(error, self._redactor)
            raise BackendError(f"'worst_case' of the backend {quoted(self.name)} failed: {told}; mend that") from error
        return checked_bound(self.name, most)

    def shown(self, call: Call) -> Call:
        """Return the call as the backend is shown it."""
        return shown(self._backend, self._shown(call))

    def _shown(self, call: Call) -> Call:
        request = call.request
        if call.role != "optimizer" or not isinstance(request, Question):
            return call
        evidence = self._redactor.text(request.evidence)
        return call if evidence is request.evidence else call._replace(request=replace(request, evidence=evidence))

    def _kept(self, call: Call, reply: Reply) -> Reply:
        return redacted(self._redactor, reply, call.request.task if isinstance(call.request, Rollout) else None)


def redacted(redactor: Redactor, reply: Reply, task: Task | None) -> Reply:
    """Return a reply without secrets; what its task says itself may stay."""
    said = [reply.text, *(message.content for message in reply.messages)]
    if redactor.texts(said) == said:
        return reply
    text, *contents = redactor.texts(said, _own_texts(task) if task else "")
    told = zip(reply.messages, contents, strict=True)
    return reply._replace(text=text, messages=tuple(message._replace(content=content) for message, content in told))


def _own_texts(task: Task) -> str:
    return "\n".join((task.prompt, task.judge.model_dump_json(), *(file.content for file in task.files)))
