"""The Python API: `train` a skill and `evaluate` a candidate, with lists, plain functions, or backends by name."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

from pydantic import Field

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.replay import best_candidate, replay
from skillopt_mcp.actions.runs import begin, describe_left_changed, find_alike, list_lacking, new_run, run_reach
from skillopt_mcp.actions.tasks import add_given
from skillopt_mcp.backends.functions import Answerer, JudgeFunction, judge_name, make_backends
from skillopt_mcp.core.budgets import NO_CAPS, Caps
from skillopt_mcp.core.errors import BadInput, Stopped
from skillopt_mcp.core.notes import describe_note, warn_unanswered
from skillopt_mcp.core.results import Evaluated, Replayed
from skillopt_mcp.core.skills import SplitCounts, short
from skillopt_mcp.prompts.loading import load_prompts
from skillopt_mcp.reports.export import check_folder, export_run
from skillopt_mcp.reports.run_report import n_tasks_of
from skillopt_mcp.store.files import store_path
from skillopt_mcp.tasks.environments.base import Environment
from skillopt_mcp.tasks.environments.registry import open_source
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.progress import Notify, Progress
from skillopt_mcp.training.promotion_test import Asked
from skillopt_mcp.training.settings.settling import settle_mapping
from skillopt_mcp.workspace.callers import find_caller
from skillopt_mcp.workspace.costs import Accounted, UsedRow, account, describe_in_flight
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace

StageName = Literal[
    "baseline", "rollout", "reflect", "aggregate", "select", "evaluate", "rescue", "step", "slow", "meta", "promotion"
]
PathLike = str | os.PathLike[str]
Callback = Callable[[Progress], object]
Tasks = Environment | Sequence[object] | PathLike
T = TypeVar("T")
_POLL_S = 0.05
_LOG = logging.getLogger("skillopt_mcp")


class RunUsage(Accounted):
    """What a run used, in sum and for each role in each stage."""

    stages: list[UsedRow]


class Trained(Replayed):
    """The outcome of training. The live file has not changed: `best_skill` is the best version's SKILL.md."""

    config: Config = Field(description="The settings of the run, its seed among them")
    n_tasks: SplitCounts = Field(description="How many tasks of each split the run took")
    usage: RunUsage = Field(description="What it sent, over all calls that continued it")
    reused: bool = Field(description="Whether it is the outcome of a run that had finished before this call")
    best_skill: str = Field(description="SKILL.md of the best version")
    skill_path: str = Field(description="The skill's folder")
    store_path: str = Field(description="The store that holds the run")

    def __str__(self) -> str:
        """Return five lines for a person."""
        solved = self.test.solved if self.test else None
        gain = f" ({solved.before:.2f} -> {solved.after:.2f})" if solved else ""
        scores = [step.best for step in self.steps if step.best is not None]
        best = f" -> {scores[-1]:.2f}" if scores else ""
        base = "no score" if self.baseline is None else f"{self.baseline:.2f}"
        step = self.next_step
        return "\n".join([
            f"{self.skill}: {self.verdict or 'not tested'}{gain}, candidate {self.candidate_id or 'none'}",
            f"val score {base}{best} in {len(self.steps)} steps, best version {short(self.best_version)}",
            f"{self.usage.n_sent:,} calls, {self.tokens_in + self.tokens_out:,} tokens, ${self.usage.usd_known:.2f}, "
            f"{self.usage.seconds:.0f} s",
            f"run {self.run_id} in {self.store_path}",
            step.as_line(self.store_path) if step else "Next: nothing",
        ])  # fmt: skip


def train(
    skill: PathLike,
    tasks: Tasks | None = None,
    *,
    target: Answerer | None = None,
    optimizer: Answerer | None = None,
    judge: Answerer | JudgeFunction | None = None,
    config: Config | Mapping[str, object] | None = None,
    callbacks: Mapping[StageName, Callback] | None = None,
    caps: Caps = NO_CAPS,
    store: PathLike | None = None,
    out: PathLike | None = None,
    prompts: PathLike | None = None,
    concurrency: int | None = None,
    reuse: bool = False,
    allow_changed: bool = False,
) -> Trained:
    """Train a skill (its name, or the path of its folder), and return the outcome; the live file is not changed.

    Args:
        tasks: rows as in a tasks file, its path, or an environment (or its name); default: all tasks of the skill in
            the store. A run takes the tasks that are given, and no others.
        target: BACKEND:MODEL, a `Backend`, or a function of (skill text, prompt) that returns the answer.
        optimizer: BACKEND:MODEL, a `Backend`, or a function of one prompt that returns JSON.
        judge: a function of (task, answer) that returns True or False, a score from 0 to 1, or (score, reason), for
            tasks without a judge of their own; or who answers rubrics, given as an optimizer is.
        config: a `Config`, or a dict with the names of settings files ("epochs", "train.num_epochs").
        callbacks: functions of one `Progress` by stage: "baseline", "rollout", "reflect", "aggregate", "select",
            "evaluate", "rescue", "slow", "meta", "promotion" (each as it begins) and "step" (at its end). What a
            callback raises stops the run; `Stopped` is for that.
        caps: limits of the run, over all calls that continue it.
        out: a new folder for the run as files, however it ends; `prompts`: a folder with prompts of your own.
        reuse: return the outcome of a finished run of the same call, if there is one.
        allow_changed: continue a run though a backend's fingerprint has changed since.

    Raises:
        Stopped: the run ended early (`run_id` names it): CapReached at a cap, Outage where a backend fails. The same
            call continues it and pays for nothing twice; `evaluate(run_id)` tests its best version so far.
        SkillOptError: BadInput and others, for what cannot be trained.

    It blocks until it is done; within a running event loop it works in a thread, and Ctrl-C stops it at its next reply.
    Give each of several runs that are compared a store of its own.
    """
    notify = _by_stage(callbacks or {})
    settings, own_prompts = _config(config), load_prompts(Path(prompts).expanduser()) if prompts is not None else None
    folder = Path(out).expanduser() if out is not None else None
    name = skill if isinstance(skill, str) else os.path.abspath(skill)
    source = open_source(tasks)
    stop = threading.Event()

    def work() -> Trained:
        with _workspace((target, optimizer, judge, source), store, caps, concurrency, stop) as workspace:
            if source is None:
                workspace.models.check_caps({role: workspace.models.backend(role) for role in ("target", "optimizer")})
            tracked = (workspace.place.find_recorded if source is None else workspace.place.skill)(name)
            only = None
            if source is not None:
                added, only = add_given(workspace.store, workspace.place, tracked.path, source, judge_name(judge))
                for note in added.notes:
                    # A function that judges is an environment that only this call knows.
                    if note.code != "unknown_environment":
                        _warn(describe_note(note))
            new = new_run(workspace.store, workspace.models, workspace.place, tracked.path, settings, own_prompts, only)
            found = find_alike(workspace.store, workspace.models, new, is_finished=True) if reuse else None
            found = found or find_alike(workspace.store, workspace.models, new, allow_changed=allow_changed)
            run = found or new
            for lacking in () if run.result else list_lacking(workspace.models, settings):
                _warn(lacking)
            if folder:
                check_folder(folder, run.id)
            if not found:
                begin(workspace.store, workspace.place.secrets, new)
                if changed := describe_left_changed(workspace.store, workspace.models, new):
                    _warn(f"{changed}; to continue that run: train(..., allow_changed=True)")
            reach = run_reach(workspace.store, workspace.models, workspace.place.secrets, run)
            if reach and not run.result:
                _LOG.warning(reach)
            try:
                result = replay(
                    workspace.store, workspace.models, workspace.place, run,
                    lambda progress: notify(replace(progress, run_id=run.id)),
                    allow_changed=allow_changed,
                )  # fmt: skip
            except (KeyboardInterrupt, Stopped) as error:
                if isinstance(error, Stopped):
                    error.run_id = run.id
                tests = workspace.store.runs.list_finishes(run.id)
                if open_calls := describe_in_flight(workspace.store, [run.id, *tests]):
                    error.add_note(open_calls)
                raise
            finally:
                if folder:
                    _export(workspace, run.id, folder)
            result = result.for_agents() if workspace.place.is_agents else result
            used, steps = account(workspace.store, run.id), workspace.store.runs.list_steps(run.id)
            version = steps[-1].best_version if steps else run.base_version
            best = workspace.store.skills.get_files(run.skill_id, version)
            return Trained(
                **result.model_dump(exclude={"next_step"}),
                next_step=result.next_step,
                usage=RunUsage(**used.summary.model_dump(), stages=used.table),
                config=Config.of_run(run.config),
                n_tasks=n_tasks_of(workspace.store, run),
                reused=run.result is not None,
                best_skill=best.main.decode("utf-8", "replace"),
                skill_path=tracked.path,
                store_path=str(workspace.store.path),
            )

    return _run(work, stop)


def evaluate(
    candidate_id: str,
    *,
    target: Answerer | Environment | None = None,
    judge: Answerer | JudgeFunction | None = None,
    no_worse: float | None = None,
    max_pairs: int | None = None,
    graded: bool = False,
    again: bool = False,
    callback: Callback | None = None,
    caps: Caps = NO_CAPS,
    store: PathLike | None = None,
    concurrency: int | None = None,
) -> Evaluated:
    """Return the verdict on a candidate, on the best version of a run (r-...), or on a person's edit (a skill's name).

    Nothing is promoted; a verdict stands, and asking for it again pays for nothing, unless `again` opens the next test.
    `no_worse=0.1` asks whether at most that share of solved tasks is lost, by at most `max_pairs`; `graded` compares
    scores instead of passes. The other arguments, and what it raises, are those of `train`.
    """
    asked = Asked(margin=no_worse, max_pairs=max_pairs, graded=graded)
    notify = _by_stage({"promotion": callback} if callback else {})
    stop = threading.Event()

    def work() -> Evaluated:
        with _workspace((target, None, judge, None), store, caps, concurrency, stop) as workspace:
            is_run = candidate_id.startswith("r-")
            tested = best_candidate(workspace.store, workspace.place, candidate_id).id if is_run else candidate_id
            result = evaluate_candidate(
                workspace.store, workspace.models, workspace.place, tested, Wait(notify=notify), asked, again=again
            )
            return result.for_agents() if workspace.place.is_agents else result

    # The test is a job of its own, which Ctrl-C does not reach: it is stopped from here.
    return _run(work, stop, always_thread=True)


# What was given


@contextmanager
def _workspace(
    given: tuple[object, object, object, object], store: PathLike | None, caps: Caps, concurrency: int | None,
    stop: threading.Event,
) -> Iterator[Workspace]:  # fmt: skip
    """Lend a workspace with what answers of target, optimizer, judge and source of tasks as they are `given`."""
    caller, limits = find_caller(), cast(object, caps)
    roles = make_backends(*given, by_agent=caller == "agent")
    if not isinstance(limits, Caps):
        raise BadInput(f"caps must be a skillopt_mcp.Caps(calls=, tokens=, usd=, minutes=), got {limits!r}")
    with Workspace(
        store_path(os.fspath(store) if store is not None else None, os.environ),
        target=roles["target"], optimizer=roles["optimizer"], judge=roles["judge"], caps=caps, concurrency=concurrency,
    ) as workspace:  # fmt: skip
        workspace.models.on_reply, workspace.place.caller = warn_unanswered(_warn, stop.is_set), caller
        yield workspace


def _config(config: Config | Mapping[str, object] | None) -> Config:
    if isinstance(config, Config):
        return config.model_copy()
    given: object = config
    if not isinstance(given, Mapping | None):
        raise BadInput(f"config must be a skillopt_mcp.Config or a dict, got {type(given).__name__}")
    try:
        return settle_mapping(given or {})
    except BadInput as error:
        raise BadInput(f"config: {error}") from None


def _by_stage(callbacks: Mapping[StageName, Callback]) -> Notify:
    """What calls the callback of each stage. Raises BadInput for an unknown stage, or what is not a function."""
    stages = get_args(StageName)
    for name, callback in callbacks.items():
        if name not in stages:
            near = difflib.get_close_matches(name, stages, n=1, cutoff=0.0)[0]
            raise BadInput(f"unknown stage '{name}' of a callback; did you mean '{near}'?")
        if not callable(callback) or inspect.iscoroutinefunction(callback):
            raise BadInput(f"the callback of '{name}' must be a plain function, got {callback!r}")
    by_name = {str(name): callback for name, callback in callbacks.items()}

    def notify(progress: Progress) -> None:
        if progress.stage in by_name:
            by_name[progress.stage](progress)

    return notify


# The work


def _run(work: Callable[[], T], stop: threading.Event, *, always_thread: bool = False) -> T:
    """What `work` returns; within a running event loop it is done in a thread.

    Ctrl-C, and a cancellation from outside of the loop, stop it at its next reply.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        if not always_thread:
            return work()
        loop = None
    with ThreadPoolExecutor(1, thread_name_prefix="skillopt") as pool:
        working = pool.submit(copy_context().run, work)
        before = _n_cancelling(loop)
        try:
            while not wait([working], _POLL_S).done:
                if _n_cancelling(loop) > before:
                    stop.set()
        except BaseException:
            stop.set()
            raise
        if stop.is_set() and isinstance(working.exception(), Stopped):
            raise asyncio.CancelledError
        return working.result()


def _n_cancelling(loop: asyncio.AbstractEventLoop | None) -> int:
    return sum(task.cancelling() for task in asyncio.all_tasks(loop)) if loop else 0


def _export(workspace: Workspace, run_id: str, folder: Path) -> None:
    """Write a run as files; where that fails, it warns: the outcome, or why the run stopped, counts more."""
    try:
        export_run(workspace.store, workspace.place, run_id, folder)
    except BadInput as error:
        _warn(f"run '{run_id}' was not written as files: {error}")


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)
