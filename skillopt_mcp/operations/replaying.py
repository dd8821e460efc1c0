"""Replaying: offline epochs over a skill's stored tasks, resumable at any point, confirmed at the end."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.calls.asking import Asker, OnReply
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.errors import Busy, NotFound, Refused
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.guard import findings
from skillopt_mcp.operations.results import Replayed, StepRow
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.confirmation import open_test, run_test
from skillopt_mcp.optimizer.plan import Plan, State
from skillopt_mcp.optimizer.progress import Notify, silent
from skillopt_mcp.optimizer.training import train
from skillopt_mcp.prompts.loading import Prompts, load_prompts
from skillopt_mcp.records.calls import Role
from skillopt_mcp.records.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.records.evidence import Confirmation
from skillopt_mcp.records.runs import Run, RunStatus, StepRecord
from skillopt_mcp.records.skills import Skill, short


def start_run(workspace: Workspace, skill: str, config: Config) -> Run:
    """Return a new run of a skill, stored and frozen: config, prompts, tasks, sessions, base version and backends."""
    store = workspace.store
    tracked = workspace.skill(skill)
    tasks = store.tasks.list_tasks(tracked.id)
    sessions = store.tasks.recent_trajectories(tracked.id, config.sessions)
    draft = Run(
        id="",
        skill_id=tracked.id,
        base_version=tracked.live_version,
        config=config.model_dump_json(),
        prompts=json.dumps(asdict(load_prompts())),
        tasks=tuple(task.id for task in tasks),
        sessions=tuple(sessions),
        target=workspace.backend("target").name,
        optimizer=workspace.backend("optimizer").name,
        status="running",
    )
    ordinal = len(store.runs.list_runs(tracked.id))
    run = replace(draft, id="r-" + hashlib.sha256(f"{ordinal} {draft}".encode()).hexdigest()[:12])
    _plan(workspace, run)
    store.runs.add_run(run)
    return run


def unfinished_run(workspace: Workspace, skill: str) -> Run:
    """Return the newest run of a skill that has not finished. Raises NotFound when there is none."""
    tracked = workspace.skill(skill)
    for run in reversed(workspace.store.runs.list_runs(tracked.id)):
        if run.status != "finished":
            return run
    raise NotFound(f"no run of '{tracked.name}' is unfinished: start one with 'skillopt-mcp replay {tracked.name}'")


def replay(
    workspace: Workspace, run: Run, notify: Notify = silent, on_reply: OnReply | None = None, n_slots: int = 8
) -> Replayed:
    """Return the outcome of a run, trained from wherever it stopped, its best version confirmed on held-out tasks.

    Raises Busy when another process is advancing it, Refused when it was frozen with other backends. When interrupted,
    what was finished is kept, and the run is marked as stopped.
    """
    store = workspace.store
    skill = store.skills.get_skill(run.skill_id)
    if run.result:
        return Replayed.model_validate_json(run.result)
    target, optimizer = workspace.backend("target"), workspace.backend("optimizer")
    if (target.name, optimizer.name) != (run.target, run.optimizer):
        raise Refused(
            f"run '{run.id}' was begun with target '{run.target}' and optimizer '{run.optimizer}': resume it with these"
        )
    lock = lock_run(store.locks_path, run.id)
    if lock is None:
        raise Busy(f"another process is advancing run '{run.id}': wait for it, or stop it")
    status: RunStatus = "stopped"
    try:
        run = store.runs.get_run(run.id)
        if run.result:
            status = "finished"
            return Replayed.model_validate_json(run.result)
        store.runs.set_status(run.id, "running")
        plan = _plan(workspace, run)
        backends: dict[Role, Backend] = {"target": target, "optimizer": optimizer}
        with Asker(store, backends, run.id, n_slots=n_slots, on_reply=on_reply) as ask:
            state = train(plan, store, ask, notify)
        result = _finish(workspace, run, skill, plan, state, notify, on_reply, n_slots)
        store.runs.set_status(run.id, "finished", result.model_dump_json())
        status = "finished"
        return result
    finally:
        try:
            if status == "stopped":
                store.runs.set_status(run.id, "stopped")
        finally:
            lock.release()


def _plan(workspace: Workspace, run: Run) -> Plan:
    store = workspace.store
    by_id = {task.id: task for task in store.tasks.list_tasks(run.skill_id)}
    tasks = [by_id[task_id] for task_id in run.tasks]
    found = (store.tasks.get_trajectory(trajectory_id) for trajectory_id in run.sessions)
    return Plan(
        run_id=run.id,
        skill_id=run.skill_id,
        base=store.skills.get_files(run.skill_id, run.base_version),
        config=Config.model_validate_json(run.config),
        prompts=Prompts(**json.loads(run.prompts)),
        train=tuple(task for task in tasks if task.split == "train"),
        val=tuple(task for task in tasks if task.split == "val"),
        sessions=tuple(each[1] for each in found if each),
    )


def _finish(
    workspace: Workspace, run: Run, skill: Skill, plan: Plan, state: State, notify: Notify,
    on_reply: OnReply | None, n_slots: int,
) -> Replayed:  # fmt: skip
    """Return the outcome: the best version becomes a candidate, and the promotion gate looks at it once."""
    store = workspace.store
    confirmation, made, calls = None, None, [run.id]
    if state.best != plan.base:
        made = _best_candidate(workspace, run, plan, state)
        tasks = [task for task in store.tasks.list_tasks(run.skill_id) if task.id in set(run.tasks)]
        rule = ConfirmRule(alpha=plan.config.alpha, max_pairs=plan.config.max_pairs)
        target = workspace.backend("target")
        test = open_test(store, (plan.base, state.best), tasks, target.fingerprint, rule)
        calls.append(test.row.id)
        with Asker(store, {"target": target}, test.row.id, n_slots=n_slots, on_reply=on_reply) as ask:
            confirmation = run_test(test, store, ask, notify)
    return _replayed(workspace, run, skill, made, confirmation, calls)


def _best_candidate(workspace: Workspace, run: Run, plan: Plan, state: State) -> Candidate:
    made = Candidate(
        id=candidate_id(run.skill_id, plan.base.digest, state.best.digest),
        skill_id=run.skill_id,
        base_version=plan.base.digest,
        version_id=state.best.digest,
        origin="run",
        reasoning=f"the best version of run {run.id}, val score {state.best_score:.4f}",
        findings=findings(plan.base, state.best),
        run_id=run.id,
    )
    return workspace.store.candidates.add_candidate(NewCandidate(made, state.best))


def _replayed(
    workspace: Workspace, run: Run, skill: Skill, made: Candidate | None, confirmation: Confirmation | None,
    scopes: list[str],
) -> Replayed:  # fmt: skip
    ledger = [row for scope in scopes for row in workspace.store.calls.ledger(scope)]
    prices = [row.usd for row in ledger]
    steps = workspace.store.runs.list_steps(run.id)
    return Replayed(
        run_id=run.id,
        skill=skill.name,
        status="finished",
        steps=[_row(step) for step in steps],
        best_version=short(made.version_id if made else run.base_version),
        candidate_id=made.id if made else None,
        verdict=confirmation.verdict if confirmation else None,
        reason=confirmation.reason
        if confirmation
        else "no candidate did better than the live version on the val tasks",
        test_before=confirmation.base_mean if confirmation else None,
        test_after=confirmation.candidate_mean if confirmation else None,
        n_pairs=confirmation.n_pairs if confirmation else 0,
        n_calls=sum(row.n_calls for row in ledger),
        n_missing=sum(row.n_missing for row in ledger),
        tokens_in=sum(row.tokens_in for row in ledger),
        tokens_out=sum(row.tokens_out for row in ledger),
        usd=None if None in prices else sum(price for price in prices if price is not None),
        backend=run.target,
        next_step=_next_step(skill, made, confirmation),
    )


def _next_step(skill: Skill, made: Candidate | None, confirmation: Confirmation | None) -> str:
    if made is None or confirmation is None:
        return (
            f"Nothing to promote. Look at the steps (skillopt-mcp show RUN), add tasks to '{skill.name}', or try again."
        )
    if confirmation.verdict == "accept":
        return f"skillopt-mcp promote {made.id}"
    if confirmation.verdict == "undecided":
        return f"The evidence does not decide yet; more pairs: skillopt-mcp evaluate {made.id}"
    return "The best version of this run brings no useful gain; the live file stays."


def _row(step: StepRecord) -> StepRow:
    return StepRow(
        epoch=step.epoch,
        step=step.n,
        train_hard=step.train.hard,
        n_edits=step.n_applied,
        verdict=step.verdict,
        current=step.current,
        candidate=step.candidate,
        best=step.best,
    )
