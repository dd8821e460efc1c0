"""Submitting: a host hands in what it did, and gets more work, or the result that it came to."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput, Busy, NotFound, SkillOptError
from skillopt_mcp.operations.evaluating import evaluate_candidate
from skillopt_mcp.operations.handing_out import Room
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.receiving import receive
from skillopt_mcp.operations.reflecting import advance_proposal
from skillopt_mcp.operations.results import Evaluated, Proposed, Receipt, Submitted
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.progress import Notify, silent
from skillopt_mcp.records.candidates import candidate_id

TEST, PROPOSAL = "t-", "r-"


def submit_work(
    workspace: Workspace, replies: Sequence[object], job_id: str = "", room: Room | None = None,
    wait_s: float | None = None, notify: Notify = silent,
) -> Submitted:  # fmt: skip
    """Return what became of the replies, and where their job, or the one that is named, stands then.

    A reply is {work_id} (the server reads the folder), {work_id, reply, tool_calls?, score?} or {work_id, failed}.
    Raises BadInput when neither replies nor a job are given, NotFound for a job that is none.
    """
    if not replies and not job_id:
        raise BadInput("give replies ([{work_id, reply?}]), or the job_id that is to give more work")
    receipts, scopes = receive(workspace, replies)
    job = job_id or (scopes[0] if scopes else "")
    if not job:
        return Submitted(
            status="stopped", job_id="", receipts=receipts, reason="no reply was for work that was handed out",
            next_step="Submit with the work_id that evaluate_candidate, propose_edits or submit_work gave.",
        )  # fmt: skip
    try:
        outcome = _advanced(workspace, job, room or Room(), wait_s, notify)
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
            next_step="What was accepted is kept; mend what the reason says.",
        )  # fmt: skip
    answer = _submitted(job, receipts, outcome)
    if room and not room.items and answer.status != "done":
        return answer.model_copy(update={"next_step": "Handed in: whoever started you goes on with the job."})
    return answer


def _advanced(workspace: Workspace, job: str, room: Room, wait_s: float | None, notify: Notify) -> Evaluated | Proposed:
    store = workspace.store
    if job.startswith(PROPOSAL):
        run = store.runs.get_run(known(job))
        if run.kind == "proposal":
            return advance_proposal(workspace, run, wait_s, room, notify)
    test = store.decisions.find_confirmation(known(job))
    if test is None:
        raise NotFound(f"there is no job {quoted(job)}: use the job_id that came with the work")
    candidate = candidate_id(test.skill_id, test.base_version, test.version_id)
    return evaluate_candidate(workspace, candidate, wait_s, notify, room=room)


def _submitted(job: str, receipts: list[Receipt], outcome: Evaluated | Proposed) -> Submitted:
    """Return the answer: the result itself once there is one, else only what the host needs to go on."""
    if outcome.status == "work":
        reason = outcome.reason if isinstance(outcome, Evaluated) else ""
        return Submitted(
            status="work" if outcome.work else "running",
            job_id=job,
            receipts=receipts,
            work=outcome.work,
            reason=reason,
            next_step=outcome.next_step,
        )
    if outcome.status == "running":
        return Submitted(status="running", job_id=job, receipts=receipts, next_step=outcome.next_step)
    return Submitted(
        status="done",
        job_id=job,
        receipts=receipts,
        evaluated=outcome if isinstance(outcome, Evaluated) else None,
        proposed=outcome if isinstance(outcome, Proposed) else None,
        next_step=outcome.next_step,
    )
