"""Agreed: what people agreed to and nothing has used yet, so that they see it and can take it back."""

from __future__ import annotations

from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import candidate_id
from skillopt_mcp.records.skills import short
from skillopt_mcp.store.approvals import UnusedApproval


def unused_approvals(workspace: Workspace, skill_id: int) -> dict[str, list[UnusedApproval]]:
    """Return the unused approvals of a skill by the candidate, or the version to roll back to, that each is for."""
    found: dict[str, list[UnusedApproval]] = {}
    for each in workspace.store.approvals.list_unused(skill_id):
        made = candidate_id(skill_id, each.from_version, each.to_version)
        found.setdefault(made if each.kind == "promote" else each.to_version, []).append(each)
    return found


def told_unused(workspace: Workspace, skill_id: int, only: str | None = None) -> list[str]:
    """Return a line for each unused approval of a skill, or of one candidate of it, saying how to take it back."""
    found = unused_approvals(workspace, skill_id)
    return [
        f"approved, and not used yet: {_what(made, each)}, by {each.given_by}, {each.at}{_withdrawal(made, each)}"
        for made, approvals in found.items()
        if only in (None, made)
        for each in approvals
    ]


def _what(made: str, approval: UnusedApproval) -> str:
    return made if approval.kind == "promote" else f"a rollback to {short(approval.to_version)}"


def _withdrawal(made: str, approval: UnusedApproval) -> str:
    return f"; to take it back: skillopt-mcp approve {made} --withdraw" if approval.kind == "promote" else ""
