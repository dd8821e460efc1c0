"""Rebasing: a candidate whose file somebody edited meanwhile is made again on top of their edit, and tested anew."""

from __future__ import annotations

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.errors import Refused
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.guard.support import carried
from skillopt_mcp.limits import PATCH_EDITS
from skillopt_mcp.operations.candidates.proposing import kept, proposed, step_of
from skillopt_mcp.operations.candidates.recalling import edits_of
from skillopt_mcp.operations.candidates.succeeding import skill_of
from skillopt_mcp.operations.candidates.tested import with_past
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.results import Proposed
from skillopt_mcp.operations.skills.merging import check_merged
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import IMPORTED, Candidate, CandidateOrigin, candidate_id
from skillopt_mcp.records.edits import Applied, Edit, Patch
from skillopt_mcp.records.skills import SkillFiles, short


def rebase_candidate(workspace: Workspace, id: str) -> Proposed:
    """Return the candidate that the same edits make of what is live now, with what became of each of them.

    It carries where the edits come from and what the guard said of their evidence, and none of the old one's evidence.
    Raises NotFound, and Refused when the live file is the one that the candidate was made for, or the candidate itself,
    edited or not, and when it has an unsettled conflict.
    """
    store = workspace.store
    old = store.candidates.get_candidate(known(id))
    skill = skill_of(workspace, old)
    if skill.live_version == old.base_version:
        raise Refused(f"'{id}' is made for what is live of '{skill.name}': nothing has to be rebased")
    if skill.live_version == old.version_id:
        raise Refused(f"'{id}' is what is live of '{skill.name}' already")
    if any(change.to_version == old.version_id for change in store.promotions.list_promotions(skill.id)[:1]):
        raise Refused(f"'{id}' was promoted, and '{skill.name}' was edited on top of it: it is in what is live already")
    live = store.skills.get_files(skill.id, skill.live_version)
    check_merged(live)
    patch = Patch(_edits(workspace, old), f"{old.id}, rebased onto {short(skill.live_version)}: {old.reasoning}")
    applied = apply_patch(live, patch)
    made = _candidate(workspace, old, live, patch, applied) if applied.files != live else None
    result = proposed(skill.name, live, applied, made)
    result = result.model_copy(update={"next_step": _next_step(made, applied)})
    return with_past(store, result, made, step_of(made, made.findings)) if made else result


def _edits(workspace: Workspace, candidate: Candidate) -> tuple[Edit, ...]:
    """Return the edits of a candidate. Raises Refused where they are more than one patch holds."""
    found = edits_of(workspace.store, candidate)
    if not found or len(found) > PATCH_EDITS:
        raise Refused(f"{quoted(candidate.id)} changes too much to be made again edit by edit: propose it anew")
    return found


def _candidate(workspace: Workspace, old: Candidate, live: SkillFiles, patch: Patch, applied: Applied) -> Candidate:
    origin: CandidateOrigin = "run" if old.origin == "step" else old.origin
    made = Candidate(
        id=candidate_id(old.skill_id, live.digest, applied.files.digest),
        skill_id=old.skill_id,
        base_version=live.digest,
        version_id=applied.files.digest,
        origin=origin,
        reasoning=patch.reasoning,
        findings=(
            *(finding for finding in old.findings if finding == IMPORTED),
            *findings(live, applied.files, workspace.known),
            *carried(old.findings),
        ),
        run_id=old.run_id,
    )
    return kept(workspace, made, patch, applied)


def _next_step(made: Candidate | None, applied: Applied) -> str:
    missed = sum(report.status != "applied" for report in applied.reports)
    if made is None:
        return "None of its edits fits what is live now, or all of it is there already: propose new ones."
    conflicts = (
        f"{missed} of {len(applied.reports)} edits do not fit what is live now and are left out. " if missed else ""
    )
    return f"{conflicts}{step_of(made, made.findings)}"
