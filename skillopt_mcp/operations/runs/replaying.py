"""Replaying: offline epochs over a skill's stored tasks, resumable at any point, confirmed at the end."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.calls.rounds import OnReply
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.errors import CapReached, NotFound
from skillopt_mcp.operations.answering import (
    answering,
    backends_of,
    check_unchanged,
    lock_of,
    note_answering,
    run_backends,
)
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.judging import evidence_of, judge_named
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.results import Replayed
from skillopt_mcp.operations.runs.concluding import TOPPED
from skillopt_mcp.operations.runs.finishing import Best, answered, finish
from skillopt_mcp.operations.skills.merging import check_merged
from skillopt_mcp.operations.speaking import BACKENDS
from skillopt_mcp.operations.spending.batching import Way, abandon, check_batch, waiting_batches
from skillopt_mcp.operations.spending.budgeting import check_caps
from skillopt_mcp.operations.testing.choosing import chosen_tasks
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.confirmation import check_claim
from skillopt_mcp.optimizer.gating import is_topped
from skillopt_mcp.optimizer.plan import Plan, check_splits
from skillopt_mcp.optimizer.progress import Enough, Notify, Progress, silent
from skillopt_mcp.optimizer.training import train
from skillopt_mcp.prompts.loading import Prompts, load_prompts, stored_prompts
from skillopt_mcp.records.budgets import Caps
from skillopt_mcp.records.calls import Role
from skillopt_mcp.records.runs import Conclusion, Run, RunStatus
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tracing import span

CONCLUDED = "by replay --conclude"
_WHY_BYTES = 300
_RUN_ID = re.compile(r"r-[0-9a-f]{12}")


class _Topped(Enough):
    """The search has come to the best score there is."""


def start_run(
    workspace: Workspace, skill: str, config: Config, prompts: Prompts | None = None,
    only: Collection[str] | None = None,
) -> Run:  # fmt: skip
    """Return a new run of a skill, stored and frozen: config, prompts, tasks, sessions, base version and backends.

    It takes the tasks of these digests `only`, or all that are stored.
    """
    run = new_run(workspace, skill, config, prompts, only)
    begin(workspace, run)
    return run


def begin(workspace: Workspace, new: Run) -> None:
    """Store a new run. Raises what `check_new` raises."""
    check_new(workspace, new)
    workspace.store.runs.add_run(new)


def check_new(workspace: Workspace, new: Run) -> None:
    """Raise BadInput for a new run that cannot be trained on, Refused when its test could accept nothing."""
    config = planned(workspace, new).config
    chosen = set(new.tasks)
    tasks = [task for task in workspace.store.tasks.list_tasks(new.skill_id) if task.id in chosen]
    evidence = evidence_of(workspace.backends_for(tasks))
    check_claim(workspace.store, new.skill_id, tasks, evidence, config.promotion_rule)


def check_able(workspace: Workspace) -> None:
    """Raise BackendError or BadInput where nobody can answer in a run: then its skill need not be looked at."""
    check_caps(workspace.caps, {"target": workspace.backend("target"), "optimizer": workspace.backend("optimizer")})


def new_run(
    workspace: Workspace, skill: str, config: Config, prompts: Prompts | None = None,
    only: Collection[str] | None = None,
) -> Run:  # fmt: skip
    """Return a new run of a skill as `start_run` does, not yet stored. Raises Refused where git left a conflict."""
    store = workspace.store
    tracked = workspace.recorded(skill)
    check_merged(store.skills.get_files(tracked.id, tracked.live_version))
    tasks = chosen_tasks(workspace, tracked, config, only)
    backends = workspace.backends_for(tasks) | {"optimizer": workspace.backend("optimizer")}
    check_caps(workspace.caps, backends)
    check_batch(workspace, backends)
    sessions = store.trajectories.recent_trajectories(tracked.id, config.sessions)
    draft = Run(
        id="",
        skill_id=tracked.id,
        base_version=tracked.live_version,
        config=config.model_dump_json(),
        prompts=json.dumps(asdict(prompts or load_prompts())),
        tasks=tuple(task.id for task in tasks),
        sessions=tuple(sessions),
        target=backends["target"].name,
        optimizer=backends["optimizer"].name,
        status="running",
        note=store.runs.note_of_skill(tracked.id) if config.meta_skill else "",
        judge=judge_named(backends),
        caps=workspace.caps,
        answering=(answering(backends),),
    )
    ordinal = store.runs.count_runs(tracked.id)
    return replace(draft, id="r-" + hashlib.sha256(f"{ordinal} {draft}".encode()).hexdigest()[:12])


def unfinished_run(workspace: Workspace, skill: str) -> Run:
    """Return the newest run of a skill that has not finished, or the one of this id. Raises NotFound without one."""
    if _RUN_ID.fullmatch(skill):
        run = workspace.store.runs.get_run(skill)
        if run.kind != "replay" or run.status == "finished":
            raise NotFound(f"'{run.id}' is no run that is unfinished: look at it with 'skillopt-mcp show {run.id}'")
        return run
    tracked = workspace.recorded(skill)
    if found := workspace.store.runs.find_unfinished(tracked.id):
        return found
    new = f"skillopt-mcp replay {called(workspace.store, tracked)} {BACKENDS}"
    raise NotFound(f"no run of '{tracked.name}' is unfinished: start one with '{new}'")


def replay(
    workspace: Workspace, run: Run, notify: Notify = silent, on_reply: OnReply | None = None,
    n_slots: int | None = None, *, allow_changed: bool = False,
) -> Replayed:  # fmt: skip
    """Return the outcome of a run, trained from wherever it stopped, its best version confirmed on held-out tasks.

    A run whose search was ended goes on with its promotion test alone; one whose watcher raises Enough is ended there.
    It goes on under the caps that it was given last, those of the workspace in their places, and keeps them. Raises
    Busy when somebody else is advancing it, Refused when it was frozen with other backends, or others answer by their
    names now, which `allow_changed` lets them: then both versions are measured anew. When interrupted, or
    stopped at a cap or by an outage (Stopped), what was finished is kept, and the run is stopped. Batches that are at a
    vendor then go on there, and are collected when the run goes on.
    """
    store = workspace.store
    skill = store.skills.get_skill(run.skill_id)
    if run.result:
        return Replayed.model_validate_json(run.result)
    backends = backends_of(workspace, run)
    check_batch(workspace, backends)
    lock = lock_of(workspace, run)
    status: RunStatus = "stopped"
    higher = store.runs.get_higher(run.id) if run.status == "stopped" else ""
    try:
        run = store.runs.get_run(run.id)
        if run.result:
            status = "finished"
            return Replayed.model_validate_json(run.result)
        if not allow_changed:
            check_unchanged(workspace, run, backends)
        caps = _kept_caps(workspace, run, backends)
        run = note_answering(workspace, run, backends)
        store.runs.set_status(run.id, "running")
        higher = ""
        plan = planned(workspace, run)
        way = Way(workspace, Budget(run.id, caps), notify, on_reply, n_slots)
        with span("run", run=run.id, skill=skill.name):
            best = _searched(run, plan, backends, way)
            result = finish(store.runs.get_run(run.id), skill, plan, best, way)
        store.runs.set_status(run.id, "finished", result.model_dump_json())
        status = "finished"
        return result
    except CapReached as reached:
        higher = reached.higher
        raise
    finally:
        try:
            if status == "stopped":
                store.runs.set_status(run.id, "stopped", higher=higher)
        finally:
            lock.release()


def conclude(workspace: Workspace, run: Run, why: str) -> Run:
    """Return a run once its search has ended after its last finished step; where it is over, the run is as it was.

    What it has at a vendor is cancelled. Raises Busy when somebody is advancing it, BackendError when its vendor does
    not listen: then the search is not ended.
    """
    lock = lock_of(workspace, run)
    try:
        run = workspace.store.runs.get_run(run.id)
        if run.result or not is_searching(workspace, run):
            return run
        if any(batch.state != "cancelling" for batch in waiting_batches(workspace, run.id)):
            abandon(workspace, run_backends(workspace, run), run.id)
        _conclude(workspace.store, planned(workspace, run), why)
        return workspace.store.runs.get_run(run.id)
    finally:
        lock.release()


def is_searching(workspace: Workspace, run: Run) -> bool:
    """Return whether steps of a run's search are still to do."""
    n_steps = len(workspace.store.runs.list_steps(run.id))
    return run.conclusion is None and n_steps < planned(workspace, run).n_rows


def _conclude(store: Store, plan: Plan, why: str) -> None:
    n_steps = len(store.runs.list_steps(plan.run_id))
    if n_steps < plan.n_rows:
        store.runs.conclude(plan.run_id, Conclusion(n_steps, plan.n_rows, why))


def caps_of(workspace: Workspace, run: Run) -> Caps:
    """Return the caps that a run goes on under here: those that it was given last, the workspace's in their places."""
    return run.caps.replaced_by(workspace.caps)


def _kept_caps(workspace: Workspace, run: Run, backends: Mapping[Role, Backend]) -> Caps:
    """Return the caps that a run goes on under, once they are stored with it. Raises BadInput when they cannot hold."""
    caps = caps_of(workspace, run)
    check_caps(caps, backends)
    if caps != run.caps:
        workspace.store.runs.set_caps(run.id, caps)
    return caps


def planned(workspace: Workspace, run: Run) -> Plan:
    """Return the plan that a run was frozen to. Raises BadInput when it cannot be trained on."""
    store = workspace.store
    by_id = {task.id: task for task in store.tasks.list_tasks(run.skill_id)}
    tasks = [by_id[task_id] for task_id in run.tasks]
    found = (store.trajectories.find_sound(trajectory_id) for trajectory_id in run.sessions)
    plan = Plan(
        run_id=run.id,
        skill_id=run.skill_id,
        base=store.skills.get_files(run.skill_id, run.base_version),
        config=Config.of_run(run.config),
        prompts=stored_prompts(run.prompts),
        train=tuple(task for task in tasks if task.split == "train"),
        val=tuple(task for task in tasks if task.split == "val"),
        sessions=tuple(each[1] for each in found if each),
        note=run.note,
        known=workspace.known,
    )
    if run.kind == "replay":
        check_splits(plan)
    return plan


def _up_to_the_top(notify: Notify, config: Config) -> Notify:
    """Return what tells a watcher the news, and ends the search where nothing that it asked for could change anything.

    A callback's own reason to end it comes first.
    """

    def tell(progress: Progress) -> None:
        notify(progress)
        if is_topped(config, progress.current):
            raise _Topped

    return tell


def _searched(run: Run, plan: Plan, backends: Mapping[Role, Backend], way: Way) -> Best:
    """Return the best version once the search is over; after one that was ended, by its last finished step."""
    store = way.workspace.store
    if run.conclusion is None:
        try:
            notify = _up_to_the_top(way.notify, plan.config)
            state = answered(way.through(backends, run.id, lambda ask: train(plan, store, ask, notify)))
            return Best(state.best, state.best_score)
        except _Topped:
            _conclude(store, plan, TOPPED)
        except Enough as enough:
            said = shortened(way.workspace.redactor.text(str(enough)), _WHY_BYTES)
            _conclude(store, plan, f"by a callback: {said}" if said else "by a callback")
    steps = store.runs.list_steps(run.id)
    if not steps:
        return Best(plan.base, 0.0)
    return Best(store.skills.get_files(run.skill_id, steps[-1].best_version), steps[-1].best)
