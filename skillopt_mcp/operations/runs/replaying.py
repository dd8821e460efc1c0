"""Replaying: offline epochs over a skill's stored tasks, resumable at any point, confirmed at the end."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import TypeVar

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.calls.asking import Outstanding
from skillopt_mcp.calls.rounds import OnReply
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.errors import BackendError, NotFound, Refused
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.judges.shapes import is_form_alone
from skillopt_mcp.operations.answering import answering, backends_of, check_unchanged, lock_of, note_answering, tasks_of
from skillopt_mcp.operations.judging import evidence_of, judge_named
from skillopt_mcp.operations.results import Replayed
from skillopt_mcp.operations.runs.concluding import replayed, why_none, why_untested
from skillopt_mcp.operations.skills.merging import check_merged
from skillopt_mcp.operations.spending.batching import Way, check_batch, pairs_ahead
from skillopt_mcp.operations.spending.budgeting import check_caps
from skillopt_mcp.operations.testing.calibrating import prospect
from skillopt_mcp.operations.testing.choosing import chosen_tasks, tasks_to_test
from skillopt_mcp.operations.testing.evaluating import only_here
from skillopt_mcp.operations.testing.opening_tests import check_claimed
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.confirmation import check_claim, open_test, paused_at, run_test
from skillopt_mcp.optimizer.plan import Plan, State, check_splits
from skillopt_mcp.optimizer.progress import Notify, silent
from skillopt_mcp.optimizer.sampling import held_out
from skillopt_mcp.optimizer.training import train
from skillopt_mcp.prompts.loading import Prompts, load_prompts, stored_prompts
from skillopt_mcp.records.budgets import Caps
from skillopt_mcp.records.calls import Role
from skillopt_mcp.records.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.records.evidence import Confirmation
from skillopt_mcp.records.runs import Run, RunStatus
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.tracing import span

T = TypeVar("T")
_RUN_ID = re.compile(r"r-[0-9a-f]{12}")
ALL_RETIRED = "all held-out tasks of the run were retired since it began, so that nothing can be tested"
FORM_ALONE = "the held-out tasks judge the form of answers alone (length, heading), which promotes nothing"


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
    """Store a new run. Raises BadInput when it cannot be trained on, Refused when its test could accept nothing."""
    config = planned(workspace, new).config
    chosen = set(new.tasks)
    tasks = [task for task in workspace.store.tasks.list_tasks(new.skill_id) if task.id in chosen]
    evidence = evidence_of(workspace.backends_for(tasks))
    check_claim(workspace.store, new.skill_id, tasks, evidence, config.promotion_rule)
    workspace.store.runs.add_run(new)


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
    raise NotFound(f"no run of '{tracked.name}' is unfinished: start one with 'skillopt-mcp replay {tracked.name}'")


def replay(
    workspace: Workspace, run: Run, notify: Notify = silent, on_reply: OnReply | None = None,
    n_slots: int | None = None, *, allow_changed: bool = False,
) -> Replayed:  # fmt: skip
    """Return the outcome of a run, trained from wherever it stopped, its best version confirmed on held-out tasks.

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
        plan = planned(workspace, run)
        way = Way(workspace, Budget(run.id, caps), notify, on_reply, n_slots)
        with span("run", run=run.id, skill=skill.name):
            state = _done(way.through(backends, run.id, lambda ask: train(plan, store, ask, notify)))
            result = _finish(run, skill, plan, state, way)
        store.runs.set_status(run.id, "finished", result.model_dump_json())
        status = "finished"
        return result
    finally:
        try:
            if status == "stopped":
                store.runs.set_status(run.id, "stopped")
        finally:
            lock.release()


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
    found = (store.trajectories.get_trajectory(trajectory_id) for trajectory_id in run.sessions)
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


def _done(outcome: T | Outstanding) -> T:
    """Return the outcome of work that no host answers for. Raises BackendError where one would have to."""
    if isinstance(outcome, Outstanding):
        raise BackendError("a host answers through the tools of a server alone: name another backend")
    return outcome


def _finish(run: Run, skill: Skill, plan: Plan, state: State, way: Way) -> Replayed:
    """Return the outcome: the best version becomes a candidate, and the promotion gate looks at it once."""
    workspace, store = way.workspace, way.workspace.store
    made, calls = None, [run.id]
    confirmation: Confirmation | str = why_none(store.runs.list_steps(run.id))
    if state.best != plan.base:
        made = _best_candidate(workspace, run, plan, state)
        everything = tasks_of(workspace, run)
        tasks, held = tasks_to_test(workspace, made, everything)
        if is_form_alone(held) or (held_out(everything) and not held):
            return replayed(workspace, run, skill, made, FORM_ALONE if held else ALL_RETIRED, calls)
        if untested := why_untested(workspace, run, skill, made):
            return replayed(workspace, run, skill, made, untested, calls)
        backends = workspace.backends_for(held)
        try:
            rule = plan.config.promotion_rule
            test = open_test(store, (plan.base, state.best), tasks, evidence_of(backends), rule)
            check_claimed(test, rule, made.id)
        except Refused as error:
            # Other promotion tests have drawn its fresh tasks since the run began, or it was tested for another claim.
            return replayed(workspace, run, skill, made, str(error), calls)
        calls.append(test.row.id)
        test = replace(test, ahead=pairs_ahead(backends))
        paused = paused_at(test.row, store)
        with only_here(store, test, way.notify):
            # A process may die between the verdict and the end of its run: what goes on then draws no second turn.
            since = store.runs.begin_finish(run.id, test.row.id, paused)
            confirmation = _done(
                way.through(backends, test.row.id, lambda ask: run_test(test, store, ask, way.notify, since))
            )
        why = prospect(workspace, run.skill_id, run.base_version, test.rule)
        if why and confirmation.verdict == "undecided":
            confirmation = replace(confirmation, reason=f"{confirmation.reason}; {why}")
    return replayed(workspace, run, skill, made, confirmation, calls)


def _best_candidate(workspace: Workspace, run: Run, plan: Plan, state: State) -> Candidate:
    made = Candidate(
        id=candidate_id(run.skill_id, plan.base.digest, state.best.digest),
        skill_id=run.skill_id,
        base_version=plan.base.digest,
        version_id=state.best.digest,
        origin="run",
        reasoning=f"the best version of run {run.id}, val score {state.best_score:.4f}",
        findings=findings(plan.base, state.best, workspace.known),
        run_id=run.id,
    )
    return workspace.store.candidates.add_candidate(NewCandidate(made, state.best))
