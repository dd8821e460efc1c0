"""Submitting: what a host's agents hand in, and where their proposal or promotion test stands then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import JsonValue

from skillopt_mcp.actions.mining import advance_mining, plan_job
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.proposals import advance_proposal
from skillopt_mcp.core.candidates import candidate_id
from skillopt_mcp.core.errors import BadInput, Busy, NotFound, SkillOptError
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.notes import describe_note
from skillopt_mcp.core.results import Evaluated, Proposed, Submitted, TasksAdded
from skillopt_mcp.core.text import quoted
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.answers import shorten
from skillopt_mcp.workspace.host_replies import collect, receive
from skillopt_mcp.workspace.jobs import Capacity, Wait
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import known

_PROPOSAL, _MINING = "r-", "m-"


def submit_work(
    store: Store, models: Models, place: Place, replies: Sequence[object], job_id: str = "", wait: Wait | None = None
) -> Submitted:
    """What became of the replies, and where their job, or the named one, stands then.

    A reply is {work_id} (the server reads the folder), {work_id, reply, tool_calls?, score?} or {work_id, failed}. With
    capacity 0 and no job named, an agent only hands in: the outcome of the job is for the session that drives it.
    Raises BadInput when neither replies nor a job are given, NotFound for an unknown job.
    """
    if not replies and not job_id:
        raise BadInput("give replies ([{work_id, reply?}]), or the job_id to take work of")
    wait = wait or Wait()
    capacity = wait.capacity or Capacity()
    receipts, scopes = receive(store, place, replies)
    failing = [each.work_id for each in receipts if each.status in ("refused", "unknown")]
    refused = f"{len(failing)} of {len(receipts)} replies were not taken" if failing else ""
    mend = None
    if failing:
        mended: list[JsonValue] = [{"work_id": each} for each in failing]
        why = f"{refused}: correct what their receipts say"
        mend = NextStep(action="submit_work", arguments={"replies": mended}, why=why)
    # A reason that an earlier receipt has is shortened, as 64 long ones are more than an answer.
    said = set[str]()
    for n, each in enumerate(receipts):
        if each.reason in said:
            receipts[n] = each.model_copy(update={"reason": "as above"})
        said |= {each.reason} - {""}
    job = job_id or next(iter(scopes), "")
    if not job:
        return Submitted(status="stopped", job_id="", receipts=receipts, reason=refused, next_step=mend)
    collected = 0
    if job_id or capacity.items:
        scopes = [known(job)]
        if job.startswith("c-"):
            made = store.candidates.get_candidate(known(job))
            tests = store.tests.list_of(made.skill_id, made.base_version, made.version_id)
            scopes = [row.id for row in tests]
        for scope in scopes:
            unusable, n_taken = collect(store, place, scope, [each.work_id for each in receipts])
            receipts, collected = [*receipts, *unusable], collected + n_taken
    # A session whose replies were all refused mends those first.
    turn = replace(capacity, items=0) if failing and len(failing) == len(receipts) else capacity
    update = {"receipts": receipts, "collected": collected}
    answer = _advance(store, models, place, job, replace(wait, capacity=turn)).model_copy(update=update)
    if not capacity.items and not job_id:
        is_over = answer.status == "done" or (answer.status == "stopped" and not mend)
        status: Literal["done", "running"] = "done" if is_over else "running"
        return Submitted(
            status=status, job_id=job, receipts=receipts, next_step=None if answer.status == "done" else mend
        )
    if mend and answer.status in ("running", "stopped"):
        return answer.model_copy(update={"reason": answer.reason or refused, "next_step": mend})
    return answer.model_copy(update={"reason": refused}) if mend and answer.work else answer


def _advance(store: Store, models: Models, place: Place, job: str, wait: Wait) -> Submitted:
    """Where a job stands, advanced as far as its backends answer: work, its result, or why it stopped."""
    again = dict[str, JsonValue](job_id=job)
    outcome: Evaluated | Proposed | TasksAdded
    try:
        if job.startswith(_PROPOSAL):
            run_id = known(job)
            try:
                run = store.runs.get_run(run_id)
            except NotFound:
                run = None
            if run is None or run.kind != "proposal":
                raise NotFound(f"unknown job {quoted(run_id)}: use the job_id that came with the work")
            outcome = advance_proposal(store, models, place, run, wait)
        elif job.startswith(_MINING):
            outcome = advance_mining(store, models, place, plan_job(store, place, known(job)), wait)
        else:
            outcome = evaluate_candidate(store, models, place, _candidate_of_job(store, known(job)), wait)
    except Busy as error:
        step = NextStep(action="submit_work", arguments=again, why="what was accepted is kept")
        return Submitted(status="running", job_id=job, receipts=[], reason=str(error), next_step=step)
    except NotFound:
        raise
    except SkillOptError as error:
        reason = shorten(str(error), 600)
        return Submitted(status="stopped", job_id=job, receipts=[], reason=reason, next_step=_after_stop(store, job))
    if outcome.status in ("work", "running"):
        now = str(outcome.next_step.arguments.get("job_id", job)) if outcome.next_step else job
        return Submitted(
            status="work" if outcome.work else "running", job_id=now, receipts=[], work=outcome.work,
            estimate=outcome.estimate, next_step=outcome.next_step,
            notes=[each if isinstance(each, str) else describe_note(each) for each in outcome.notes],
        )  # fmt: skip
    field = {Evaluated: "evaluated", Proposed: "proposed", TasksAdded: "added"}[type(outcome)]
    result: dict[str, Any] = {field: outcome}
    return Submitted(status="done", job_id=job, receipts=[], next_step=outcome.next_step, **result)


def _after_stop(store: Store, job: str) -> NextStep:
    """What to do about a stopped job: go on with it, or make another proposal where the file has changed."""
    go_on = NextStep(action="submit_work", arguments={"job_id": job}, why="correct what `reason` says first")
    if job.startswith(_MINING):
        return go_on
    if job.startswith(_PROPOSAL):
        run = store.runs.get_run(job)
        skill = store.skills.get_skill(run.skill_id)
        if run.status != "stopped":
            return go_on
    else:
        candidate = store.candidates.get_candidate(_candidate_of_job(store, job))
        skill = store.skills.get_skill(candidate.skill_id)
        if candidate.base_version == skill.live_version:
            return go_on
    return NextStep(action="propose_edits", arguments={"skill": skill.name}, why="the live file has changed")


def _candidate_of_job(store: Store, job: str) -> str:
    """Return the id of the candidate whose promotion test a job is, open or only foreseen. Raises NotFound."""
    if row := store.tests.find(job):
        return candidate_id(row.skill_id, row.base_version, row.version_id)
    if job.startswith("c-"):
        return store.candidates.get_candidate(job).id
    raise NotFound(f"there is no job {quoted(job)}: use the job_id that came with the work")
