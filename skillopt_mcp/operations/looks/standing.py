"""Standing: where a candidate, a version or an attempt stands in a skill's life, and what to do with it now."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.operations.changes.advising import next_step, told_was_live
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.host_work.going_on import host_tests
from skillopt_mcp.operations.looks.details import CandidateRow, CandidateStanding
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Candidate, Promotion, rolled_back
from skillopt_mcp.records.evidence import Trajectory
from skillopt_mcp.records.skills import Skill, short

_TOLD: dict[CandidateStanding, str] = {
    "rolled_back": "rolled back",
    "was_live": "promoted, and live no more",
    "stale": "stale: the file has changed since",
}


def candidate_rows(workspace: Workspace, skill: Skill, n: int | None = None) -> list[CandidateRow]:
    """Return the `n` newest candidates of a skill (None: all), the newest first, each with where it stands."""
    changes = workspace.store.promotions.list_promotions(skill.id)
    candidates = workspace.store.candidates.list_candidates(skill.id)[::-1]
    return [_row(workspace, skill, each, changes) for each in candidates[:n]]


def candidate_row(workspace: Workspace, skill: Skill, candidate: Candidate) -> CandidateRow:
    """Return one candidate with where it stands."""
    return _row(workspace, skill, candidate, workspace.store.promotions.list_promotions(skill.id))


def told_candidates(workspace: Workspace, skill: Skill, n: int) -> list[str]:
    """Return a line for each of the newest candidates of a skill: its verdict, and whether it still can be promoted."""
    was_promoted = bool(workspace.store.promotions.list_promotions(skill.id))
    told = _TOLD | {"live": "promoted and live" if was_promoted else "live"}
    rows = candidate_rows(workspace, skill, n)[::-1]
    candidates = [workspace.store.candidates.get_candidate(row.id) for row in rows if row.standing == "open"]
    tests = host_tests(workspace, candidates)
    begun = {each.id for each in candidates if each.version_id in tests}
    return [
        f"candidate {row.id}: {', '.join(filter(None, (_tested(row, begun), told.get(row.standing))))}" for row in rows
    ]


def _tested(row: CandidateRow, begun: set[str]) -> str:
    """Return what the promotion gate says of a candidate, or how far its test is."""
    return row.verdict or ("under test" if row.id in begun else "not evaluated")


def step_of_version(workspace: Workspace, skill: Skill, version: str, consent: Consent) -> str:
    """Return what to do with a version: what is to be done with its candidate, where it is one."""
    made = [each for each in workspace.store.candidates.list_candidates(skill.id) if each.version_id == version]
    of_live = [each for each in made if each.base_version == skill.live_version]
    if version != skill.live_version and made:
        return next_step(workspace, (of_live or made)[-1], consent)
    if version == skill.live_version:
        return f"It is what is live: what comes next with the skill is told by inspect {skill.name}."
    if workspace.store.skills.get_version(skill.id, version).origin == "recorded":
        return told_was_live(workspace, skill, version)
    return f"It was never live, and nothing is to be done with it: inspect {skill.name} tells what comes next."


def step_of_attempt(trajectory: Trajectory, *, is_held_out: bool) -> str:
    """Return what to do with a recorded attempt."""
    if is_held_out:
        return "Nothing: nothing is learned from an attempt at a held-out task."
    if trajectory.hard is None:
        return f"Say how it ended: record_trajectory with task {trajectory.id} and hard."
    return (
        "Nothing: proposals learn from it (propose_edits). If its score is wrong: record_trajectory with task "
        f"{trajectory.id}, the right one and a reason for the correction."
    )


def _row(workspace: Workspace, skill: Skill, candidate: Candidate, changes: Sequence[Promotion]) -> CandidateRow:
    decision = workspace.store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    verdict = decision.verdict if decision else None
    return CandidateRow(
        id=candidate.id,
        standing=_standing(skill, candidate, verdict, changes),
        verdict=verdict,
        held=bool(candidate.findings),
        base=short(candidate.base_version),
        version=short(candidate.version_id),
    )


def _standing(
    skill: Skill, candidate: Candidate, verdict: str | None, changes: Sequence[Promotion]
) -> CandidateStanding:
    if candidate.version_id == skill.live_version:
        return "live"
    if candidate.version_id in rolled_back(changes):
        return "rolled_back"
    if any(each.to_version == candidate.version_id for each in changes):
        return "was_live"
    if candidate.origin == "step":
        return "step"
    if candidate.base_version != skill.live_version:
        return "stale"
    return "rejected" if verdict == "reject" else "open"
