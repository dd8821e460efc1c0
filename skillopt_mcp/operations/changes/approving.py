"""Approving: a person's agreement to one change, asked for at a terminal or through the host, kept until it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard
from unicodedata import east_asian_width

from skillopt_mcp.documents.characters import escaped, quoted
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.documents.diffs import changed_lines
from skillopt_mcp.operations.candidates.recalling import repeated
from skillopt_mcp.operations.changes.consenting import Consent, Lacking, Standing
from skillopt_mcp.operations.changes.declined import minded
from skillopt_mcp.operations.changes.permitting import signed
from skillopt_mcp.operations.changes.promoting import check_promotion, check_rollback
from skillopt_mcp.operations.changes.reviewing import Review, review_candidate, review_rollback
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Approval, rolled_back
from skillopt_mcp.records.skills import short
from skillopt_mcp.store.opening import Store

AT_A_TERMINAL = "a person at a terminal, beforehand"
BY_THE_HOST = "a person, asked through the host"
# Claude Code shows three rows of a question, and cuts each at its window's width; others show what their window holds,
# and cut the rest without a sign. So the first rows say all that matters, and a change that would overflow a common
# window has to be looked at in a terminal.
FIRST_ROWS, DIALOG_ROWS, COLUMNS = 3, 40, 72
_UNDONE = "a person rolled this back"


@dataclass(frozen=True, slots=True)
class Question:
    """What a host may ask a person, the change in full, and the approval that a yes to it is."""

    text: str
    approval: Approval


def question_of_promotion(workspace: Workspace, candidate_id: str, consent: Consent) -> Question | None:
    """Return what to ask about a promotion; None when nobody is to be asked, or not in a dialog."""
    standing = check_promotion(workspace, candidate_id, consent)
    if not _may_be_asked(standing):
        return None
    review, look = review_candidate(workspace, candidate_id), f"show {candidate_id}"
    return _question(workspace, standing.approval, review, look, _mind(workspace.store, candidate_id, review))


def question_of_rollback(workspace: Workspace, skill: str, version: str | None, consent: Consent) -> Question | None:
    """Return what to ask about a rollback; None when nobody is to be asked, or not in a dialog."""
    standing = check_rollback(workspace, skill, version, consent)
    if not _may_be_asked(standing):
        return None
    review = review_rollback(workspace, skill, version)
    look = f"diff {review.called} {short(review.from_version)} {short(review.to_version)}"
    return _question(workspace, standing.approval, review, look)


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


def _may_be_asked(standing: Standing) -> TypeGuard[Lacking]:
    return isinstance(standing, Lacking) and standing.answer.status == "needs_approval"


def _mind(store: Store, candidate_id: str, review: Review) -> list[str]:
    """Return what a person should see of a promotion before all."""
    candidate = store.candidates.get_candidate(candidate_id)
    if candidate.version_id in rolled_back(store.promotions.list_promotions(candidate.skill_id)):
        found = [_UNDONE]
    else:
        earlier = repeated(store, candidate)
        found = [f"repeats {earlier.earlier}, rolled back"] if earlier else []
    return [*found, *(["the target answers alike"] if review.alike else [])]


def _question(
    workspace: Workspace, approval: Approval, review: Review, look: str, mind: Sequence[str] = ()
) -> Question | None:
    """Return what to ask about a change, which the command `look` shows in full; None: a dialog cannot hold it."""
    what = "this" if review.verdict else "an earlier version"
    versions = f"{short(review.from_version)} -> {short(review.to_version)}"
    rows = [f"Write {what} over {quoted(review.skill_path, 300)}? ({versions})"]
    rest = ["", *review.diff.splitlines()]
    if review.verdict:
        told = f"{review.verdict.upper()}{' (SIMULATION)' if review.simulated else ''}"
        rows += [f"Verdict: {told}. Evidence: {review.evidence}."]
        rest += ["", f"The gate: {escaped(review.reason)}."]
    if review.repeats and _UNDONE not in mind:
        rest += [f"Mind that {review.repeats}."]
    seen_first = [*minded(workspace, approval), *mind]
    rows += [f"MIND: {'; '.join(seen_first)}"] if seen_first else []
    if review.simulated:
        rest += ["This rests on a SIMULATION, which says nothing about a real model."]
    rows += [*_first_of_the_change(workspace, approval, look, FIRST_ROWS - len(rows)), *rest]
    fits = sum(-(-_width(row) // COLUMNS) or 1 for row in rows) <= DIALOG_ROWS
    return Question("\n".join(rows), approval) if fits else None


def _first_of_the_change(workspace: Workspace, approval: Approval, look: str, room: int) -> list[str]:
    """Return the changed lines where the first rows hold them all, else how many there are and where to read them."""
    versions = (approval.from_version, approval.to_version)
    files = changed_lines(*(workspace.store.skills.get_files(approval.skill_id, version) for version in versions))
    lines = [line for changed in files for line in changed]
    if 0 < len(lines) <= room and all(_width(line) <= COLUMNS and "\n" not in line for line in lines):
        return lines
    change = f"change{'s' if len(lines) == 1 else ''} in {counted(len(files), 'file')}"
    told = [f"{counted(len(lines), 'line')} {change}. See all:", f"skillopt-mcp {look}"]
    return told if room >= len(told) else [" ".join(told)]


def _width(line: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in line)
