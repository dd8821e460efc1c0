"""Promoting: the only two operations that write a user's file, and both can be undone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal

from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.errors import BadInput, Busy, Refused, Stale
from skillopt_mcp.folders import files_folder
from skillopt_mcp.judges.shapes import is_form_alone
from skillopt_mcp.livefiles import replace_files
from skillopt_mcp.operations.evaluating import is_simulated
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.paging import fitted, shortened
from skillopt_mcp.operations.recovery import lock_name, settle, take_back
from skillopt_mcp.operations.results import Promoted
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Decision, Promotion, PromotionKind
from skillopt_mcp.records.skills import Skill, SkillFiles, is_memory, short
from skillopt_mcp.store.decisions import ConfirmationRow

Status = Literal["promoted", "rolled_back", "refused", "stale", "undecided", "held", "needs_approval"]
REASON_BYTES = 1_500


class Consent(Enum):
    """Who agrees to a change of a live file. A tool call can only ever rest on a standing permission."""

    STANDING = "standing permission"
    PERSON = "a person at a terminal"
    PERSON_SIMULATED = "a person at a terminal, on evidence from a simulation"


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a live skill that is asked for."""

    skill: Skill
    kind: PromotionKind
    from_version: str
    to_version: str
    candidate_id: str | None = None
    verdict: str = ""


def promote_skill(workspace: Workspace, candidate_id: str, consent: Consent) -> Promoted:
    """Write an accepted candidate over the live skill, if nothing changed there since and somebody agreed.

    Calls no model. Every status but `promoted` leaves the file untouched; `reason` and `next_step` say why.
    """
    store = workspace.store
    candidate = store.candidates.get_candidate(known(candidate_id))
    skill = workspace.again(store.skills.get_skill(candidate.skill_id))
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    tests = store.decisions.list_confirmations(skill.id, candidate.base_version, candidate.version_id)
    test = next((test for test in tests if decision and test.id == decision.scope), None)
    verdict = decision.verdict if decision else "none"
    change = _Change(skill, "promote", candidate.base_version, candidate.version_id, candidate.id, verdict)
    if skill.live_version == candidate.version_id:
        return _answer(workspace, change, "refused", "the candidate is what is live already")
    if skill.live_version != candidate.base_version:
        return _stale(workspace, change)
    if test is None or decision is None:
        why = "it was not evaluated against the live version"
        return _answer(workspace, change, "refused", why, f"Call evaluate_candidate with candidate_id {candidate.id}.")
    if (against := _against(workspace, change, decision, test)) is not None:
        return against
    if candidate.findings and consent is Consent.STANDING:
        return _answer(
            workspace, change, "held", "; ".join(candidate.findings),
            f"A person has to look at it at a terminal: skillopt-mcp promote {candidate.id}",
        )  # fmt: skip
    return _with_consent(workspace, change, consent, test)


def _against(workspace: Workspace, change: _Change, decision: Decision, test: ConfirmationRow) -> Promoted | None:
    """Return what the evidence has against a promotion, None when it allows it."""
    if decision.verdict == "reject":
        return _answer(workspace, change, "refused", decision.reason, "It brings no useful gain: propose other edits.")
    if decision.verdict != "accept":
        again = f"Call evaluate_candidate with candidate_id {change.candidate_id}."
        return _answer(workspace, change, "undecided", decision.reason, again)
    tested = set(test.tasks)
    if is_form_alone([task for task in workspace.store.tasks.list_tasks(change.skill.id) if task.id in tested]):
        return _answer(
            workspace, change, "refused", "its test judged the form of answers alone (length, heading)",
            "Add held-out tasks with a judge of what is said, and propose other edits.",
        )  # fmt: skip
    return None


def rollback_skill(workspace: Workspace, skill: str, version: str | None, consent: Consent) -> Promoted:
    """Write an earlier version over the live skill: the one before the last change, or the one that is named.

    Refused as stale when the live file is not what the last promotion or rollback left: a person's edit is kept. Raises
    Refused for a version that was never live: those are candidates, and have to be promoted.
    """
    tracked = workspace.skill(skill)
    changes = workspace.store.promotions.list_promotions(tracked.id)
    target = rollback_target(workspace, tracked, version)
    change = _Change(tracked, "rollback", tracked.live_version, target)
    if target == tracked.live_version:
        return _answer(workspace, change, "refused", f"version {short(target)} is live already")
    if changes and changes[0].to_version != tracked.live_version:
        return _stale(workspace, change)
    return _with_consent(workspace, change, consent, None)


def rollback_target(workspace: Workspace, skill: Skill, version: str | None) -> str:
    """Return the version that a rollback leads to: the one named, or the one that the live version was promoted over.

    Raises BadInput when there is none, NotFound, and Refused when the one named was never live.
    """
    store = workspace.store
    changes = store.promotions.list_promotions(skill.id)
    if not version:
        edited = [change for change in changes[:1] if change.to_version != skill.live_version]
        promoted = [each for each in changes if each.kind == "promote" and each.to_version == skill.live_version]
        for change in [*edited, *promoted]:
            return change.from_version
        raise BadInput(
            f"what is live of '{skill.name}' was never promoted: there is nothing to roll back; or name a version"
        )
    found = store.skills.get_version(skill.id, known(version))
    was_live = {id for each in changes for id in (each.from_version, each.to_version)}
    if found.origin != "recorded" and found.id not in was_live:
        raise Refused(f"version '{short(found.id)}' of '{skill.name}' was never live: promote its candidate instead")
    return found.id


def _with_consent(workspace: Workspace, change: _Change, consent: Consent, test: ConfirmationRow | None) -> Promoted:
    simulated = test is not None and is_simulated(test.backend)
    command = (
        f"promote {change.candidate_id}"
        if change.kind == "promote"
        else f"rollback {change.skill.name} {short(change.to_version)}"
    )
    if consent is Consent.STANDING:
        permission = workspace.store.skills.get_permission(change.skill.id)
        if permission is None or (simulated and not permission.simulated):
            why = "no person has agreed to this change" if permission is None else "the evidence is from a simulation"
            return _answer(
                workspace, change, "needs_approval", why,
                f"Ask the person to run: skillopt-mcp {command} (or once: skillopt-mcp skills permit "
                f"{change.skill.name}{' --simulated' if simulated else ''})",
            )  # fmt: skip
    elif simulated and consent is not Consent.PERSON_SIMULATED:
        return _answer(
            workspace, change, "refused", "the evidence is from a simulation and says nothing about a real model",
            f"Evaluate with a real target, or insist: skillopt-mcp {command} --simulated",
        )  # fmt: skip
    if workspace.root_of(change.skill) is None:
        return _answer(
            workspace, change, "refused", f"'{change.skill.path}' lies in no skill folder that may be written",
            f"A person can allow it: skillopt-mcp skills add-root '{_root_for(change.skill)}'",
        )  # fmt: skip
    return _write(workspace, change, consent)


def _root_for(skill: Skill) -> str:
    return skill.path if is_memory(skill.path) else str(Path(skill.path).parent)


def _write(workspace: Workspace, change: _Change, consent: Consent) -> Promoted:
    store, skill = workspace.store, change.skill
    lock = lock_run(store.locks_path, lock_name(skill.id))
    if lock is None:
        raise Busy(f"another process is changing '{skill.name}' right now: look at its history and try again")
    try:
        settle(store, skill.id)
        before = workspace.live(skill)
        if before.digest != change.from_version:
            return _stale(workspace, change)
        after = store.skills.get_files(skill.id, change.to_version)
        journal = store.promotions.begin(
            Promotion(0, skill.id, change.kind, change.candidate_id, change.from_version, change.to_version, "pending",
                      change.verdict, consent.value, "")
        )  # fmt: skip
        try:
            replace_files(files_folder(Path(skill.path)), before, after)
        except BaseException:
            take_back(store, journal)
            raise
        store.promotions.finish(journal)
    except Stale:
        return _stale(workspace, change)
    finally:
        lock.release()
        workspace.forget(skill)
    done: Status = "promoted" if change.kind == "promote" else "rolled_back"
    return _answer(
        workspace, change, done, "", f"It is live. To undo it: rollback_skill with skill {skill.name}.", before
    )


def _stale(workspace: Workspace, change: _Change) -> Promoted:
    live = short(workspace.live(change.skill).digest)
    again = (
        "propose the edits again on top of it."
        if change.kind == "promote"
        else f"to go back all the same, copy the text of {change.skill.name}@{short(change.to_version)}."
    )
    return _answer(
        workspace, change, "stale", f"the live file is version {live}, which is not the one this change was made for",
        f"Somebody edited the file. Their edit is kept: {again}",
    )  # fmt: skip


def _answer(
    workspace: Workspace,
    change: _Change,
    status: Status,
    reason: str,
    next_step: str = "",
    before: SkillFiles | None = None,
) -> Promoted:
    store, skill = workspace.store, change.skill
    old = before or store.skills.get_files(skill.id, change.from_version)
    new = store.skills.get_files(skill.id, change.to_version)
    result = Promoted(
        status=status,
        skill=skill.name,
        skill_path=skill.path,
        version=short(change.to_version),
        previous_version=short(change.from_version),
        diff=unified_diff(old, new, skill.name),
        reason=shortened(reason, REASON_BYTES),
        next_step=shortened(next_step, REASON_BYTES),
    )
    return fitted(result, "diff")
