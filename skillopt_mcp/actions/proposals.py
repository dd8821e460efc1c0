"""Proposals: edits made from recorded sessions and fresh attempts, by models or by the agents of a host."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict, replace

from pydantic import JsonValue

from skillopt_mcp.actions.candidates import NOT_PROVEN, edits_of, kept, proposed, with_past
from skillopt_mcp.actions.estimates import estimate_proposal
from skillopt_mcp.actions.promotion_tests import target_tasks
from skillopt_mcp.backends.asking import Asker, Outstanding, run_or_wait
from skillopt_mcp.backends.spending import Budget
from skillopt_mcp.core.advice import advise_rebase
from skillopt_mcp.core.calls import Call, Question, Role, Rollout
from skillopt_mcp.core.candidates import GATE, Candidate, candidate_id, rolled_back
from skillopt_mcp.core.errors import BadInput, Busy, Refused
from skillopt_mcp.core.evidence import ACCEPTED
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.notes import describe_note, note_unanswered
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.results import Proposed, WorkEstimate
from skillopt_mcp.core.runs import DiscardedEdit, Run
from skillopt_mcp.core.skills import Skill, SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.tracing import span
from skillopt_mcp.gates.search import mean_score
from skillopt_mcp.prompts.loading import load_prompts
from skillopt_mcp.store.decisions import Discarding
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.splits import stratified
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.loop import MAX_REJECTED, Turn, guard_findings, step_work
from skillopt_mcp.training.outcome import StepWork, what_failed
from skillopt_mcp.training.plan import RunPlan, State, Step
from skillopt_mcp.training.progress import Notify
from skillopt_mcp.training.stages.rollout import Evaluation
from skillopt_mcp.workspace.answers import shortened
from skillopt_mcp.workspace.costs import add_up, default_tokens
from skillopt_mcp.workspace.evidence import is_host
from skillopt_mcp.workspace.host_work import hand_out, withdraw
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.models import Models, Names
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import planned
from skillopt_mcp.workspace.skills import check_merged

MAX_SESSIONS = 40
MIN_SESSIONS = 8
MAX_ROLLOUTS = 64
MAX_EDITS = 12
LEFT_OUT_BYTES = 120
MAX_NOTES = 8


def propose_from_evidence(
    store: Store, models: Models, place: Place, skill: str, rollouts: int = 0, wait: Wait | None = None
) -> Proposed:
    """Return the candidate that reflection makes of a skill's newest trajectories, `running`, or `work` for a host.

    With `rollouts`, so many train tasks are attempted first. A proposal that was begun on the same version goes on.
    A host gets the estimate before any work. Raises BadInput when there is nothing to learn from, BackendError when no
    optimizer is set, Refused where git left a conflict in the skill.
    """
    if not 0 <= rollouts <= MAX_ROLLOUTS:
        raise BadInput(f"rollouts must be 0-{MAX_ROLLOUTS}, got {rollouts}")
    tracked = place.skill(skill)
    check_merged(store.skills.get_files(tracked.id, tracked.live_version))
    possible = min(rollouts, len(_train_tasks(store, models, tracked))) if rollouts else 0
    run = _find_unfinished(store, models, place, tracked, possible) or _begin_proposal(store, models, tracked, possible)
    return advance_proposal(store, models, place, run, wait or Wait())


def advance_proposal(store: Store, models: Models, place: Place, run: Run, wait: Wait) -> Proposed:
    """Where a proposal stands, advanced as far as its backends answer, and work as `hand_out` does.

    Raises Refused when it was given up.
    """
    skill = store.skills.get_skill(run.skill_id)
    if run.result:
        return as_it_stands(store, place, skill, Proposed.model_validate_json(run.result))
    if run.status == "stopped":
        raise Refused(f"the proposal '{run.id}' was replaced, or '{skill.name}' has changed: call propose_edits")
    job = wait.jobs.attach(run.id, functools.partial(_work, store, models, place.secrets, run), wait.notify)
    if not job.wait(wait.seconds):
        arguments: dict[str, JsonValue] = {"skill": skill.name}
        step = NextStep(action="propose_edits", arguments=arguments, why="it is still running")
        return _describe_open(store, skill, run, step)
    wait.jobs.drop(run.id, job)
    outcome, erased = job.result.result()
    if erased_of(store, run) != erased:
        return advance_proposal(store, models, place, run, wait)
    if isinstance(outcome, StepWork):
        return as_it_stands(store, place, skill, _finish_proposal(store, place, skill, run, outcome))
    if wait.capacity is None and not store.leases.list_of(run.id):
        estimate = _estimate(store, place.secrets, run)
        why = f"takes up to {estimate.agent_runs()[1]} agent runs: ask the user first"
        step = NextStep(action="submit_work", arguments={"job_id": run.id}, why=why)
        return _describe_open(store, skill, run, step).model_copy(update={"status": "work", "estimate": estimate})
    work, next_step = hand_out(store, models, place, run.id, outcome, wait.capacity)
    if work and erased_of(store, run) != erased and take_back(store, place, outcome):
        return advance_proposal(store, models, place, run, wait)
    standing = _describe_open(store, skill, run, next_step)
    return standing.model_copy(update={"status": "work", "work": work}) if work else standing


def _describe_open(store: Store, skill: Skill, run: Run, next_step: NextStep) -> Proposed:
    return Proposed(
        status="running",
        skill=skill.name,
        candidate_id=None,
        diff="",
        edits=[],
        notes=_describe_unanswered(store, run),
        rollouts=len(run.tasks),
        job_id=run.id,
        next_step=next_step,
    )


def _describe_unanswered(store: Store, run: Run) -> list[str]:
    return [describe_note(each) for each in note_unanswered(store.calls.count_faults(run.id))]


def _estimate(store: Store, secrets: KnownSecrets, run: Run) -> WorkEstimate:
    n = estimate_proposal(run, planned(store, secrets, run).train)
    backends: dict[Role, str] = {"target": run.target, "judge": run.judge, "optimizer": run.optimizer}
    return WorkEstimate(
        attempts=(n["target"], n["target"]),
        judgements=(0, n["judge"]),
        questions=(0, n["optimizer"]),
        tokens_each=default_tokens("host"),
        by_host=[role for role, backend in backends.items() if n[role] and is_host(backend)],
    )


def _find_unfinished(store: Store, models: Models, place: Place, skill: Skill, rollouts: int) -> Run | None:
    """Return the skill's open proposal; one that began on another version is given up.

    So is one with another number of rollouts with only its estimate given.
    """
    runs, roles = store.runs, tuple[Role, ...](("target", "optimizer"))
    for run in reversed(runs.list_proposals_under_way(skill.id)):
        is_current = run.base_version == skill.live_version
        if is_current and [models.backend(role).name for role in roles] == [run.target, run.optimizer]:
            # A host has its estimate alone; attempts come before any question on them.
            is_offered = is_host(run.target if run.tasks else run.optimizer)
            if rollouts in (0, len(run.tasks)) or not is_offered or store.leases.list_of(run.id):
                return run
            _mark_unseen(store, run)
        runs.set_status(run.id, "stopped")
        withdraw(store, place, run.id)
    return None


def _begin_proposal(store: Store, models: Models, skill: Skill, rollouts: int) -> Run:
    _, n_new = store.trajectories.count_trajectories(skill.id)
    sessions = store.trajectories.recent_trajectories(skill.id, min(MAX_SESSIONS, max(n_new, MIN_SESSIONS)))
    earlier = store.runs.list_runs(skill.id)
    pool = _train_tasks(store, models, skill) if rollouts else []
    # Others each time.
    kinds = [task.tags[0] if task.tags else "" for task in pool]
    tasks = [pool[at] for at in stratified(kinds, rollouts, f"proposal {len(earlier)}")]
    if not sessions and not tasks:
        raise BadInput(f"no scored attempts of '{skill.name}' are recorded: record some, or pass rollouts")
    backends = models.backends_for(tasks, "optimizer")
    models.check_caps(backends)
    config = Config(epochs=1, batch=max(1, len(tasks)), sessions=len(sessions), max_edits=MAX_EDITS)
    draft = Run(
        id="",
        skill_id=skill.id,
        base_version=skill.live_version,
        config=config.model_dump_json(),
        prompts=json.dumps(asdict(load_prompts())),
        tasks=tuple(task.id for task in tasks),
        sessions=tuple(sessions),
        **Names.of(backends)._asdict(),
        status="running",
        note=store.runs.note_of_skill(skill.id),
        kind="proposal",
    )
    digest = hashlib.sha256(f"proposal {len(earlier)} {draft}".encode()).hexdigest()
    run = replace(draft, id=f"r-{digest[:12]}")
    store.runs.add_run(run)
    store.trajectories.mark_seen(skill.id)
    return run


def _train_tasks(store: Store, models: Models, skill: Skill) -> list[Task]:
    tasks = [task for task in target_tasks(store, models, skill.id) if task.split == "train"]
    if not tasks:
        raise BadInput(f"'{skill.name}' has no train task: add tasks, or leave out rollouts")
    return tasks


def _work(
    store: Store, models: Models, secrets: KnownSecrets, run: Run, notify: Notify
) -> tuple[StepWork | Outstanding, frozenset[int]]:
    """The work of a proposal, and which of its attempts were erased before it read them."""
    lock = lock_run(store.locks_path, run.id)
    if lock is None:
        raise Busy(f"another process runs the proposal '{run.id}': call again to see its result")
    try:
        erased = erased_of(store, run)
        plan = replace(planned(store, secrets, run), discarded=discarded_before(store, run))
        draws = _find_attempted(store, models, run, plan)
        step = Step(1, 1, (plan.train,) if plan.train else (), plan.config.max_edits, run.id, draws=draws)
        backends, budget = models.backends_for(list(plan.train), "optimizer"), Budget(run.id, models.caps)
        with span("proposal", run=run.id), Asker(store, backends, run.id, budget=budget) as ask:
            nothing = Evaluation((), mean_score(()), 0.0)
            turn = Turn(plan, store, ask, notify, State(0, plan.base, nothing, plan.base, nothing), step)
            return run_or_wait(ask, store, lambda: step_work(turn)), erased
    finally:
        lock.release()


def _find_attempted(store: Store, models: Models, run: Run, plan: RunPlan) -> dict[int, str]:
    """Return the draws of the attempts at a plan's tasks that earlier proposals made on the same text, by task id."""
    if not plan.train:
        return {}
    fingerprint = models.backend("target").fingerprint
    draws = dict[int, str]()
    for earlier in store.runs.list_runs(run.skill_id):
        if earlier.id == run.id:
            break
        if earlier.kind == "proposal" and earlier.base_version == run.base_version:
            asked = [task for task in plan.train if task.id in earlier.tasks and task.id not in draws]
            calls = [Call("target", "rollout", Rollout(plan.base, task), earlier.id) for task in asked]
            replies = store.calls.get_replies([call.key(fingerprint) for call in calls])
            for task, call in zip(asked, calls, strict=True):
                reply = replies.get(call.key(fingerprint))
                if reply and not reply.missing:
                    draws[task.id] = earlier.id
    return draws


def _finish_proposal(store: Store, place: Place, skill: Skill, run: Run, work: StepWork) -> Proposed:
    """Return the outcome, stored with the run: a candidate, or why there is none."""
    base = store.skills.get_files(skill.id, run.base_version)
    made = _candidate(store, place, run, base, work) if work.applied.files != base else None
    result = proposed(skill.name, base, work.applied, made)
    step, unmade = result.next_step, list[str]()
    if not made:
        arguments = dict[str, JsonValue](skill=skill.name)
        if not result.edits and not _is_lost(store, run):
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
            unmade.append(f"edits.{n}: {shortened(given, EDIT_BYTES)}")
    missing = _describe_unanswered(store, run)
    notes = [*missing, *result.notes, *unmade, *work.unusable, *work.patterns][:MAX_NOTES]
    left_out = [shortened(each.content or each.target or "", LEFT_OUT_BYTES) for each in work.left_out]
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
            if result.candidate_id is not None or not (result.edits or _is_lost(store, other)):
                read.update(other.sessions)
    if unread := set(run.sessions) - read:
        store.trajectories.mark_unseen(run.skill_id, min(unread))


def _is_lost(store: Store, run: Run) -> bool:
    """Whether every analyst that a proposal asked stayed without an answer."""
    asked = add_up([row for row in store.ledger.list_rows(run.id) if row.stage == "reflect"])
    return 0 < asked.n_missing == asked.n_calls - asked.n_again


def _candidate(store: Store, place: Place, run: Run, base: SkillFiles, work: StepWork) -> Candidate:
    made = Candidate(
        id=candidate_id(run.skill_id, base.digest, work.applied.files.digest),
        skill_id=run.skill_id,
        base_version=base.digest,
        version_id=work.applied.files.digest,
        origin="run",
        reasoning=what_failed(work),
        findings=guard_findings(planned(store, place.secrets, run), work),
        run_id=run.id,
    )
    return kept(store, place, made, work.selected, work.applied)


EDIT_BYTES = 600


def discarded_before(store: Store, run: Run) -> tuple[DiscardedEdit, ...]:
    """Return the edits that a promotion test had rejected or a person had rolled back when a run began, newest first.

    They are those of this skill, each once, at most as many as a run's own that were rejected; none of a candidate
    that was made from an attempt erased since, and none that its base version holds.
    """
    discarding = store.table(Discarding)
    begun_at = discarding.begun_at(run.id)
    changes = [each for each in store.promotions.list_promotions(run.skill_id) if each.created_at < begun_at]
    undone = rolled_back(changes)
    erasing = store.table(Erasing)
    erased = set(erasing.list_made_of(erasing.list_erased()))
    text = store.skills.get_files(run.skill_id, run.base_version).text
    found: dict[tuple[str, str, str | None, str | None], DiscardedEdit] = {}
    for standing in discarding.list_standing(run.id, GATE):
        became = NOT_PROVEN if standing.verdict not in (None, *ACCEPTED) else ""
        if standing.version_id in undone:
            became = "promoted, then rolled back by a person"
        if not became or standing.candidate_id in erased or len(found) >= MAX_REJECTED:
            continue
        edits = edits_of(store, store.candidates.get_candidate(standing.candidate_id))
        for edit in edits:
            if not edit.content or edit.content.strip() not in text:
                discarded = DiscardedEdit(edit, became, len(edits) - 1)
                found.setdefault((edit.op, edit.path, edit.target, edit.content), discarded)
    return tuple(found.values())[:MAX_REJECTED]


def erased_of(store: Store, run: Run) -> frozenset[int]:
    """Return those of a run's attempts that were erased."""
    return store.table(Erasing).erased_of(run.sessions)


def take_back(store: Store, place: Place, outcome: Outstanding) -> bool:
    """Take back what was handed out of the questions that show an erased attempt; return whether there are such."""
    erasing = store.table(Erasing)
    requests = {call_id: call.request for call_id, call in outcome.calls.items()}
    asked = {call_id: set(request.refs) for call_id, request in requests.items() if isinstance(request, Question)}
    numbers = [int(ref.partition(":")[2]) for refs in asked.values() for ref in refs if ref.startswith("trajectory:")]
    gone = {f"trajectory:{each}" for each in erasing.erased_of(numbers)}
    showing = [call_id for call_id, refs in asked.items() if refs & gone]
    _, leases = erasing.clear_calls(showing)
    place.work_folders.remove(leases)
    return bool(showing)


def as_it_stands(store: Store, place: Place, skill: Skill, result: Proposed) -> Proposed:
    """Return the outcome of a proposal with what to do where its candidate was made for what is not live any more, or
    was tested before.
    """
    if result.candidate_id is None or place.trouble(skill):
        return result
    candidate = store.candidates.get_candidate(result.candidate_id)
    live = store.skills.get_skill(skill.id).live_version
    if live == candidate.version_id:
        return result
    if live != candidate.base_version:
        return result.model_copy(update={"next_step": advise_rebase(candidate.id)})
    return with_past(store, result, candidate)
