"""Consenting: whether somebody has agreed to a change of a live file, to this one or once for all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from skillopt_mcp.operations.live_changes import UNPROVEN, Change, answer
from skillopt_mcp.operations.permitting import beyond_small_edit
from skillopt_mcp.operations.results import Promoted
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Approval
from skillopt_mcp.records.skills import Skill, is_memory


class Consent(Enum):
    """Who agrees to a change of a live file. A tool call rests on an approval or on a standing permission, at most."""

    APPROVED = "an approval"
    STANDING = "standing permission"
    PERSON = "a person at a terminal"
    PERSON_SIMULATED = "a person at a terminal, on evidence from a simulation"
    PERSON_UNPROVEN = "a person at a terminal, without proof of a gain"


@dataclass(frozen=True, slots=True)
class Ready:
    """A change that nothing stands against: who agreed to it, and by which approval where it was one."""

    change: Change
    agreed: str
    approval_id: int | None = None


@dataclass(frozen=True, slots=True)
class Lacking:
    """A change that lacks a person's agreement and nothing else: the approval it needs, and what it answers without."""

    approval: Approval
    answer: Promoted


Standing = Ready | Lacking | Promoted


def with_consent(workspace: Workspace, change: Change, consent: Consent) -> Standing:
    """Return whether the change may happen as far as people and folders go."""
    if workspace.root_of(change.skill) is None:
        return answer(
            workspace, change, "refused", f"'{change.skill.path}' lies in no skill folder that may be written",
            f"A person can allow it: skillopt-mcp skills add-root '{_root_for(change.skill)}'",
        )  # fmt: skip
    if consent in (Consent.APPROVED, Consent.STANDING):
        return _by_a_tool(workspace, change, consent)
    if change.simulated and change.verdict != UNPROVEN and consent is not Consent.PERSON_SIMULATED:
        return answer(
            workspace, change, "refused", "the evidence is from a simulation and says nothing about a real model",
            f"Evaluate with a real target, or insist: skillopt-mcp {change.command} --simulated",
        )  # fmt: skip
    proven = consent if change.verdict == UNPROVEN or consent is not Consent.PERSON_UNPROVEN else Consent.PERSON
    return Ready(change, proven.value)


def _by_a_tool(workspace: Workspace, change: Change, consent: Consent) -> Standing:
    """Return whether somebody agreed to a change that a tool asks for: by an approval, or by a standing permission."""
    found = workspace.store.approvals.find_unused(change.approval)
    if found is not None:
        return Ready(change, found[1], found[0])
    if change.findings:
        look = f"A person has to look at it at a terminal: {_approve_or(change)}"
        return Lacking(change.approval, answer(workspace, change, "held", "; ".join(change.findings), look))
    why = _beyond_permission(workspace, change) if consent is Consent.STANDING else "each change needs an approval here"
    if not why:
        return Ready(change, consent.value)
    flag = " --simulated" if change.simulated else ""
    permit = f" (or once: skillopt-mcp skills permit {change.skill.name}{flag})" if consent is Consent.STANDING else ""
    said = answer(workspace, change, "needs_approval", why, f"Ask the person to run: {_approve_or(change)}{permit}")
    return Lacking(change.approval, said)


def _beyond_permission(workspace: Workspace, change: Change) -> str:
    """Return why the standing permission of a skill does not cover a change, or an empty string when it does."""
    store, skill = workspace.store, change.skill
    permission = store.skills.get_permission(skill.id)
    if permission is None:
        return "no person has agreed to this change"
    if change.simulated and not permission.simulated:
        return "the evidence is from a simulation"
    if change.kind == "rollback":
        return ""
    files = (store.skills.get_files(skill.id, change.from_version), store.skills.get_files(skill.id, change.to_version))
    return beyond_small_edit(*files)


def _approve_or(change: Change) -> str:
    flag = " --simulated" if change.simulated else ""
    approve = f"skillopt-mcp approve {change.candidate_id}{flag}, then call again; or: " if change.candidate else ""
    return f"{approve}skillopt-mcp {change.command}{flag if change.candidate else ''}"


def _root_for(skill: Skill) -> str:
    return skill.path if is_memory(skill.path) else str(Path(skill.path).parent)
