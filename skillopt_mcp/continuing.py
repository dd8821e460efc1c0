"""Continuing: proposals from evidence, and `submit_work`, which goes on with them and with promotion tests."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Literal

from pydantic import JsonValue

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.host import is_host
from skillopt_mcp.calls.asking import Asker, run_or_wait
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.candidates import kept, proposed
from skillopt_mcp.costs import add_up, check_caps
from skillopt_mcp.documents.text import quoted
from skillopt_mcp.errors import BadInput, Busy, NotFound, Refused, SkillOptError
from skillopt_mcp.estimates import estimate_proposal
from skillopt_mcp.evidence import judge_named
from skillopt_mcp.gates.search import mean_score
from skillopt_mcp.promotion_tests import candidate_of_job, evaluate_candidate, target_tasks
from skillopt_mcp.prompts.loading import load_prompts
from skillopt_mcp.records.calls import Call, Role, Rollout
from skillopt_mcp.records.candidates import Candidate, candidate_id
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Evaluated, Proposed, Receipt, Submitted, WorkEstimate
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.skills import Skill, SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.runs import Outcome, as_it_stands, discarded_before, erased_of, planned, take_back, unmade
from skillopt_mcp.skill_folders import known
from skillopt_mcp.skills import check_merged
from skillopt_mcp.splits import stratified
from skillopt_mcp.stages.rollout import Evaluation
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tracing import span
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.loop import Turn, guard_findings, step_work
from skillopt_mcp.training.plan import Plan, State, Step, Work, what_failed
from skillopt_mcp.training.progress import Notify, silent
from skillopt_mcp.work_items import Room, hand_out, receive, withdraw
from skillopt_mcp.workspace import Workspace, shortened

MAX_SESSIONS = 40
MIN_SESSIONS = 8
MAX_ROLLOUTS = 64
MAX_EDITS = 12
LEFT_OUT_BYTES = 120
MAX_NOTES = 8
_PROPOSAL = "r-"


def propose_from_evidence(
    workspace: Workspace, skill: str, rollouts: int = 0, wait_s: float | None = None, room: Room | None = None,
    notify: Notify = silent,
) -> Proposed:  # fmt: skip
    """Return the candidate that reflection makes of a skill's newest trajectories, `running`, or `work` for a host.

    With `rollouts`, so many train tasks are attempted first. A proposal that was begun on the same version goes on.
    A host gets the estimate before any work. Raises BadInput when there is nothing to learn from, BackendError when no
    optimizer is set, Refused where git left a conflict in the skill.
    """
    if not 0 <= rollouts <= MAX_ROLLOUTS:
        raise BadInput(f"rollouts must be 0-{MAX_ROLLOUTS}, got {rollouts}")
    tracked = workspace.skill(skill)
    check_merged(workspace.store.skills.get_files(tracked.id, tracked.live_version))
    possible = min(rollouts, len(_train_tasks(workspace, tracked))) if rollouts else 0
    run = _unfinished(workspace, tracked, possible) or _begun(workspace, tracked, possible)
    return advance_proposal(workspace, run, wait_s, room, notify)


def advance_proposal(
    workspace: Workspace, run: Run, wait_s: float | None, room: Room | None, notify: Notify = silent
) -> Proposed:
    """Return where a proposal stands, advanced as far as its backends answer, and work as `hand_out` does.

    Raises Refused when it was given up.
    """
    skill = workspace.store.skills.get_skill(run.skill_id)
    if run.result:
        return as_it_stands(workspace, skill, Proposed.model_validate_json(run.result))
    if run.status == "stopped":
        raise Refused(f"the proposal '{run.id}' was replaced, or '{skill.name}' has changed: call propose_edits")
    job = workspace.jobs.attach(run.id, functools.partial(_work, workspace, run))
    job.watch(notify)
    if not job.wait(wait_s):
        arguments: dict[str, JsonValue] = {"skill": skill.name}
        return _open(skill, run, NextStep(action="propose_edits", arguments=arguments, why="it is still running"))
    workspace.jobs.drop(run.id, job)
    outcome, erased = job.result.result()
    if erased_of(workspace.store, run) != erased:
        return advance_proposal(workspace, run, wait_s, room, notify)
    if isinstance(outcome, Work):
        return as_it_stands(workspace, skill, _finished(workspace, skill, run, outcome))
    if room is None and not workspace.store.leases.list_of(run.id):
        estimate = _estimate(workspace, run)
        why = f"takes up to {estimate.agent_runs()[1]} agent runs: ask the user first"
        step = NextStep(action="submit_work", arguments={"job_id": run.id}, why=why)
        return _open(skill, run, step).model_copy(update={"status": "work", "estimate": estimate})
    work, next_step = hand_out(workspace, run.id, outcome, room)
    if work and erased_of(workspace.store, run) != erased and take_back(workspace, outcome):
        return advance_proposal(workspace, run, wait_s, room, notify)
    standing = _open(skill, run, next_step)
    return standing.model_copy(update={"status": "work", "work": work}) if work else standing


def _open(skill: Skill, run: Run, next_step: NextStep) -> Proposed:
    return Proposed(
        status="running",
        skill=skill.name,
        candidate_id=None,
        diff="",
        edits=[],
        rollouts=len(run.tasks),
        job_id=run.id,
        next_step=next_step,
    )


def _estimate(workspace: Workspace, run: Run) -> WorkEstimate:
    n = estimate_proposal(run, planned(workspace, run).train)
    backends: dict[Role, str] = {"target": run.target, "judge": run.judge, "optimizer": run.optimizer}
    return WorkEstimate(
        attempts=(n["target"], n["target"]),
        judgements=(0, n["judge"]),
        questions=(0, n["optimizer"]),
        by_host=[role for role, backend in backends.items() if n[role] and is_host(backend)],
    )


def _is_only_offered(workspace: Workspace, run: Run) -> bool:
    """Return whether a host has the estimate of a proposal, and nothing of it was done or handed out."""
    # Attempts come before any question on them.
    return is_host(run.target if run.tasks else run.optimizer) and not workspace.store.leases.list_of(run.id)


def _unfinished(workspace: Workspace, skill: Skill, rollouts: int) -> Run | None:
    """Return the skill's open proposal; one that began on another version is given up.

    So is one with another number of rollouts of which only the estimate was given.
    """
    runs = workspace.store.runs
    for run in reversed(runs.list_proposals_under_way(skill.id)):
        if run.base_version == skill.live_version and _named(workspace) == (run.target, run.optimizer):
            if rollouts in (0, len(run.tasks)) or not _is_only_offered(workspace, run):
                return run
            _mark_unseen(workspace.store, run)
        runs.set_status(run.id, "stopped")
        withdraw(workspace, run.id)
    return None


def _named(workspace: Workspace) -> tuple[str, str]:
    return workspace.backend("target").name, workspace.backend("optimizer").name


def _begun(workspace: Workspace, skill: Skill, rollouts: int) -> Run:
    store = workspace.store
    _, n_new = store.trajectories.count_trajectories(skill.id)
    sessions = store.trajectories.recent_trajectories(skill.id, min(MAX_SESSIONS, max(n_new, MIN_SESSIONS)))
    earlier = store.runs.list_runs(skill.id)
    pool = _train_tasks(workspace, skill) if rollouts else []
    # Others each time.
    kinds = [task.tags[0] if task.tags else "" for task in pool]
    tasks = [pool[at] for at in stratified(kinds, rollouts, f"proposal {len(earlier)}")]
    if not sessions and not tasks:
        raise BadInput(f"no scored attempts of '{skill.name}' are recorded: record some, or pass rollouts")
    backends = _backends(workspace, tasks)
    check_caps(workspace.caps, backends)
    config = Config(epochs=1, batch=max(1, len(tasks)), sessions=len(sessions), max_edits=MAX_EDITS)
    target, optimizer = _named(workspace)
    draft = Run(
        id="",
        skill_id=skill.id,
        base_version=skill.live_version,
        config=config.model_dump_json(),
        prompts=json.dumps(asdict(load_prompts())),
        tasks=tuple(task.id for task in tasks),
        sessions=tuple(sessions),
        target=target,
        optimizer=optimizer,
        status="running",
        note=store.runs.note_of_skill(skill.id),
        judge=judge_named(backends),
        kind="proposal",
    )
    digest = hashlib.sha256(f"proposal {len(earlier)} {draft}".encode()).hexdigest()
    run = replace(draft, id=f"r-{digest[:12]}")
    store.runs.add_run(run)
    store.trajectories.mark_seen(skill.id)
    return run


def _train_tasks(workspace: Workspace, skill: Skill) -> list[Task]:
    tasks = [task for task in target_tasks(workspace, skill.id) if task.split == "train"]
    if not tasks:
        raise BadInput(f"'{skill.name}' has no train task: add tasks, or leave out rollouts")
    return tasks


def _backends(workspace: Workspace, tasks: list[Task]) -> dict[Role, Backend]:
    optimizer: dict[Role, Backend] = {"optimizer": workspace.backend("optimizer")}
    return workspace.backends_for(tasks) | optimizer


def _work(workspace: Workspace, run: Run, notify: Notify) -> Outcome:
    store = workspace.store
    lock = lock_run(store.locks_path, run.id)
    if lock is None:
        raise Busy(f"another process runs the proposal '{run.id}': call again to see its result")
    try:
        erased = erased_of(store, run)
        plan = replace(planned(workspace, run), discarded=discarded_before(store, run))
        draws = _attempted(workspace, run, plan)
        step = Step(1, 1, (plan.train,) if plan.train else (), plan.config.max_edits, run.id, draws=draws)
        backends, budget = _backends(workspace, list(plan.train)), Budget(run.id, workspace.caps)
        with span("proposal", run=run.id), Asker(store, backends, run.id, budget=budget) as ask:
            turn = Turn(plan, store, ask, notify, _start(plan), step)
            return Outcome(run_or_wait(ask, store, lambda: step_work(turn)), erased)
    finally:
        lock.release()


def _attempted(workspace: Workspace, run: Run, plan: Plan) -> dict[int, str]:
    """Return the draws of the attempts at a plan's tasks that earlier proposals made on the same text, by task id."""
    if not plan.train:
        return {}
    fingerprint = workspace.backend("target").fingerprint
    draws = dict[int, str]()
    for earlier in workspace.store.runs.list_runs(run.skill_id):
        if earlier.id == run.id:
            break
        if earlier.kind == "proposal" and earlier.base_version == run.base_version:
            asked = [task for task in plan.train if task.id in earlier.tasks and task.id not in draws]
            calls = [Call("target", "rollout", Rollout(plan.base, task), earlier.id) for task in asked]
            replies = workspace.store.calls.get_replies([call.key(fingerprint) for call in calls])
            for task, call in zip(asked, calls, strict=True):
                reply = replies.get(call.key(fingerprint))
                if reply and not reply.missing:
                    draws[task.id] = earlier.id
    return draws


def _start(plan: Plan) -> State:
    nothing = Evaluation((), mean_score(()), 0.0)
    return State(0, plan.base, nothing, plan.base, nothing)


def _finished(workspace: Workspace, skill: Skill, run: Run, work: Work) -> Proposed:
    """Return the outcome, stored with the run: a candidate, or why there is none."""
    base = workspace.store.skills.get_files(skill.id, run.base_version)
    made = _candidate(workspace, run, base, work) if work.applied.files != base else None
    result = proposed(skill.name, base, work.applied, made)
    step = result.next_step if made else _after_nothing(workspace, run, skill, result)
    notes = [*result.notes, *unmade(work.selected.edits, result), *work.unusable, *work.patterns][:MAX_NOTES]
    left_out = [shortened(each.content or each.target or "", LEFT_OUT_BYTES) for each in work.left_out]
    added = {"next_step": step, "notes": notes, "rollouts": len(run.tasks), "job_id": run.id, "left_out": left_out}
    result = result.model_copy(update=added)
    workspace.store.runs.set_status(run.id, "finished", result.model_dump_json())
    withdraw(workspace, run.id)
    return result


def _after_nothing(workspace: Workspace, run: Run, skill: Skill, result: Proposed) -> NextStep:
    """Return what to do after a proposal without a candidate; lost answers make the attempts behind it new again."""
    store, arguments = workspace.store, dict[str, JsonValue](skill=skill.name)
    if not result.edits and not _is_lost(store, run):
        why = "reflection found nothing to change: record more attempts, failed ones first"
        return NextStep(action="record_trajectory", arguments=arguments, why=why)
    _mark_unseen(store, run)
    why = "no edit applies: correct those in `notes` as their details say" if result.edits else "the answers were lost"
    return NextStep(action="propose_edits", arguments=arguments, why=why)


def _mark_unseen(store: Store, run: Run) -> None:
    """Let the attempts behind a proposal that came to nothing be new again, but for those that another has read."""
    others = [each for each in store.runs.list_runs(run.skill_id) if each.kind == "proposal"]
    read = {session for each in others if _has_taught(store, each) for session in each.sessions}
    if unread := set(run.sessions) - read:
        store.trajectories.mark_unseen(run.skill_id, min(unread))


def _has_taught(store: Store, run: Run) -> bool:
    """Return whether a finished proposal came to a candidate, or to the view that nothing is to be changed."""
    if not run.result:
        return False
    result = Proposed.model_validate_json(run.result)
    return result.candidate_id is not None or not (result.edits or _is_lost(store, run))


def _is_lost(store: Store, run: Run) -> bool:
    """Return whether every analyst that a proposal asked stayed without an answer."""
    asked = add_up([row for row in store.ledger.list_rows(run.id) if row.stage == "reflect"])
    return 0 < asked.n_missing == asked.n_calls - asked.n_again


def _candidate(workspace: Workspace, run: Run, base: SkillFiles, work: Work) -> Candidate:
    made = Candidate(
        id=candidate_id(run.skill_id, base.digest, work.applied.files.digest),
        skill_id=run.skill_id,
        base_version=base.digest,
        version_id=work.applied.files.digest,
        origin="run",
        reasoning=what_failed(work),
        findings=guard_findings(planned(workspace, run), work),
        run_id=run.id,
    )
    return kept(workspace, made, work.selected, work.applied)


# Going on with a job


def submit_work(
    workspace: Workspace, replies: Sequence[object], job_id: str = "", room: Room | None = None,
    wait_s: float | None = None, notify: Notify = silent,
) -> Submitted:  # fmt: skip
    """Return what became of the replies, and where their job, or the named one, stands then.

    A reply is {work_id} (the server reads the folder), {work_id, reply, tool_calls?, score?} or {work_id, failed}. With
    room for nothing and no job named, an agent only hands in: the outcome of the job is for the session that drives it.
    Raises BadInput when neither replies nor a job are given, NotFound for an unknown job.
    """
    if not replies and not job_id:
        raise BadInput("give replies ([{work_id, reply?}]), or the job_id to take work of")
    room = room or Room()
    receipts, scopes = receive(workspace, replies)
    failing = [each.work_id for each in receipts if each.status in ("refused", "unknown")]
    refused = f"{len(failing)} of {len(receipts)} replies were not taken" if failing else ""
    mend = _mend(failing, refused) if failing else None
    receipts = _without_repeats(receipts)
    job = job_id or next(iter(scopes), "")
    if not job:
        return Submitted(status="stopped", job_id="", receipts=receipts, reason=refused, next_step=mend)
    # A session whose replies were all refused mends those first.
    turn = replace(room, items=0) if receipts and len(failing) == len(receipts) else room
    answer = _advance(workspace, job, turn, wait_s, notify).model_copy(update={"receipts": receipts})
    if not room.items and not job_id:
        is_over = answer.status == "done" or (answer.status == "stopped" and not mend)
        status: Literal["done", "running"] = "done" if is_over else "running"
        return Submitted(
            status=status, job_id=job, receipts=receipts, next_step=None if answer.status == "done" else mend
        )
    if mend and answer.status in ("running", "stopped"):
        return answer.model_copy(update={"reason": answer.reason or refused, "next_step": mend})
    return answer.model_copy(update={"reason": refused}) if mend and answer.work else answer


def _mend(failing: list[str], refused: str) -> NextStep:
    replies: list[JsonValue] = [{"work_id": each} for each in failing]
    why = f"{refused}: correct what their receipts say"
    return NextStep(action="submit_work", arguments={"replies": replies}, why=why)


def _without_repeats(receipts: Sequence[Receipt]) -> list[Receipt]:
    """Return the receipts; a reason that an earlier one has is shortened, as 64 long ones are more than an answer."""
    seen, brief = set[str](), []
    for each in receipts:
        brief.append(each.model_copy(update={"reason": "as above"}) if each.reason in seen else each)
        seen |= {each.reason} - {""}
    return brief


def _advance(workspace: Workspace, job: str, room: Room, wait_s: float | None, notify: Notify) -> Submitted:
    """Return where a job stands, advanced as far as its backends answer: work, its result, or why it stopped."""
    store, again = workspace.store, dict[str, JsonValue](job_id=job)
    outcome: Evaluated | Proposed
    try:
        if job.startswith(_PROPOSAL):
            outcome = advance_proposal(workspace, _proposal(store, known(job)), wait_s, room, notify)
        else:
            outcome = evaluate_candidate(workspace, candidate_of_job(workspace, known(job)), wait_s, notify, room=room)
    except Busy as error:
        step = NextStep(action="submit_work", arguments=again, why="what was accepted is kept")
        return Submitted(status="running", job_id=job, receipts=[], reason=str(error), next_step=step)
    except NotFound:
        raise
    except SkillOptError as error:
        reason = shortened(str(error), 600)
        return Submitted(
            status="stopped", job_id=job, receipts=[], reason=reason, next_step=_after_stop(workspace, job)
        )
    if outcome.status in ("work", "running"):
        return Submitted(
            status="work" if outcome.work else "running", job_id=job, receipts=[], work=outcome.work,
            estimate=outcome.estimate, next_step=outcome.next_step,
        )  # fmt: skip
    result = {"evaluated": outcome} if isinstance(outcome, Evaluated) else {"proposed": outcome}
    return Submitted(status="done", job_id=job, receipts=[], next_step=outcome.next_step, **result)


def _after_stop(workspace: Workspace, job: str) -> NextStep:
    """Return what to do about a stopped job: go on with it, or make another proposal where the file has changed."""
    store = workspace.store
    go_on = NextStep(action="submit_work", arguments={"job_id": job}, why="correct what `reason` says first")
    if job.startswith(_PROPOSAL):
        run = store.runs.get_run(job)
        skill = store.skills.get_skill(run.skill_id)
        if run.status != "stopped":
            return go_on
    else:
        candidate = store.candidates.get_candidate(candidate_of_job(workspace, job))
        skill = store.skills.get_skill(candidate.skill_id)
        if candidate.base_version == skill.live_version:
            return go_on
    return NextStep(action="propose_edits", arguments={"skill": skill.name}, why="the live file has changed")


def _proposal(store: Store, job: str) -> Run:
    try:
        run = store.runs.get_run(job)
    except NotFound:
        run = None
    if run is None or run.kind != "proposal":
        raise NotFound(f"unknown job {quoted(job)}: use the job_id that came with the work")
    return run
