"""Consenting: whether somebody has agreed to a change of a live file, to this one or once for all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from skillopt_mcp.documents.readable import unreadable
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.operations.candidates.recalling import told_repeated
from skillopt_mcp.operations.changes.coverage import host_own, uncovered
from skillopt_mcp.operations.changes.declined import declined_at
from skillopt_mcp.operations.changes.live_changes import UNPROVEN, Change, answer
from skillopt_mcp.operations.changes.permitting import beyond_small_edit, signed
from skillopt_mcp.operations.finding import called, root_for
from skillopt_mcp.operations.results import Promoted
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import STANDING_PERMISSION, Approval, rolled_back
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.permissions import Permission


class Consent(Enum):
    """Who agrees to a change of a live file. A tool call rests on an approval or on a standing permission, at most."""

    APPROVED = "an approval"
    STANDING = STANDING_PERMISSION
    PERSON = "a person at a terminal"
    PERSON_SIMULATED = "a person at a terminal, on evidence from a simulation"
    PERSON_UNPROVEN = "a person at a terminal, without proof of a gain"
    COMMAND = "a command with --yes, no terminal"
    COMMAND_SIMULATED = "a command with --yes, no terminal, on evidence from a simulation"
    DEMO = "the demo itself, on evidence from a simulation"
    PERSON_OVER_EDIT = "a person at a terminal, over an edit that somebody made since"


BY_A_TOOL = (Consent.APPROVED, Consent.STANDING)
_SIMULATED = (Consent.PERSON_SIMULATED, Consent.COMMAND_SIMULATED, Consent.DEMO)


@dataclass(frozen=True, slots=True)
class Ready:
    """A change that nothing stands against: who agreed to it, and by which approval or permission where it was one."""

    change: Change
    consent: Consent
    agreed: str
    approval_id: int | None = None
    permission: Permission | None = None


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
            f"A person can allow it: skillopt-mcp skills add-root '{root_for(change.skill.path)}'",
        )  # fmt: skip
    if fault := unreadable(workspace.store.skills.get_files(change.skill.id, change.to_version)):
        why = f"a folder cannot hold this version so that it is read back as it is: {fault}"
        name = called(workspace.store, change.skill)
        other = f"Name another version: skillopt-mcp show {name} and skillopt-mcp history {name} tell of them."
        return answer(workspace, change, "refused", why, "Propose other edits." if change.candidate else other)
    if consent in BY_A_TOOL:
        return _by_a_tool(workspace, change, consent)
    if change.simulated and change.verdict != UNPROVEN and consent not in _SIMULATED:
        return answer(
            workspace, change, "refused", "the evidence is from a simulation and says nothing about a real model",
            f"Evaluate with a real target, or insist: skillopt-mcp {change.command(workspace.store)} --simulated",
        )  # fmt: skip
    proven = consent if change.verdict == UNPROVEN or consent is not Consent.PERSON_UNPROVEN else Consent.PERSON
    return Ready(change, consent, signed(proven.value, workspace.login))


def _by_a_tool(workspace: Workspace, change: Change, consent: Consent) -> Standing:
    """Return whether somebody agreed to a change that a tool asks for: by an approval, or by a standing permission."""
    found = workspace.store.approvals.find_unused(change.approval)
    if found is not None:
        return Ready(change, consent, found[1], found[0])
    store, permits = workspace.store, consent is Consent.STANDING
    if change.findings:
        look = f"A person has to look at it at a terminal: {_approve_or(store, change)}"
        return Lacking(change.approval, answer(workspace, change, "held", "; ".join(change.findings), look))
    permission = store.permissions.get(change.skill.id) if permits else None
    ungiven = _not_given(workspace, change, permission)
    beyond = _beyond_any_permission(workspace, change) if permits else ""
    why = ungiven or beyond if permits else "each change needs an approval here"
    if change.to_version in rolled_back(store.promotions.list_promotions(change.skill.id)):
        why, permits = "a person rolled it back, and nobody but a person puts it back", False
    elif declined := declined_at(workspace, change.approval):
        why, permits = f"at {declined} the person was asked, and said no", False
    if not why:
        return Ready(change, consent, consent.value, permission=permission)
    flag = f"{' --simulated' if change.simulated else ''}{' --host-run' if host_own(workspace, change.test) else ''}"
    # A permission that there is, or that would not do, is no way on.
    is_way = permits and ungiven and not beyond
    permit = f" (or once: skillopt-mcp skills permit {called(store, change.skill)}{flag})" if is_way else ""
    ask = f"Ask the person to run: {_approve_or(store, change)}{permit}"
    return Lacking(change.approval, answer(workspace, change, "needs_approval", why, ask))


def _not_given(workspace: Workspace, change: Change, permission: Permission | None) -> str:
    """Return what a skill's standing permission lacks for a change on such evidence, or an empty string."""
    if permission is None:
        return "no person has agreed to this change"
    if change.simulated and not permission.simulated:
        return "the evidence is from a simulation"
    return "" if permission.host_run else host_own(workspace, change.test)


def _beyond_any_permission(workspace: Workspace, change: Change) -> str:
    """Return why no standing permission covers a change, or an empty string when one does."""
    store, skill = workspace.store, change.skill
    files = (store.skills.get_files(skill.id, change.from_version), store.skills.get_files(skill.id, change.to_version))
    if change.kind == "rollback":
        last = next(iter(store.promotions.list_promotions(skill.id)), None)
        undone = last and last.kind == "promote" and (last.to_version, last.from_version)
        if undone != (change.from_version, change.to_version):
            return "it does more than undo the last promotion, which a standing permission does not cover"
        if back := findings(*files, workspace.known):
            return f"it brings back what a person should see first: {'; '.join(back)}"
    if change.candidate and (again := told_repeated(store, change.candidate)):
        return f"{again}: a person should see it"
    weak = uncovered(workspace, change.test, simulated=change.simulated) if change.test else ""
    return weak or beyond_small_edit(*files)


def _approve_or(store: Store, change: Change) -> str:
    flag = " --simulated" if change.simulated else ""
    approve = f"skillopt-mcp approve {change.candidate_id}{flag}, then call again; or: " if change.candidate else ""
    return f"{approve}skillopt-mcp {change.command(store)}{flag if change.candidate else ''}"
