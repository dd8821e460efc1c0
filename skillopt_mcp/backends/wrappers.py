"""Wrappers: backends around another one: without secrets, or with registered commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from skillopt_mcp.backends.base import (
    CHECK,
    Backend,
    BackendFault,
    Loading,
    concurrency_of,
    environment_name,
    is_instant,
    no_backend,
    shown,
    unusable_usage,
    worst_case,
)
from skillopt_mcp.backends.programs import CommandRunner
from skillopt_mcp.backends.registry import backend_name, kind_of, open_backend
from skillopt_mcp.backends.user_backend import await_reply
from skillopt_mcp.core.calls import AGAINST, HOST, Arrival, Call, Question, Reply, Rollout, Usage
from skillopt_mcp.core.errors import BackendError, SkillOptError, Waiting
from skillopt_mcp.core.redacting import Redactor
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.text import quoted
from skillopt_mcp.prompts.rendering import cut_message
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.environments.registry import describe_raised, is_stop
from skillopt_mcp.tasks.judges.judging import leaves
from skillopt_mcp.tasks.judges.kinds.command import CommandJudge
from skillopt_mcp.tasks.judges.kinds.rubric import Rubric
from skillopt_mcp.tasks.judges.kinds.text import Exact


class Wrapper:
    """A backend around another one, which has its name, its fingerprint and its ways to be asked."""

    def __init__(self, backend: Backend) -> None:
        self.name = backend.name
        self.fingerprint = backend.fingerprint
        self.deferred = backend.deferred
        self.concurrency = concurrency_of(backend)
        self.is_instant = is_instant(backend)
        self.environment_name = environment_name(backend)
        self.stages: frozenset[str] | None = getattr(backend, "stages", None)
        self.loads = isinstance(backend, Loading) and backend.loads
        self._backend = backend

    async def load(self, request: Rollout, *, by_prompt: bool) -> Arrival | None:
        """What comes of the skill, as the backend is shown it, in a program that loads it; None where none does."""
        return await self._backend.load(request, by_prompt=by_prompt) if isinstance(self._backend, Loading) else None


class HostMade(Wrapper):
    """A backend that an agent's own program brings along: its evidence is a host's, as that of its sub-agents."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.fingerprint = f"{HOST}:{self.fingerprint}"

    async def complete(self, call: Call) -> Reply:
        """Return the backend's answer to the call."""
        return await self._backend.complete(call)

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at the call can use."""
        return worst_case(self._backend, call)


class TwoModels(Wrapper):
    """Two backends that are compared on one text: the second one answers for a test's candidate, the first one else."""

    def __init__(self, old: Backend, new: Backend) -> None:
        super().__init__(old)
        self._both = old, new
        self.name, self.fingerprint = f"{old.name}{AGAINST}{new.name}", f"{old.fingerprint}{AGAINST}{new.fingerprint}"
        self.deferred = old.deferred or new.deferred
        self.concurrency = min(map(concurrency_of, self._both))
        self.loads = any(isinstance(each, Loading) and each.loads for each in self._both)

    async def complete(self, call: Call) -> Reply:
        """The answer of the model that the arm in the call's draw names."""
        return await self._both["candidate" in call.draw.split("/")].complete(call)

    def worst_case(self, call: Call) -> Usage | None:
        """The most that an attempt with either can use; what is not known of one is not known."""
        found = [each for each in (worst_case(each, call) for each in self._both) if each]
        return max(found, key=lambda each: (each.usd is None, each.usd, each.tokens_out)) if found[1:] else None

    async def load(self, request: Rollout, *, by_prompt: bool) -> Arrival | None:
        """What comes of the skill where it does not arrive in one of the two; else with the second one."""
        found = None
        for each in self._both:
            if isinstance(each, Loading) and each.loads:
                found = await each.load(request, by_prompt=by_prompt)
                if found and found.state != "arrived":
                    break
        return found


def open_models(spec: str) -> Backend:
    """The backend of a spec; two that are compared stand on a line each. Raises BackendError as `open_backend`."""
    both = [open_backend(each) for each in spec.split("\n")]
    return TwoModels(*both) if both[1:] else both[0]


class Redacting(Wrapper):
    """A backend with a redactor before and behind it: questions to the optimizer, all replies, all failures.

    What a task says itself is a person's own, and stays. Name and fingerprint are the backend's: calls keep their keys.
    """

    def __init__(self, backend: Backend, redactor: Redactor) -> None:
        super().__init__(backend)
        self._redactor = redactor

    async def complete(self, call: Call) -> Reply:
        """Return the backend's answer without secrets.

        Raises BackendFault or BackendError as the backend does, without secrets; whatever else it raises is a fault.
        """
        try:
            reply = await await_reply(self.name, self._backend.complete(self._redact_call(call)))
        except BackendFault as fault:
            text = self._redactor.text(str(fault.message))
            redacted = BackendFault(fault.fault, text, fault.retry_after, fault.usage)
            redacted.is_overload = fault.is_overload
            raise redacted from None
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
            raise BackendFault("internal", f"'{self.name}' failed: {describe_raised(error, self._redactor)}") from error
        return redact_reply(self._redactor, reply, call.request.task if isinstance(call.request, Rollout) else None)

    async def load(self, request: Rollout, *, by_prompt: bool) -> Arrival | None:
        """What comes of the skill, in words without secrets."""
        found = await super().load(request, by_prompt=by_prompt)
        return found._replace(words=self._redactor.text(found.words)) if found else None

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at the call can use. Raises BackendError when the backend fails."""
        try:
            most = worst_case(self._backend, call)
        except SkillOptError:
            raise
        # Foreign code, too: its exit does not end a run without a message.
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | GeneratorExit):
                raise
            what = describe_raised(error, self._redactor)
            raise BackendError(f"'worst_case' of the backend {quoted(self.name)} failed: {what}; fix that") from error
        wrong = "" if most is None else unusable_usage(most)
        if wrong:
            raise BackendError(
                f"what 'worst_case' of the backend {quoted(self.name)} gave cannot be used: {wrong}; return the most "
                "that one attempt can use as a skillopt_mcp.Usage, or None where there is no limit"
            )
        return most

    def shown(self, call: Call) -> Call:
        """Return the call as the backend is shown it."""
        return shown(self._backend, self._redact_call(call))

    def _redact_call(self, call: Call) -> Call:
        request = call.request
        if call.role != "optimizer" or not isinstance(request, Question):
            return call
        evidence = self._redactor.text(request.evidence)
        return call if evidence is request.evidence else call._replace(request=replace(request, evidence=evidence))


def redact_reply(redactor: Redactor, reply: Reply, task: Task | None) -> Reply:
    """Return a reply without secrets, its long messages cut; what its task says itself may stay."""
    said = [reply.text, *(message.content for message in reply.messages)]
    if redactor.texts(said) == said:
        return reply._replace(messages=tuple(map(cut_message, reply.messages)))
    own = [task.prompt, task.judge.model_dump_json(), *(file.content for file in task.files)] if task else []
    text, *contents = redactor.texts(said, "\n".join(own))
    clean = (message._replace(content=content) for message, content in zip(reply.messages, contents, strict=True))
    return reply._replace(text=text, messages=tuple(map(cut_message, clean)))


class Judges:
    """Answers for the role `judge`; `model` is None where none was named, and then only checks are answered.

    `model_name` is the model's name, empty without one.
    """

    def __init__(self, model: Backend | None, commands: Backend) -> None:
        self.deferred = model is not None and model.deferred
        self._model, self._commands = model, commands
        self.concurrency = concurrency_of(model or commands)
        self.name = model.name if model else commands.name
        self.model_name = model.name if model else ""
        self.fingerprint = f"{model.fingerprint if model else 'none'}+{commands.fingerprint}"

    async def complete(self, call: Call) -> Reply:
        """Return the answer to a call. Raises what its answerer raises, BackendError when there is none."""
        if call.stage == CHECK:
            return await self._commands.complete(call)
        if self._model is None:
            raise no_backend("judge")
        return await self._model.complete(call)

    def shown(self, call: Call) -> Call:
        """Return the call as its answerer is shown it."""
        return shown(self._model, call) if self._model and call.stage != CHECK else call

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at a call can use; what a command does is not paid for."""
        if call.stage == CHECK or self._model is None:
            return Usage(usd=0.0)
        return worst_case(self._model, call)


def judges_for(
    store: Store, tasks: Iterable[Task], open_model: Callable[[], Backend], clean: Callable[[str], str] = str,
    run: Callable[..., CommandRunner] = CommandRunner,
) -> Judges | None:  # fmt: skip
    """Who answers for the role `judge` on these tasks; None when no judge of theirs asks anybody.

    `open_model` is called for rubrics only; `clean` takes secrets out of what commands print, and `run` makes what runs
    these. Raises what `open_model` raises, and BackendError when that is a simulation, when a command that a task names
    is not registered, or its program is no longer the registered one.
    """
    needed = [leaf for task in tasks for leaf in leaves(task.judge)]
    names = sorted({leaf.name for leaf in needed if isinstance(leaf, CommandJudge)})
    has_rubric = any(isinstance(leaf, Rubric) for leaf in needed)
    if not names and not has_rubric:
        return None
    model = open_model() if has_rubric else None
    if model and model.fingerprint.startswith("simulated:"):
        raise BackendError(
            f"'{model.name}' is a simulation, which judges by no rubric: name a model with --judge BACKEND:MODEL"
        )
    commands = run(store.commands.find_named(names), clean=clean)
    for name in names:
        commands.command(name)
    return Judges(model, commands)


CHECK_S = 60.0


def check_backend(spec: str) -> tuple[str | None, str]:
    """What is wrong with a backend in a sentence, None when it answers; and its answer to "Answer with the word: ok".

    One that costs nothing is not asked.
    """
    task = Task(0, 0, "check", "Answer with the word: ok", Exact(expected="ok"), "train", "check")
    call, answer = Call("target", "rollout", Rollout(SkillFiles(()), task), "check"), ""
    try:
        opened = open_backend(spec)
        if kind_of(backend_name(spec)[0]).is_asked:
            answer = asyncio.run(asyncio.wait_for(Redacting(opened, Redactor()).complete(call), CHECK_S)).text
    except (BackendError, BackendFault) as error:
        return str(error), ""
    except TimeoutError:
        return f"'{opened.name}' gave no answer within {CHECK_S:.0f} s; check its address, or try again later", ""
    return None, answer
