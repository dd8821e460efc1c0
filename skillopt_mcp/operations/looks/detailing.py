"""Detailing: a skill, a version, a candidate or an attempt in fields, as the store holds it.

Of attempts at held-out tasks no more is told than that they are.
"""

from __future__ import annotations

from skillopt_mcp.operations.changes.agreed import unused_approvals
from skillopt_mcp.operations.changes.declined import told_declined
from skillopt_mcp.operations.changes.live_changes import UNPROVEN
from skillopt_mcp.operations.looks.details import (
    ApprovalRow,
    CandidateDetail,
    FileRow,
    Permitted,
    RunState,
    SkillDetail,
    TrajectoryDetail,
    VersionDetail,
)
from skillopt_mcp.operations.looks.standing import candidate_row, candidate_rows
from skillopt_mcp.operations.results import EditOutcome, SplitCounts
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.evidence import Trajectory
from skillopt_mcp.records.skills import Skill, Version, short
from skillopt_mcp.store.erasing import Tombstone
from skillopt_mcp.store.permissions import Permission

UNSCORED_SHOWN = 20


def skill_detail(workspace: Workspace, skill: Skill, n: int | None = None) -> SkillDetail:
    """Return a tracked skill, with its `n` newest candidates and runs; with all of them where that is None."""
    store = workspace.store
    runs = store.runs.list_runs(skill.id)[::-1]
    total, new = store.trajectories.count_trajectories(skill.id)
    permission = store.permissions.get(skill.id)
    return SkillDetail(
        name=skill.name,
        path=skill.path,
        live_version=short(skill.live_version),
        best_version=short(skill.best_version) if skill.best_version else None,
        unproven=is_unproven(workspace, skill.id, skill.live_version),
        promotable=workspace.root_of(skill) is not None,
        splits=SplitCounts(**store.tasks.count_tasks(skill.id)),
        n_retired=len(store.retirements.list_retired(skill.id)),
        n_trajectories=total,
        n_new=new,
        permission=_permitted(permission) if permission else None,
        approvals=_approvals(workspace, skill.id),
        n_candidates=len(store.candidates.list_candidates(skill.id)),
        candidates=candidate_rows(workspace, skill, n),
        runs=[RunState(id=run.id, status=run.status) for run in runs[:n]],
        unscored=[f"trajectory:{each}" for each in store.trajectories.list_unscored(skill.id, UNSCORED_SHOWN)],
    )


def _permitted(permission: Permission) -> Permitted:
    by, host_run = permission.granted_by, permission.host_run
    return Permitted(given_by=by, simulated=permission.simulated, host_run=host_run)


def candidate_detail(workspace: Workspace, id: str) -> CandidateDetail:
    """Return a candidate. Raises NotFound."""
    store = workspace.store
    candidate = store.candidates.get_candidate(id)
    skill = store.skills.get_skill(candidate.skill_id)
    # A person may have written to its folder meanwhile.
    workspace.trouble(skill)
    skill = store.skills.get_skill(skill.id)
    row = candidate_row(workspace, skill, candidate)
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    return CandidateDetail(
        id=id,
        skill=skill.name,
        base=row.base,
        version=row.version,
        origin=candidate.origin,
        run_id=candidate.run_id,
        standing=row.standing,
        verdict=row.verdict,
        reason=decision.reason if decision else "",
        held=row.held,
        approved=id in unused_approvals(workspace, skill.id),
        declined=told_declined(workspace, candidate),
        findings=list(candidate.findings),
        tests=[
            test.id
            for test in store.decisions.list_confirmations(skill.id, candidate.base_version, candidate.version_id)
        ],
        edits=[
            EditOutcome(
                index=report.index,
                op=report.op,
                path=report.path,
                status=report.status,
                reason=report.reason,
                detail=report.detail,
            )
            for _, report in store.candidates.list_edits(id)
        ],
    )


def trajectory_detail(workspace: Workspace, skill_id: int, attempt: Trajectory) -> TrajectoryDetail:
    """Return a recorded attempt."""
    store = workspace.store
    is_held_out = store.tasks.is_held_out(skill_id, attempt.prompt)
    return TrajectoryDetail(
        id=attempt.id,
        skill=store.skills.get_skill(skill_id).name,
        version=short(store.trajectories.version_of(int(attempt.id.partition(":")[2]))),
        session=attempt.session,
        held_out=is_held_out,
        task=None if is_held_out else attempt.prompt,
        hard=None if is_held_out else attempt.hard,
        soft=None if is_held_out else attempt.soft,
        reason=None if is_held_out else attempt.reason,
        n_messages=None if is_held_out else len(attempt.messages),
    )


def tombstone_detail(workspace: Workspace, id: str, left: Tombstone) -> TrajectoryDetail:
    """Return what is left of an attempt that was erased."""
    return TrajectoryDetail(
        id=id,
        skill=workspace.store.skills.get_skill(left.skill_id).name,
        version=short(left.version_id),
        session=left.session_id or "",
        held_out=False,
        task=None,
        hard=None,
        soft=None,
        reason=None,
        n_messages=None,
        erased_at=left.erased_at,
    )


def version_detail(workspace: Workspace, skill: Skill, found: Version) -> VersionDetail:
    """Return a version of a skill, with the sizes of its files."""
    files = workspace.store.skills.get_files(skill.id, found.id).files
    parent = workspace.store.skills.find_parent(found)
    return VersionDetail(
        skill=skill.name,
        version=short(found.id),
        sha256=found.id,
        parent=short(parent.id) if parent else None,
        origin=found.origin,
        at=found.created_at,
        live=found.id == skill.live_version,
        unproven=is_unproven(workspace, skill.id, found.id),
        files=[FileRow(path=each.path, n_bytes=len(each.content), executable=each.executable) for each in files],
    )


def is_unproven(workspace: Workspace, skill_id: int, version: str) -> bool:
    """Return whether a person adopted a version without proof; one that was proven since is not unproven."""
    verdicts = [
        each.verdict
        for each in workspace.store.promotions.list_promotions(skill_id)
        if each.kind == "promote" and each.to_version == version
    ]
    return verdicts[:1] == [UNPROVEN]


def _approvals(workspace: Workspace, skill_id: int) -> list[ApprovalRow]:
    return [
        ApprovalRow(
            id=made if each.kind == "promote" else short(made), kind=each.kind, given_by=each.given_by, at=each.at
        )
        for made, approvals in unused_approvals(workspace, skill_id).items()
        for each in approvals
    ]
