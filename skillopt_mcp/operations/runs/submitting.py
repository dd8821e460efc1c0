"""Submitting: a host hands in what it did, and gets more work, or the result that it came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput, Busy, NotFound, SkillOptError
from skillopt_mcp.operations.changes.advising import next_step
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.host_work.handing_out import Room
from skillopt_mcp.operations.host_work.receiving import receive
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.results import Evaluated, Proposed, Receipt, Submitted
from skillopt_mcp.operations.runs.reflecting import advance_proposal
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.testing.opening_tests import candidate_of_job
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.progress import Notify, silent
from skillopt_mcp.records.runs import Run
from skillopt_mcp.store.opening import Store

PROPOSAL = "r-"
HANDED_IN = "Handed in: whoever started you goes on with the job."
MEND = "Mend what the reason says."
NO_JOB = "there is no job {}: use the job_id that came with the work"
_REASONS_SHOWN = 3


def submit_work(
    workspace: Workspace, replies: Sequence[object], job_id: str = "", room: Room | None = None,
    wait_s: float | None = None, notify: Notify = silent,
) -> Submitted:  # fmt: skip
    """Return what became of the replies, and where their job, or the one that is named, stands then.

    A reply is {work_id} (the server reads the folder), {work_id, reply, tool_calls?, score?} or {work_id, failed}. With
    room for nothing and no job named, nothing is told but what became of the replies.
    Raises BadInput when neither replies nor a job are given, NotFound for a job that is none.
    """
    if not replies and not job_id:
        raise BadInput("give replies ([{work_id, reply?}]), or the job_id that is to give more work")
    receipts, scopes = receive(workspace, replies)
    failing = [each for each in receipts if each.status in ("refused", "unknown")]
    mend = _to_mend(failing, len(receipts)) if failing else ""
    room = room or Room()
    # Whoever has all of it to mend is not given more.
    turn = replace(room, items=0) if receipts and len(failing) == len(receipts) else room
    answer = _standing(workspace, _briefly(receipts), job_id or (scopes[0] if scopes else ""), (turn, wait_s), notify)
    if not room.items and answer.job_id and not job_id:
        return _handed_in(answer, mend)
    return answer.model_copy(update={"next_step": _next_step(answer, mend, hands_out=bool(turn.items))})


def _briefly(receipts: Sequence[Receipt]) -> list[Receipt]:
    """Return the receipts with a reason that many of them share in the first few alone."""
    told: Counter[str] = Counter()
    brief = []
    for each in receipts:
        told[each.reason] += 1
        is_known = each.reason and told[each.reason] > _REASONS_SHOWN
        brief.append(each.model_copy(update={"reason": "as above"}) if is_known else each)
    return brief


def _handed_in(answer: Submitted, mend: str) -> Submitted:
    """Return what became of replies alone: what their job came to, or stopped at, is for whoever began it."""
    told = {"reason": "", "evaluated": None, "proposed": None}
    if answer.status == "done":
        return answer.model_copy(update={**told, "next_step": HANDED_IN})
    # A job that stopped can be gone on with: what was not taken is mended all the same.
    status = answer.status if answer.status != "stopped" else "running" if mend else "done"
    return answer.model_copy(update={**told, "status": status, "next_step": mend or HANDED_IN})


def _standing(
    workspace: Workspace, receipts: list[Receipt], job: str, turn: tuple[Room, float | None], notify: Notify
) -> Submitted:
    if not job:
        return Submitted(
            status="stopped", job_id="", receipts=receipts, reason="no reply was for work that was handed out",
            next_step="Submit with the work_id that evaluate_candidate, propose_edits or submit_work gave.",
        )  # fmt: skip
    try:
        outcome = _advanced(workspace, job, *turn, notify)
    except Busy as error:
        return Submitted(
            status="running", job_id=job, receipts=receipts, reason=str(error),
            next_step=f"What was accepted is kept. Call submit_work with job_id {job} for more work.",
        )  # fmt: skip
    except NotFound:
        raise
    except SkillOptError as error:
        return Submitted(
            status="stopped", job_id=job, receipts=receipts, reason=shortened(str(error), 600),
            next_step=f"What was accepted is kept. {_way_on(workspace, job)}",
        )  # fmt: skip
    return _submitted(job, receipts, outcome)


def _way_on(workspace: Workspace, job: str) -> str:
    """Return what to do about a job that has stopped: another proposal or candidate, where another file is live."""
    store = workspace.store
    if job.startswith(PROPOSAL):
        run = store.runs.get_run(job)
        again = f"Call propose_edits for '{store.skills.get_skill(run.skill_id).name}' again."
        return again if run.status == "stopped" else MEND
    candidate = store.candidates.get_candidate(candidate_of_job(workspace, job))
    live = store.skills.get_skill(candidate.skill_id).live_version
    return MEND if candidate.base_version == live else next_step(workspace, candidate, Consent.STANDING)


def _next_step(answer: Submitted, mend: str, *, hands_out: bool) -> str:
    """Return what is to be done next: what was not taken is mended first, as long as its job is not over."""
    if answer.status == "done":
        return answer.next_step
    if not hands_out and answer.status in ("work", "running"):
        return mend or HANDED_IN
    if mend and answer.status == "running":
        # Whoever has something to mend is not told to stop and wait.
        return mend
    return f"{mend} {answer.next_step}" if mend else answer.next_step


def _to_mend(failing: Sequence[Receipt], n: int) -> str:
    """Return how many replies were not taken, and why, each reason once."""
    reasons = list(dict.fromkeys(each.reason for each in failing))
    more = f"; and {len(reasons) - _REASONS_SHOWN} more reasons" if len(reasons) > _REASONS_SHOWN else ""
    were, of = "was" if len(failing) == 1 else "were", counted(n, "reply", "replies")
    return (
        f"{len(failing)} of {of} {were} NOT taken ({'; '.join(reasons[:_REASONS_SHOWN])}{more}): mend that, and "
        "submit again."
    )


def _advanced(workspace: Workspace, job: str, room: Room, wait_s: float | None, notify: Notify) -> Evaluated | Proposed:
    store = workspace.store
    if job.startswith(PROPOSAL):
        run = _proposal(store, known(job))
        return advance_proposal(workspace, run, wait_s, room, notify)
    return evaluate_candidate(workspace, candidate_of_job(workspace, known(job)), wait_s, notify, room=room)


def _proposal(store: Store, job: str) -> Run:
    try:
        run = store.runs.get_run(job)
    except NotFound:
        raise NotFound(NO_JOB.format(quoted(job))) from None
    if run.kind != "proposal":
        raise NotFound(NO_JOB.format(quoted(job)))
    return run


def _submitted(job: str, receipts: list[Receipt], outcome: Evaluated | Proposed) -> Submitted:
    """Return the answer: the result itself once there is one, else only what the host needs to go on."""
    if outcome.status in ("work", "running"):
        reason = outcome.reason if isinstance(outcome, Evaluated) else ""
        return Submitted(
            status="work" if outcome.work else "running",
            job_id=job,
            receipts=receipts,
            work=outcome.work,
            reason=reason,
            next_step=outcome.next_step,
        )
    return Submitted(
        status="done",
        job_id=job,
        receipts=receipts,
        evaluated=outcome if isinstance(outcome, Evaluated) else None,
        proposed=outcome if isinstance(outcome, Proposed) else None,
        next_step=outcome.next_step,
    )
