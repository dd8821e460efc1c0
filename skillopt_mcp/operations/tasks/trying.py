"""Trying: what registered commands make of answers that say nothing, or only repeat what was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.errors import BackendError
from skillopt_mcp.judges.judging import judge_all, leaves
from skillopt_mcp.operations.judging import judges_for
from skillopt_mcp.records.calls import Call, Reply
from skillopt_mcp.records.evidence import Attempted
from skillopt_mcp.records.judging import ByEnvironment, ByHost, Command, JudgeSpec, Rubric, Score, ToolCalled
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.store.opening import Store

AT_ONCE = 4


def trivial_commands(store: Store, tasks: Sequence[Task]) -> dict[str, str]:
    """Return what is wrong with tasks that a command judges, by name: it is run on an empty answer and on the prompt.

    No model is asked: tasks that need one, or a recorded attempt, are passed over. Raises BackendError when a command
    cannot be run.
    """
    tried = [task for task in tasks if _is_run_by_answer_alone(task.judge)]
    judges = judges_for(store, tried, _no_model)
    if judges is None:
        return {}
    answers = [(task, answer) for task in tried for answer in ("", task.prompt)]
    attempts = [Attempted(task, answer, (), f"check/{n}") for n, (task, answer) in enumerate(answers)]
    outcomes = judge_all(lambda calls: asyncio.run(_asked(judges, calls)), attempts)
    problems = {}
    for task, empty, parrot in zip(tried, outcomes[::2], outcomes[1::2], strict=True):
        if not isinstance(empty, Score):
            problems[task.name] = empty.reason
        elif empty.hard:
            problems[task.name] = "an empty answer passes: the command expects too little"
        elif isinstance(parrot, Score) and parrot.hard:
            problems[task.name] = "the prompt itself passes as an answer: whoever repeats it is right"
    return problems


def _is_run_by_answer_alone(judge: JudgeSpec) -> bool:
    found = list(leaves(judge))
    others = any(isinstance(leaf, Rubric | ToolCalled | ByEnvironment | ByHost) for leaf in found)
    return not others and any(isinstance(leaf, Command) for leaf in found)


async def _asked(backend: Backend, calls: Sequence[Call]) -> list[Reply]:
    free = asyncio.Semaphore(AT_ONCE)

    async def one(call: Call) -> Reply:
        async with free:
            return await backend.complete(call)

    return list(await asyncio.gather(*map(one, calls)))


def _no_model() -> Backend:
    raise BackendError("no rubric is tried")
