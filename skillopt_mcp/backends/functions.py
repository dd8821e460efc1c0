"""Functions: what a program gives to answer and to judge, as backends."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable
from typing import cast

from skillopt_mcp.backends.base import Backend, worst_case
from skillopt_mcp.backends.environment import Rolling
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.backends.user_backend import require_backend
from skillopt_mcp.backends.wrappers import HostMade
from skillopt_mcp.core.calls import Call, Reply, Role, Rollout, Usage
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Score
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.environments.base import Environment, rolls_out
from skillopt_mcp.tasks.environments.registry import check_environment
from skillopt_mcp.tasks.judges.kinds.reported import environment_evaluation

# `target(skill_text, prompt)`, `optimizer(prompt)` or a rubric's `judge(prompt)`: the answer.
Answer = str | Reply
Function = Callable[..., Answer | Awaitable[Answer]]
Answerer = Backend | Function | str
Graded = bool | float | tuple[bool | float, str]
JudgeFunction = Callable[[Task, str], Graded]


class FunctionBackend:
    """A user's function as a backend; its name and its source identify it."""

    deferred = False

    def __init__(self, function: Function) -> None:
        self._function = function
        self.name = f"python:{_qualname(function)}"
        self.fingerprint = _identity(function)

    async def complete(self, call: Call) -> Reply:
        """The function's answer; one that is not async runs in a thread."""
        request = call.request
        if isinstance(request, Rollout):
            arguments = [request.files.text, request.task.prompt]
        else:
            arguments = [f"{request.instructions}\n\n{request.evidence}"]
        answer: object = await _call_function(self._function, *arguments)
        return answer if isinstance(answer, Reply) else Reply(str(answer))


class JudgedBackend:
    """A target whose answers a user's function scores, for tasks that name the function as their judge."""

    deferred = False

    def __init__(self, backend: Backend, judge: JudgeFunction) -> None:
        self._backend, self._judge = backend, judge
        self.environment_name = judge_name(judge)
        self.name = backend.name
        self.fingerprint = f"{backend.fingerprint}+{_identity(judge)}"

    async def complete(self, call: Call) -> Reply:
        """Return the target's reply with its score recorded."""
        reply = await self._backend.complete(call)
        if reply.fault or not isinstance(call.request, Rollout):
            return reply
        graded = await _call_function(self._judge, call.request.task, reply.text)
        score, reason = graded if isinstance(graded, tuple) else (graded, "")
        if not isinstance(score, int | float) or not 0 <= score <= 1:
            raise BadInput(f"the judge must return True, False or a score from 0 to 1, got {score!r}")
        recorded = environment_evaluation(self.environment_name, Score(score >= 1, float(score), str(reason)))
        return reply._replace(messages=(*reply.messages, recorded))

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt can use."""
        return worst_case(self._backend, call)


async def _call_function(function: Callable[..., object], *arguments: object) -> object:
    is_async = inspect.iscoroutinefunction(function)
    answer = function(*arguments) if is_async else await asyncio.to_thread(function, *arguments)
    return await answer if inspect.isawaitable(answer) else answer


def _qualname(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _identity(function: object) -> str:
    """Return a function's name with a digest of its source, where that can be read."""
    try:
        source = inspect.getsource(cast(Callable[..., object], function))
    except (OSError, TypeError):
        source = ""
    return f"python:{_qualname(function)}@{hashlib.sha256(source.encode()).hexdigest()[:12]}"


def judge_name(judge: object) -> str:
    """The name that a function judges under, "" for what is none."""
    return f"python:{_qualname(judge)}" if _is_function(judge) else ""


def _is_function(value: object) -> bool:
    return callable(value) and not isinstance(value, type) and not hasattr(value, "complete")


def make_backends(
    target: object, optimizer: object, judge: object, source: object, *, by_agent: bool
) -> dict[Role, Backend | str | None]:
    """Who answers for each role, of what a program gave. Raises BadInput for what cannot.

    What an agent's own code answers (`by_agent`) is its host's evidence.
    """
    environment = next(
        (check_environment(cast(Environment, each)) for each in (target, source) if hasattr(each, "rollout")), None
    )
    if environment is not None and rolls_out(environment):
        if target not in (None, environment):
            raise BadInput("the environment attempts its tasks itself; leave out the target")
        target = Rolling(environment)
    if _is_function(judge):
        if target is None:
            raise BadInput("a judge function needs a target")
        if isinstance(target, str) and by_agent:
            raise BadInput("in an agent's process a judge function needs a function or a Backend as the target")
        inner = open_backend(target) if isinstance(target, str) else _backend("target", target)
        target, judge = JudgedBackend(cast(Backend, inner), cast(JudgeFunction, judge)), None
    given: dict[Role, object] = {"target": target, "optimizer": optimizer, "judge": judge}
    made = {role: _backend(role, value) for role, value in given.items()}
    if by_agent:
        made = {role: HostMade(each) if each and not isinstance(each, str) else each for role, each in made.items()}
    return made


def _backend(role: Role, value: object) -> Backend | str | None:
    backend = FunctionBackend(cast(Function, value)) if _is_function(value) else value
    return backend if backend is None or isinstance(backend, str) else require_backend(f"the {role}", backend)
