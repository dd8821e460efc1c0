"""Proposals: edits made from recorded sessions and fresh attempts, by models or by the agents of a host."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import replace

from pydantic import JsonValue

from skillopt_mcp.actions.baselines import find_in_baseline
from skillopt_mcp.actions.candidates import describe_edits, keep_candidate, refresh_outcome
from skillopt_mcp.actions.estimates import estimate_proposal
from skillopt_mcp.actions.repeats import list_discarded
from skillopt_mcp.backends.asking import Outstanding
from skillopt_mcp.core.errors import BadInput, Refused
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import Proposed
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.skills import Skill
from skillopt_mcp.core.tracing import span
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.splits import stratified
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.loop import MAX_REJECTED, step_alone
from skillopt_mcp.training.outcome import StepWork, guard_findings, step_candidate
from skillopt_mcp.training.progress import Notify
from skillopt_mcp.workspace.answers import shorten
from skillopt_mcp.workspace.host_work import hand_out, take_back_erased, withdraw
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.models import Models, Names
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import (
    asks_host_first,
    describe_unanswered,
    draft_run,
    find_attempted,
    is_lost,
    list_erased,
    make_plan,
)
from skillopt_mcp.workspace.skills import check_merged

EDIT_BYTES = 600
MAX_SESSIONS = 40
MIN_SESSIONS = 8
MAX_ROLLOUTS = 64
MAX_EDITS = 12
LEFT_OUT_BYTES = 120
MAX_NOTES = 8


def propose_from_evidence(
    store: Store, models: Models, place: Place, skill: str, rollouts: int = 0, wait: Wait | None = None, *,
    preferences: str = "",
) -> Proposed:  # fmt: skip
    """Return the candidate that reflection makes of a skill's newest trajectories, `running`, or `work` for a host.

    With `rollouts`, so many train tasks are attempted first. A proposal that was begun on the same version goes on.
    A person's `preferences` are shown to reflection.
    A host gets the estimate before any work. Raises BadInput when there is nothing to learn from, BackendError when no
    optimizer is set, Refused where git left a conflict in the skill.
    """
    if not 0 <= rollouts <= MAX_ROLLOUTS:
        raise BadInput(f"rollouts must be 0-{MAX_ROLLOUTS}, got {rollouts}")
    tracked = place.skill(skill)
    check_merged(store.skills.get_files(tracked.id, tracked.live_version))
    n_train = sum(task.split == "train" for task in models.list_tasks(tracked.id)) if rollouts else 0
    if rollouts and not n_train:
        why = models.describe_left_out(tracked.id) or "add tasks, or leave out rollouts"
        raise BadInput(f"'{tracked.name}' has no train task: {why}")
    possible = min(rollouts, n_train)
    run = _find_unfinished(store, models, place, tracked, possible)
    run = run or _begin_proposal(store, models, tracked, possible, preferences)
    return advance_proposal(store, models, place, run, wait or Wait())


def advance_proposal(store: Store, models: Models, place: Place, run: Run, wait: Wait) -> Proposed:
    """Where a proposal stands, advanced as far as its backends answer, and work as `hand_out` does.

    Raises Refused when it was given up.
    """
    skill = store.skills.get_skill(run.skill_id)
    if run.result:
        return refresh_outcome(store, place, skill, Proposed.model_validate_json(run.result))
    if run.status == "stopped":
        raise Refused(f"the proposal '{run.id}' was replaced, or '{skill.name}' has changed: call propose_edits")
    job = wait.jobs.attach(run.id, functools.partial(_work, store, models, place, run), wait.notify)
    if not job.wait(wait.seconds):
        step = NextStep(action="propose_edits", arguments={"skill": skill.name}, why="it is still running")
        return _describe_open(store, skill, run, step)
    wait.jobs.drop(run.id, job)
    outcome, erased = job.result.result()
    if list_erased(store, run) != erased:
        return advance_proposal(store, models, place, run, wait)
    if isinstance(outcome, StepWork):
        return refresh_outcome(store, place, skill, _finish_proposal(store, place, skill, run, outcome))
    if wait.capacity is None and not store.leases.list_of(run.id):
        estimate = estimate_proposal(store, place.secrets, run, [*outcome.calls.values()])
        why = f"takes up to {estimate.agent_runs()[1]} agent runs: ask the user first"
        step = NextStep(action="submit_work", arguments={"job_id": run.id}, why=why)
        return _describe_open(store, skill, run, step).model_copy(update={"status": "work", "estimate": estimate})
    work, next_step = hand_out(store, models, place, run.id, outcome, wait.capacity)
    if work and list_erased(store, run) != erased and take_back_erased(store, place, outcome):
        return advance_proposal(store, models, place, run, wait)
    standing = _describe_open(store, skill, run, next_step)
    return standing.model_copy(update={"status": "work", "work": work}) if work else standing


def _describe_open(store: Store, skill: Skill, run: Run, next_step: NextStep) -> Proposed:
    return Proposed(
        status="running", skill=skill.name, candidate_id=None, diff="", edits=[], job_id=run.id,
        notes=describe_unanswered(store, run), rollouts=len(run.tasks), next_step=next_step,
    )  # fmt: skip


def _find_unfinished(store: Store, models: Models, place: Place, skill: Skill, rollouts: int) -> Run | None:
    """Return the skill's open proposal; one that began on another version is given up.

    So is one with another number of rollouts with only its estimate given.
    """
    runs = store.runs
    for run in reversed(runs.list_proposals_under_way(skill.id)):
        is_current = run.base_version == skill.live_version
        begun = run.target, run.optimizer
        if is_current and begun == (models.backend("target").name, models.backend("optimizer").name):
            if rollouts in (0, len(run.tasks)) or not asks_host_first(run) or store.leases.list_of(run.id):
                return run
            _mark_unseen(store, run)
        runs.set_status(run.id, "stopped")
        withdraw(store, place, run.id)
    return None


def _begin_proposal(store: Store, models: Models, skill: Skill, rollouts: int, preferences: str) -> Run:
    _, n_new = store.trajectories.count_trajectories(skill.id)
    sessions = store.trajectories.recent_trajectories(skill.id, min(MAX_SESSIONS, max(n_new, MIN_SESSIONS)))
    earlier = store.runs.list_runs(skill.id)
    if rollouts:
        pool = [task for task in models.list_tasks(skill.id) if task.split == "train"]
    else:  # what a baseline has attempted
        pool = store.tasks.list_by_id(find_in_baseline(store, models, skill) if models.has_backend("target") else ())
    # Others each time.
    kinds = [task.tags[0] if task.tags else "" for task in pool]
    tasks = [pool[at] for at in stratified(kinds, rollouts or MAX_ROLLOUTS, f"proposal {len(earlier)}")]
    if not sessions and not tasks:
        raise BadInput(f"no scored attempts of '{skill.name}' are recorded: record some, or pass rollouts")
    backends = models.backends_for(tasks, "optimizer")
    models.check_caps(backends)
    config = Config(
        epochs=1, batch=max(1, len(tasks)), sessions=len(sessions), max_edits=MAX_EDITS, preferences=preferences
    )
    draft = replace(
        draft_run(skill, config, tasks, sessions),
        **Names.of(backends)._asdict(),
        note=store.runs.note_of_skill(skill.id),
        kind="proposal",
    )
    digest = hashlib.sha256(f"proposal {len(earlier)} {draft}".encode()).hexdigest()
    run = replace(draft, id=f"r-{digest[:12]}")
    store.runs.add_run(run)
    store.trajectories.mark_seen(skill.id)
    return run


def _work(
    store: Store, models: Models, place: Place, run: Run, notify: Notify
) -> tuple[StepWork | Outstanding, frozenset[int]]:
    """The work of a proposal, and which of its attempts were erased before it read them."""
    lock = models.lock_run(run)
    try:
        erased = list_erased(store, run)
        plan = replace(make_plan(store, place.secrets, run), discarded=list_discarded(store, run, MAX_REJECTED))
        skill, draws = store.skills.get_skill(run.skill_id), dict[int, str]()
        if plan.train:
            in_baseline = find_in_baseline(store, models, skill) if skill.live_version == run.base_version else {}
            draws = find_attempted(store, run, plan, models.backend("target").fingerprint, in_baseline)
        backends = models.backends_for(plan.train, "optimizer")
        with span("proposal", run=run.id):
            step = functools.partial(step_alone, plan, store, notify=notify, draws=draws)
            return models.ask_or_wait(run.id, backends, step), erased
    finally:
        lock.release()


def _finish_proposal(store: Store, place: Place, skill: Skill, run: Run, work: StepWork) -> Proposed:
    """Return the outcome, stored with the run: a candidate, or why there is none."""
    base = store.skills.get_files(skill.id, run.base_version)
    made = None
    if work.applied.files != base:
        plan = make_plan(store, place.secrets, run)
        new = step_candidate(plan, base.digest, replace(work, findings=guard_findings(plan, work))).candidate
        made = keep_candidate(store, place, replace(new, origin="run"), work.selected, work.applied)
    result = describe_edits(skill.name, base, work.applied, made)
    step, unmade = result.next_step, list[str]()
    if not made:
        arguments = dict[str, JsonValue](skill=skill.name)
        if not result.edits and not is_lost(store, run):
            why = "reflection found nothing to change: record more attempts, failed ones first"
            step = NextStep(action="record_trajectory", arguments=arguments, why=why)
        else:
            _mark_unseen(store, run)
            misfit = "no edit applies: correct those in `notes` as their details say"
            why = misfit if result.edits else "the answers were lost"
            step = NextStep(action="propose_edits", arguments=arguments, why=why)
        for n, edit in enumerate(work.selected.edits):
            fields = {"op": edit.op, "target": edit.target, "content": edit.content, "path": edit.path}
            given = json.dumps({name: value for name, value in fields.items() if value is not None}, ensure_ascii=False)
            unmade.append(f"edits.{n}: {shorten(given, EDIT_BYTES)}")
    missing = describe_unanswered(store, run)
    notes = [*missing, *result.notes, *unmade, *work.unusable, *work.patterns][:MAX_NOTES]
    left_out = [shorten(each.content or each.target or "", LEFT_OUT_BYTES) for each in work.left_out]
    added = {"next_step": step, "notes": notes, "rollouts": len(run.tasks), "job_id": run.id, "left_out": left_out}
    result = result.model_copy(update=added)
    store.runs.set_status(run.id, "finished", result.model_dump_json())
    withdraw(store, place, run.id)
    return result


def _mark_unseen(store: Store, run: Run) -> None:
    """Let the attempts behind a proposal without a candidate be new again, but for those that another has read."""
    read = set[int]()
    for other in store.runs.list_runs(run.skill_id):
        if other.kind == "proposal" and other.result:
            result = Proposed.model_validate_json(other.result)
            # It made a candidate, or found nothing to change.
            if result.candidate_id is not None or not (result.edits or is_lost(store, other)):
                read.update(other.sessions)
    if unread := set(run.sessions) - read:
        store.trajectories.mark_seen(run.skill_id, before=min(unread))
