"""Training: the Python API, one function that trains a skill on an environment and returns what came of it."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Literal, cast, get_args

from pydantic import Field

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.environment import Rolling
from skillopt_mcp.backends.given import checked_backend
from skillopt_mcp.calls.rounds import OnReply
from skillopt_mcp.environments.base import Environment, rolls_out
from skillopt_mcp.environments.registry import checked, open_environment
from skillopt_mcp.errors import BadInput, Stopped
from skillopt_mcp.operations.results import Accounted, Replayed
from skillopt_mcp.operations.runs.concluding import on_store
from skillopt_mcp.operations.runs.python_words import in_python_words
from skillopt_mcp.operations.runs.replaying import go_on_or_start, left_behind, replay
from skillopt_mcp.operations.spending.charging import account, told_under_way
from skillopt_mcp.operations.tasks.adding import add_environment
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.progress import Notify, Progress
from skillopt_mcp.records.budgets import NO_CAPS, Caps
from skillopt_mcp.records.calls import Call, Reply, Role
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.settings.reading import read_mapping
from skillopt_mcp.settings.settling import settled_config
from skillopt_mcp.store.locations import store_path

StageName = Literal[
    "baseline", "rollout", "reflect", "aggregate", "select", "evaluate", "rescue", "step", "slow", "meta", "confirm"
]
Callback = Callable[[Progress], None]
_ASYNC = (
    "the callback of '{}' is async, and nothing would await it: give a function ('def', not 'async def'), which may "
    "hand what it hears to a loop with asyncio.run_coroutine_threadsafe"
)


class Trained(Replayed, Accounted):
    """The outcome of training: that of the run, and the best version's SKILL.md. The live file has not changed."""

    best_skill: str = Field(description="SKILL.md of the best version")
    skill_path: str = Field(description="The skill's folder")
    store_path: str = Field(description="The store that holds the run")


def train(
    skill: str | os.PathLike[str],
    environment: Environment | str | None = None,
    config: Config | Mapping[str, object] | None = None,
    *,
    target: Backend | str | None = None,
    optimizer: Backend | str | None = None,
    judge: Backend | str | None = None,
    callbacks: Mapping[StageName, Callback] | None = None,
    store: str | os.PathLike[str] | None = None,
    caps: Caps = NO_CAPS,
    n_slots: int | None = None,
) -> Trained:
    """Return the outcome of training a skill (its name, or the path of its folder) on the tasks of an environment.

    Without one it is trained on all tasks that the store has for it; with one, on the tasks of that one alone.

    Backends are made ones, or BACKEND:MODEL; an environment that attempts its tasks itself needs no target. A callback
    hears of its stage each time that it begins ("baseline", "rollout", "reflect", "aggregate", "select", "evaluate",
    "rescue", "slow", "meta", "confirm"; "step" at the end of each); what it raises stops the run. A dict as config has
    the names of settings files ("epochs", "train.num_epochs"). `caps` bound what the run may use, over all calls that
    go on with it; `n_slots` calls are under way at once. Nothing is written to the skill's folder: that takes a
    promotion. What the outcome counts is that of the run: what it sent, over all calls that went on with it, and of a
    promotion test that several runs share, the pairs that it asked for. Ctrl-C tells, in a note of KeyboardInterrupt,
    how many calls were under way, which may be paid again.

    Raises Stopped where the run stops before its end: CapReached at a cap, Outage where a backend fails, TurnedDown
    where it wants no such call. A call with the same arguments (but for higher caps) goes on with it, and pays for
    nothing twice. Raises BadInput, NotFound, Refused, Busy and BackendError for what cannot be trained, and StoreError.

    It blocks until it is done; within a running event loop (a notebook) it works in a thread, which Ctrl-C stops at its
    next reply. Of several optimizers that are compared, give each a store of its own: the promotion tests of one skill
    in one store share one error rate.
    """
    if not isinstance(cast(object, caps), Caps):
        raise BadInput(
            f"the caps are of type {type(caps).__name__}: give skillopt_mcp.Caps(calls=, tokens=, usd=, minutes=)"
        )
    stop = threading.Event()
    work = partial(
        _train, stop, skill, environment, _config(config),
        {
            "target": checked_backend("target", target), "optimizer": checked_backend("optimizer", optimizer),
            "judge": checked_backend("judge", judge),
        },
        _notify(callbacks or {}), store, caps, n_slots,
    )  # fmt: skip
    if not _is_in_loop():
        with in_python_words():
            return work()
    with in_python_words(), ThreadPoolExecutor(1, thread_name_prefix="train") as thread:
        working = thread.submit(copy_context().run, work)
        try:
            return working.result()
        except KeyboardInterrupt as error:
            # Ctrl-C comes to this thread alone: the one that works stops at its next reply, and is waited for.
            stop.set()
            for note in getattr(working.exception(), "__notes__", ()):
                error.add_note(note)
            raise
        except BaseException:
            stop.set()
            raise


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _train(
    stop: threading.Event, skill: str | os.PathLike[str], environment: Environment | str | None, settings: Config,
    backends: Mapping[Role, Backend | str | None], notify: Notify, store: str | os.PathLike[str] | None, caps: Caps,
    n_slots: int | None,
) -> Trained:  # fmt: skip
    spec = environment if isinstance(environment, str) else None
    given = open_environment(spec) if spec is not None else None if environment is None else checked(environment)
    place = store_path(os.fspath(store) if store is not None else None, os.environ)
    target = _target(backends["target"], given, spec)
    with Workspace(
        place, target=target, optimizer=backends["optimizer"], judge=backends["judge"], caps=caps
    ) as workspace:
        tracked = workspace.skill(skill if isinstance(skill, str) else os.path.abspath(skill))
        only = add_environment(workspace, tracked.path, given).digests if given is not None else None
        known = {run.id for run in workspace.store.runs.list_runs(tracked.id)}
        run = go_on_or_start(workspace, tracked.path, settings, only=only)
        if given is not None and not rolls_out(given) and run.id not in known:
            _tell_of_left(workspace, run, tracked, given.name)
        try:
            result = replay(workspace, run, notify, _unless(stop), n_slots=n_slots)
        except (KeyboardInterrupt, Stopped) as error:
            under_way = told_under_way(workspace.store, run.id)
            if under_way and (isinstance(error, KeyboardInterrupt) or stop.is_set()):
                error.add_note(under_way)
            raise
        steps = workspace.store.runs.list_steps(run.id)
        best = workspace.store.skills.get_files(run.skill_id, steps[-1].best_version)
        return Trained(
            **result.model_dump(exclude={"next_step"}),
            **account(workspace.store, run.id).told.model_dump(),
            next_step=on_store(result.next_step, place),
            best_skill=best.main.decode("utf-8", "replace"),
            skill_path=tracked.path,
            store_path=str(place),
        )


def _tell_of_left(workspace: Workspace, new: Run, skill: Skill, name: str) -> None:
    """Warn of a run that this call would have gone on with when all tasks of the skill were still a run's own."""
    left = left_behind(workspace, new)
    if left:
        warnings.warn(
            f"run '{left.id}' with these settings lies unfinished: it takes {len(left.tasks):,} tasks of the skill, "
            f"this call the {len(new.tasks):,} of the environment '{name}' alone, and begins anew. To go on with that "
            "run, call 'train' without the environment, or, once no newer one is unfinished: skillopt-mcp replay "
            f"{skill.name} --resume",
            stacklevel=2,
        )


def _unless(stop: threading.Event) -> OnReply:
    """Return what ends a run at its next reply once `stop` is set."""

    def heard(_: Call, __: Reply) -> None:
        if stop.is_set():
            raise Stopped("interrupted: the same call goes on where it stopped")

    return heard


def _target(target: Backend | str | None, given: Environment | None, spec: str | None) -> Backend | str | None:
    """Return who attempts the tasks: the environment itself where it does that."""
    if given is None or not rolls_out(given):
        return target
    if target is not None:
        raise BadInput(f"the environment '{given.name}' attempts its tasks itself: leave out the target")
    return Rolling(given, spec)


def _config(config: Config | Mapping[str, object] | None) -> Config:
    if isinstance(config, Config):
        return config
    given: object = config
    if not isinstance(given, Mapping | None):
        raise BadInput(
            f"the config is of type {type(given).__name__}: give a skillopt_mcp.Config, or a dict of its fields"
        )
    try:
        return settled_config(read_mapping(given or {}))
    except BadInput as error:
        raise BadInput(f"config: {error}") from None


def _notify(callbacks: Mapping[StageName, Callback]) -> Notify:
    stages = get_args(StageName)
    given: object = callbacks
    if not isinstance(given, Mapping) or not all(map(callable, given.values())):
        raise BadInput(f"the callbacks are to be functions by the name of their stage: {', '.join(stages)}")
    for name in callbacks:
        if name not in stages:
            near = difflib.get_close_matches(name, stages, n=1, cutoff=0.0)[0]
            raise BadInput(f"no stage is called '{name}': did you mean '{near}'? Stages: {', '.join(stages)}")
        if _is_async(callbacks[name]):
            raise BadInput(_ASYNC.format(name))
    by_stage = {str(name): callback for name, callback in callbacks.items()}

    def notify(progress: Progress) -> None:
        callback = by_stage.get(progress.stage)
        given: object = callback(progress) if callback else None
        if inspect.iscoroutine(given):
            given.close()
            raise BadInput(_ASYNC.format(progress.stage))

    return notify


def _is_async(callback: Callback) -> bool:
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__)
