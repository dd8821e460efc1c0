"""Reflecting: the optimizer reads what was recorded of a skill, and attempts of train tasks, and proposes edits."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict, replace

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.calls.asking import Asker, run_or_wait
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.errors import BadInput, Busy, Refused
from skillopt_mcp.gates.means import mean_score
from skillopt_mcp.operations.candidates.proposing import kept, proposed
from skillopt_mcp.operations.host_work.handing_out import Room, hand_out, withdraw
from skillopt_mcp.operations.judging import judge_named
from skillopt_mcp.operations.results import Proposed
from skillopt_mcp.operations.runs.damaged import told_damaged
from skillopt_mcp.operations.runs.discarded import discarded_before
from skillopt_mcp.operations.runs.forgetting import Outcome, erased_of, take_back
from skillopt_mcp.operations.runs.offering import is_only_offered, offer, told_rollouts
from skillopt_mcp.operations.runs.outcomes import as_it_stands, unmade
from skillopt_mcp.operations.runs.replaying import planned
from skillopt_mcp.operations.skills.merging import check_merged
from skillopt_mcp.operations.spending.budgeting import check_caps
from skillopt_mcp.operations.spending.charging import together
from skillopt_mcp.operations.testing.choosing import target_tasks
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.plan import Plan, State, Step, Work
from skillopt_mcp.optimizer.progress import Notify, silent
from skillopt_mcp.optimizer.search import held_by
from skillopt_mcp.optimizer.training import step_work
from skillopt_mcp.optimizer.turns import Turn
from skillopt_mcp.prompts.loading import load_prompts
from skillopt_mcp.records.calls import Role
from skillopt_mcp.records.candidates import Candidate, candidate_id
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.skills import Skill, SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.splits import epoch_order
from skillopt_mcp.stages.evaluate import Evaluation
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tracing import span

MOST_SESSIONS = 40
FEWEST_SESSIONS = 8
MAX_ROLLOUTS = 64
NOTES_SHOWN = 8


def propose_from_evidence(
    workspace: Workspace, skill: str, rollouts: int = 0, wait_s: float | None = None, room: Room | None = None,
    notify: Notify = silent,
) -> Proposed:  # fmt: skip
    """Return the candidate that reflection makes of a skill's newest trajectories, `running`, or `work` for a host.

    With `rollouts`, so many train tasks are attempted first. A proposal that was begun on the same version goes on.
    What it takes of a host's agents is told before any of that is handed out.
    Raises BadInput when there is nothing to learn from, BackendError when no optimizer is set, Refused where git left a
    conflict in the skill.
    """
    if not 0 <= rollouts <= MAX_ROLLOUTS:
        raise BadInput(f"rollouts {rollouts} is not possible: ask for 0 to {MAX_ROLLOUTS}")
    tracked = workspace.skill(skill)
    check_merged(workspace.store.skills.get_files(tracked.id, tracked.live_version))
    possible = min(rollouts, len(_train_tasks(workspace, tracked))) if rollouts else 0
    run = _unfinished(workspace, tracked, possible) or _begun(workspace, tracked, possible)
    result = advance_proposal(workspace, run, wait_s, room, notify)
    told = told_rollouts(run, rollouts, possible)
    return result.model_copy(update={"next_step": f"{told}{result.next_step}"}) if told else result


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
        raise Refused(
            f"the proposal '{run.id}' was given up for another, or since '{skill.name}' has changed: call propose_edits"
        )
    job = workspace.jobs.attach(run.id, functools.partial(_work, workspace, run))
    job.watch(notify)
    if not job.wait(wait_s):
        return _open(skill, run, f"Call propose_edits for '{skill.name}' again; it goes on meanwhile.")
    workspace.jobs.drop(run.id, job)
    outcome, erased = job.result.result()
    if erased_of(workspace.store, run) != erased:
        return advance_proposal(workspace, run, wait_s, room, notify)
    if isinstance(outcome, Work):
        return as_it_stands(workspace, skill, _finished(workspace, skill, run, outcome))
    if room is None and not workspace.store.leases.list_of(run.id):
        expected, step = offer(workspace, run)
        return _open(skill, run, step).model_copy(update={"status": "work", "notes": [expected]})
    work, next_step = hand_out(workspace, run.id, outcome, room)
    if work and erased_of(workspace.store, run) != erased and take_back(workspace, outcome):
        return advance_proposal(workspace, run, wait_s, room, notify)
    standing = _open(skill, run, next_step)
    return standing.model_copy(update={"status": "work", "work": work}) if work else standing


def _open(skill: Skill, run: Run, next_step: str) -> Proposed:
    return Proposed(
        status="running", skill=skill.name, candidate_id=None, diff="", edits=[], job_id=run.id, next_step=next_step
    )


def _unfinished(workspace: Workspace, skill: Skill, rollouts: int) -> Run | None:
    """Return the skill's proposal that is under way; one that began on another version is given up.

    So is one with another number of rollouts of which no more was done than to tell what it takes.
    """
    runs = workspace.store.runs
    for run in reversed(runs.list_proposals_under_way(skill.id)):
        if run.base_version == skill.live_version and _named(workspace) == (run.target, run.optimizer):
            if rollouts in (0, len(run.tasks)) or not is_only_offered(workspace, run):
                return run
            _teach_again(workspace.store, run)
        runs.set_status(run.id, "stopped")
        withdraw(workspace, run.id)
    return None


def _named(workspace: Workspace) -> tuple[str, str]:
    return workspace.backend("target").name, workspace.backend("optimizer").name


def _begun(workspace: Workspace, skill: Skill, rollouts: int) -> Run:
    store = workspace.store
    _, n_new = store.trajectories.count_trajectories(skill.id)
    sessions = store.trajectories.recent_trajectories(skill.id, min(MOST_SESSIONS, max(n_new, FEWEST_SESSIONS)))
    earlier = store.runs.list_runs(skill.id)
    pool = _train_tasks(workspace, skill) if rollouts else []
    # Others each time.
    tasks = [pool[at] for at in epoch_order(len(pool), 42, len(earlier))[:rollouts]]
    if not sessions and not tasks:
        n_unscored = len(store.trajectories.list_unscored(skill.id, MOST_SESSIONS))
        unscored = f" ({n_unscored} have no score yet: inspect '{skill.name}')" if n_unscored else ""
        raise BadInput(
            f"there is nothing to learn from: record scored attempts of '{skill.name}' with record_trajectory"
            f"{unscored}, or give rollouts: as many train tasks are attempted first"
        )
    backends = _backends(workspace, tasks)
    check_caps(workspace.caps, backends)
    config = Config(epochs=1, batch=max(1, len(tasks)), sessions=len(sessions))
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
        raise BadInput(f"'{skill.name}' has no train task to attempt: add tasks, or leave out rollouts")
    return tasks


def _backends(workspace: Workspace, tasks: list[Task]) -> dict[Role, Backend]:
    optimizer: dict[Role, Backend] = {"optimizer": workspace.backend("optimizer")}
    return workspace.backends_for(tasks) | optimizer


def _work(workspace: Workspace, run: Run, notify: Notify) -> Outcome:
    store = workspace.store
    lock = lock_run(store.locks_path, run.id)
    if lock is None:
        raise Busy(f"another process is at the proposal '{run.id}': call again to see what it comes to")
    try:
        erased = erased_of(store, run)
        plan = replace(planned(workspace, run), discarded=discarded_before(store, run))
        step = Step(1, 1, (plan.train,) if plan.train else (), plan.config.max_edits, run.id)
        backends, budget = _backends(workspace, list(plan.train)), Budget(run.id, workspace.caps)
        with span("proposal", run=run.id), Asker(store, backends, run.id, budget=budget) as ask:
            turn = Turn(plan, store, ask, notify, _start(plan), step)
            return Outcome(run_or_wait(ask, store, lambda: step_work(turn)), erased)
    finally:
        lock.release()


def _start(plan: Plan) -> State:
    nothing = Evaluation((), mean_score(()), 0.0)
    return State(0, plan.base, nothing, plan.base, nothing)


def _finished(workspace: Workspace, skill: Skill, run: Run, work: Work) -> Proposed:
    """Return the outcome, stored with the run: a candidate, or why there is none."""
    base = workspace.store.skills.get_files(skill.id, run.base_version)
    made = _candidate(workspace, run, base, work) if work.applied.files != base else None
    result = proposed(skill.name, base, work.applied, made)
    step = result.next_step if made else _why_none(workspace, run, result)
    told = [*told_damaged(workspace.store, run), *result.notes, *unmade(work.selected.edits, result)]
    notes = [*told, *work.unusable, *work.patterns][:NOTES_SHOWN]
    result = result.model_copy(update={"next_step": step, "notes": notes, "job_id": run.id})
    workspace.store.runs.set_status(run.id, "finished", result.model_dump_json())
    withdraw(workspace, run.id)
    return result


def _why_none(workspace: Workspace, run: Run, result: Proposed) -> str:
    """Return why a proposal has no candidate; where what it learned was lost, the attempts behind it are new again."""
    store = workspace.store
    if not result.edits and not _is_lost(store, run):
        return "Reflection found nothing to change: record more attempts, above all failed ones."
    _teach_again(store, run)
    if result.edits:
        return (
            "Reflection proposed edits, but none could be made in the file: correct them (they stand in notes) as "
            "their details say, and call propose_edits with edits. The recorded attempts count as new again."
        )
    again = "" if run.sessions else " with rollouts"
    return f"The answers were lost, so nothing was learned from the attempts: call propose_edits again{again}."


def _teach_again(store: Store, run: Run) -> None:
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
    asked = together([row for row in store.ledger.list_rows(run.id) if row.stage == "reflect"])
    return 0 < asked.n_missing == asked.n_calls - asked.n_again


def _candidate(workspace: Workspace, run: Run, base: SkillFiles, work: Work) -> Candidate:
    made = Candidate(
        id=candidate_id(run.skill_id, base.digest, work.applied.files.digest),
        skill_id=run.skill_id,
        base_version=base.digest,
        version_id=work.applied.files.digest,
        origin="run",
        reasoning=work.selected.reasoning,
        findings=held_by(planned(workspace, run), base, work),
        run_id=run.id,
    )
    return kept(workspace, made, work.selected, work.applied)
