"""Hearing: the callbacks of a program, and what they are told."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Literal, cast, get_args

from skillopt_mcp.errors import BadInput
from skillopt_mcp.optimizer.progress import Notify, Progress, silent
from skillopt_mcp.records.calls import Call, Reply

StageName = Literal[
    "baseline", "rollout", "reflect", "aggregate", "select", "evaluate", "rescue", "step", "slow", "meta", "confirm"
]
Callback = Callable[[Progress], None]
OnRollout = Callable[[Call, Reply], None]
_ASYNC = (
    "the callback{} is async, and nothing would await it: give a function ('def', not 'async def'), which may "
    "hand what it hears to a loop with asyncio.run_coroutine_threadsafe"
)


def by_stage(callbacks: Mapping[StageName, Callback]) -> Notify:
    """Return what tells each stage to its callback. Raises BadInput for what is none, or for no stage."""
    stages = get_args(StageName)
    given: object = callbacks
    if not isinstance(given, Mapping) or not all(map(callable, given.values())):
        raise BadInput(f"the callbacks are to be functions by the name of their stage: {', '.join(stages)}")
    for name in callbacks:
        if name not in stages:
            near = difflib.get_close_matches(name, stages, n=1, cutoff=0.0)[0]
            raise BadInput(f"no stage is called '{name}': did you mean '{near}'? Stages: {', '.join(stages)}")
    told = {str(name): _told(callback, f" of '{name}'") for name, callback in callbacks.items()}

    def notify(progress: Progress) -> None:
        told.get(progress.stage, silent)(progress)

    return notify


def by_all(callback: Callback | None) -> Notify:
    """Return what tells every stage to a callback, to nobody without one. Raises BadInput for what is none."""
    if callback is None:
        return silent
    given: object = callback
    if not callable(given):
        raise BadInput(f"the callback is of type {type(given).__name__}: give a function of one skillopt_mcp.Progress")
    return _told(callback, "")


def by_rollout(callback: OnRollout | None) -> OnRollout | None:
    """Return what tells each attempt at a task to a callback, None without one. Raises BadInput for what is none."""
    if callback is None:
        return None
    given: object = callback
    if not callable(given):
        raise BadInput(f"'on_rollout' is of type {type(given).__name__}: give a function of a Call and its Reply")
    _check_plain(callback, " 'on_rollout'")

    def hear(call: Call, reply: Reply) -> None:
        if call.stage == "rollout":
            _heard(cast(Callable[[Call, Reply], object], callback)(call, reply), " 'on_rollout'")

    return hear


def _told(callback: Callback, whose: str) -> Notify:
    _check_plain(callback, whose)

    def notify(progress: Progress) -> None:
        _heard(cast(Callable[[Progress], object], callback)(progress), whose)

    return notify


def _check_plain(callback: object, whose: str) -> None:
    if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__):
        raise BadInput(_ASYNC.format(whose))


def _heard(given: object, whose: str) -> None:
    if inspect.iscoroutine(given):
        given.close()
        raise BadInput(_ASYNC.format(whose))
