"""Training: a skill trained by a program, on an environment or on what the store has, and what came of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import Field

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.environments.base import Environment, rolls_out
from skillopt_mcp.errors import BadInput, Stopped
from skillopt_mcp.operations.answering import told_changed, told_unknown
from skillopt_mcp.operations.looks.inspecting_runs import n_tasks_of
from skillopt_mcp.operations.programs.hearing import Callback, OnRollout, StageName, by_rollout, by_stage
from skillopt_mcp.operations.programs.opening import Given
from skillopt_mcp.operations.programs.stopping import Stop, carried_out
from skillopt_mcp.operations.programs.warning import Caller
from skillopt_mcp.operations.results import Replayed, SplitCounts
from skillopt_mcp.operations.runs.replaying import begin, check_able, new_run, replay
from skillopt_mcp.operations.runs.unfinished import furthest, last_finished, left_behind, left_changed
from skillopt_mcp.operations.spending.accounting import Accounted
from skillopt_mcp.operations.spending.charging import UsedRow, account, told_under_way
from skillopt_mcp.operations.stores.exporting import check_folder, export_run
from skillopt_mcp.operations.tasks.adding import FromEnvironment, add_environment
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.progress import Notify
from skillopt_mcp.prompts.loading import Prompts, load_prompts
from skillopt_mcp.records.budgets import NO_CAPS, Caps
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.settings.reading import read_mapping
from skillopt_mcp.settings.settling import settled_config


class Trained(Replayed, Accounted):
    """The outcome of training: that of the run, and the best version's SKILL.md. The live file has not changed.

    `test_before` and `test_after`, the means of `hard` of the live version and the best, are taken where the promotion
    test stopped, and it stops where they favour its verdict: on average the gain that they tell after accept, and the
    loss after reject, are larger than the true ones. For an estimate of the gain itself, score both on tasks that took
    no part, as many as were chosen beforehand.
    """

    config: Config = Field(description="The settings of the run, its seed among them")
    n_tasks: SplitCounts = Field(description="How many tasks of each split the run took")
    used: list[UsedRow] = Field(description="What each role used in each stage")
    reused: bool = Field(description="Whether it is the outcome of a run that had finished before this call")
    best_skill: str = Field(description="SKILL.md of the best version")
    skill_path: str = Field(description="The skill's folder")
    store_path: str = Field(description="The store that holds the run")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is trained, and how; `reuse` says whether a finished run will do, and `caller` is warned."""

    skill: str
    config: Config
    prompts: Prompts | None
    out: Path | None
    notify: Notify
    on_rollout: OnRollout | None
    reuse: bool
    allow_changed: bool
    caller: Caller


def train(
    skill: str | os.PathLike[str],
    environment: Environment | str | None = None,
    config: Config | Mapping[str, object] | None = None,
    *,
    target: Backend | str | None = None,
    optimizer: Backend | str | None = None,
    judge: Backend | str | None = None,
    prompts: str | os.PathLike[str] | None = None,
    callbacks: Mapping[StageName, Callback] | None = None,
    on_rollout: OnRollout | None = None,
    store: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    caps: Caps = NO_CAPS,
    n_slots: int | None = None,
    stop: threading.Event | None = None,
    reuse: bool = False,
    allow_changed: bool = False,
) -> Trained:
    """Return the outcome of training a skill (its name, or the path of its folder) on the tasks of an environment.

    Without one it is trained on all tasks that the store has for it; with one, on the tasks of that one alone.

    Backends are made ones, or BACKEND:MODEL; an environment that attempts its tasks itself needs no target. A callback
    hears of its stage each time that it begins ("baseline", "rollout", "reflect", "aggregate", "select", "evaluate",
    "rescue", "slow", "meta", "confirm"; "step" at the end of each); what it raises stops the run. `on_rollout`
    hears of each attempt at a task as its reply comes in, unscored still: its Call (`call.request.task`, `call.draw`)
    and its Reply, not of those that an earlier call has paid for; what it raises stops the run.

    What of the environment's tasks a run leaves out, it warns of. A dict as config has the names of settings files
    ("epochs", "train.num_epochs"). `prompts` is a folder with prompts of one's own (NAME.md), `out` one that is written
    with the run as files, however it ends; where that fails, it warns. `caps` bound what the run may use, over all
    calls that go on with it; `n_slots` calls are under way at once. Nothing is written to the skill's folder: that
    takes a promotion. What the outcome counts is that of the run: what it sent, over all calls that went on with it,
    and of a promotion test that several runs share, the pairs that it asked for.

    A callback that raises `Enough` ends the search: the step under way is left out, the best version of the finished
    ones becomes the candidate, and the promotion test looks at it, as at the end of any run. At "baseline", which comes
    first of all, it so ends the search of a run that had stopped. Such a search never goes on, with `reuse` neither;
    the outcome's `concluded_after` is the step after which it ended.

    Raises Stopped, with its `run_id`, where the run stops before its end: CapReached at a cap, Outage where a backend
    fails, TurnedDown where it wants no such call. A call with the same arguments (but for higher caps, and what of a
    spec changes no answer: timeout, prices, key) goes on with it, and pays for nothing twice. Where a backend's
    fingerprint (or an environment's version) has changed since, it warns, and begins anew; with `allow_changed` it goes
    on all the same, with both versions measured anew, and the outcome's `changes` tell that. Raises BadInput, NotFound,
    Refused, Busy and BackendError for what cannot be trained, and StoreError.

    The same call after the run has finished is another run, with draws and a price of its own; with `reuse` it returns
    the outcome of the newest one that these backends answered by then, and sends nothing; where nobody knows who
    answered, since it finished before that was kept, it is returned with a warning. A result comes about again in a
    fresh store, by the same sequence of calls with the same skill, tasks, config (its seed among it), prompts and
    backends' names, where what backends answer depends on `call.request` and `call.draw` alone.

    It blocks until it is done; within a running event loop it works in a thread, which Ctrl-C, or the cancellation of
    the task, stops at its next reply. Ctrl-C tells, in a note of KeyboardInterrupt (or of the CancelledError behind
    it), how many calls were under way, which may be paid again. Where it runs in a thread of its own, setting the event
    `stop` ends it at its next reply with Stopped.

    Give each of several runs that are compared a store of its own. In one store the promotion tests of a skill share
    one error rate, a run begins with the notes that the last one left its optimizer (`meta_skill`), and chance differs:
    the draws of a run depend on how many the skill has had there, and on the numbers by which the store keeps the skill
    and its tasks, thus on what else it holds and in which order that came; those of a promotion test on the numbers and
    on the backends' fingerprints.
    """
    asked = _Asked(
        skill if isinstance(skill, str) else os.path.abspath(skill), _config(config),
        load_prompts(Path(prompts).expanduser()) if prompts is not None else None,
        Path(out).expanduser() if out is not None else None, by_stage(callbacks or {}),
        by_rollout(on_rollout), reuse, allow_changed, Caller(),
    )  # fmt: skip
    given = Given(
        environment, {"target": target, "optimizer": optimizer, "judge": judge}, store, caps, n_slots, Stop(stop)
    )
    return carried_out(partial(_train, asked, given), given.stop)


def _train(asked: _Asked, given: Given) -> Trained:
    with given.workspace() as workspace:
        if given.opened is None:
            check_able(workspace)
        find = workspace.recorded if given.opened is None else workspace.skill
        tracked = find(asked.skill)
        only = _brought(workspace, tracked, asked.caller, given.opened) if given.opened is not None else None
        run = _begun(workspace, tracked, asked, given.opened, only)
        try:
            result = replay(
                workspace, run, given.stop.before(_of_run(run.id, asked.notify)), given.stop.after(asked.on_rollout),
                given.n_slots, allow_changed=asked.allow_changed,
            )  # fmt: skip
        except (KeyboardInterrupt, Stopped) as error:
            if isinstance(error, Stopped):
                error.run_id = run.id
            under_way = told_under_way(workspace.store, run.id)
            if under_way and (isinstance(error, KeyboardInterrupt) or given.stop.is_set):
                error.add_note(under_way)
            raise
        finally:
            _export(workspace, run, asked)
        used = account(workspace.store, run.id)
        steps = workspace.store.runs.list_steps(run.id)
        best = workspace.store.skills.get_files(run.skill_id, steps[-1].best_version if steps else run.base_version)
        told = given.told(workspace, run.skill_id, result, simulated=result.simulated)
        return Trained(
            **told.model_dump(),
            **used.told.model_dump(),
            config=Config.of_run(run.config),
            n_tasks=n_tasks_of(workspace, run),
            used=used.table,
            reused=run.result is not None,
            best_skill=best.main.decode("utf-8", "replace"),
            skill_path=tracked.path,
            store_path=str(given.path),
        )


def _begun(
    workspace: Workspace, skill: Skill, asked: _Asked, environment: Environment | None, only: Collection[str] | None
) -> Run:
    """Return the run that this call goes on with, or a new one; a finished one where that will do."""
    new = new_run(workspace, skill.path, asked.config, asked.prompts, only)
    found = last_finished(workspace, new) if asked.reuse else None
    if found and not found.answering:
        asked.caller.warn(told_unknown(found))
    found = found or furthest(workspace, new, allow_changed=asked.allow_changed)
    if asked.out:
        check_folder(asked.out, (found or new).id)
    if found:
        return found
    begin(workspace, new)
    if environment is not None and not rolls_out(environment):
        _tell_of_left(workspace, new, skill, environment.name, asked.caller)
    _tell_of_changed(workspace, new, asked.caller)
    return new


def _brought(workspace: Workspace, skill: Skill, caller: Caller, environment: Environment) -> frozenset[str]:
    """Return the digests of an environment's tasks, once they are stored; warn of what of them a run leaves out."""
    added = add_environment(workspace, skill.path, environment)
    for warning in (*added.warnings, *_left_out(environment.name, added)):
        caller.warn(warning)
    return added.digests


def _left_out(name: str, added: FromEnvironment) -> Iterator[str]:
    n_twice = added.added + added.duplicates - len(added.digests)
    if n_twice:
        yield f"{counted(n_twice, 'task')} of the environment '{name}' came more than once, and only the first counts"
    if added.n_retired:
        n = added.n_retired
        yield f"{counted(n, 'task')} of the environment '{name}' {'was' if n == 1 else 'were'} retired, and left out"


def _of_run(run_id: str, notify: Notify) -> Notify:
    """Return what tells of a run by its id."""
    return lambda progress: notify(replace(progress, run_id=run_id))


def _export(workspace: Workspace, run: Run, asked: _Asked) -> None:
    """Write a run as files; where that fails, it warns: what the run came to, or why it stopped, counts more."""
    if asked.out:
        try:
            export_run(workspace, run.id, asked.out)
        except BadInput as error:
            asked.caller.warn(f"run '{run.id}' was not written as files: {error}")


def _tell_of_left(workspace: Workspace, new: Run, skill: Skill, name: str, caller: Caller) -> None:
    """Warn of a run that this call would have gone on with when all tasks of the skill were still a run's own."""
    left = left_behind(workspace, new)
    if left:
        caller.warn(
            f"run '{left.id}' with these settings lies unfinished: it takes {len(left.tasks):,} tasks of the skill, "
            f"this call the {len(new.tasks):,} of the environment '{name}' alone, and begins anew. To go on with that "
            "run, call 'train' without the environment, or, once no newer one is unfinished: skillopt-mcp replay "
            f"{skill.name} --resume"
        )


def _tell_of_changed(workspace: Workspace, new: Run, caller: Caller) -> None:
    """Warn of a run that this call would have gone on with, were it answered as that one was."""
    left = left_changed(workspace, new)
    if left:
        old, others = left
        caller.warn(
            f"{told_changed(old, others)}; this call begins anew. To go on with that run all the same: "
            "train(..., allow_changed=True)"
        )


def _config(config: Config | Mapping[str, object] | None) -> Config:
    if isinstance(config, Config):
        return config.model_copy()
    given: object = config
    if not isinstance(given, Mapping | None):
        raise BadInput(
            f"the config is of type {type(given).__name__}: give a skillopt_mcp.Config, or a dict of its fields"
        )
    try:
        return settled_config(read_mapping(given or {}))
    except BadInput as error:
        raise BadInput(f"config: {error}") from None
