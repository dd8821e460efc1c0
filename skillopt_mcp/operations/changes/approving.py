"""Approving: a person's agreement to one change, asked for at a terminal or through the host, kept until it is used."""

from __future__ import annotations

from dataclasses import dataclass, replace

from skillopt_mcp.documents.characters import escaped, quoted
from skillopt_mcp.operations.changes.consenting import Consent, Lacking, Standing
from skillopt_mcp.operations.changes.permitting import signed
from skillopt_mcp.operations.changes.promoting import check_promotion, check_rollback
from skillopt_mcp.operations.changes.reviewing import Review, review_candidate, review_rollback
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Approval
from skillopt_mcp.records.skills import short

AT_A_TERMINAL = "a person at a terminal, beforehand"
BY_THE_HOST = "a person, asked through the host"
# A dialog that a host draws shows so much; a longer change has to be looked at in a terminal.
DIALOG_CHARACTERS = 6_000


@dataclass(frozen=True, slots=True)
class Question:
    """What a host may ask a person, in full, and the approval that a yes to it is."""

    text: str
    approval: Approval


def question_of_promotion(workspace: Workspace, candidate_id: str, consent: Consent) -> Question | None:
    """Return what to ask about a promotion; None when nobody is to be asked, or not in a dialog."""
    standing = check_promotion(workspace, candidate_id, consent)
    return _question(standing, review_candidate(workspace, candidate_id)) if _may_be_asked(standing) else None


def question_of_rollback(workspace: Workspace, skill: str, version: str | None, consent: Consent) -> Question | None:
    """Return what to ask about a rollback; None when nobody is to be asked, or not in a dialog."""
    standing = check_rollback(workspace, skill, version, consent)
    return _question(standing, review_rollback(workspace, skill, version)) if _may_be_asked(standing) else None


def lacking(workspace: Workspace, candidate_id: str) -> Standing:
    """Return how a promotion by a tool stands that rests on an approval alone: lacking one is what `approve` mends."""
    return check_promotion(workspace, candidate_id, Consent.APPROVED)


def agree(workspace: Workspace, approval: Approval, given_by: str) -> int:
    """Keep a person's agreement to a change, for one promotion or rollback; return its id."""
    return workspace.store.approvals.add_approval(replace(approval, given_by=signed(given_by, workspace.login)))


def disagree(workspace: Workspace, approval: Approval, approval_id: int) -> None:
    """Take one agreement back, unless the change that it was given for was made."""
    workspace.store.approvals.drop(approval.skill_id, approval_id)


def withdraw(workspace: Workspace, candidate_id: str) -> int:
    """Take back the unused approvals of a candidate; return how many there were. Raises NotFound."""
    review = review_candidate(workspace, candidate_id)
    skill = workspace.store.candidates.get_candidate(candidate_id).skill_id
    return workspace.store.approvals.withdraw(Approval(skill, "promote", review.from_version, review.to_version))


def _may_be_asked(standing: Standing) -> bool:
    return isinstance(standing, Lacking) and standing.answer.status == "needs_approval"


def _question(standing: Standing, review: Review) -> Question | None:
    if not isinstance(standing, Lacking):
        return None
    versions = f"{short(review.from_version)} -> {short(review.to_version)}"
    what = "this" if review.verdict else "an earlier version"
    lines = [f"Write {what} over {quoted(review.skill_path, 300)}? ({versions})", ""]
    if review.verdict:
        lines += [f"Verdict: {review.verdict.upper()}: {escaped(review.reason)}", f"Evidence: {review.evidence}."]
    if review.simulated:
        lines += ["This rests on a SIMULATION, which says nothing about a real model."]
    text = "\n".join([*lines, "", review.diff])
    return Question(text, standing.approval) if len(text) <= DIALOG_CHARACTERS else None
