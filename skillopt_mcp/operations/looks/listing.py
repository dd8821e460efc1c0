"""Listing: which skills there are, what has been gathered for each, and what to do next."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.folders import find_skill_folders, is_as_shipped
from skillopt_mcp.operations.changes.agreed import unused_approvals
from skillopt_mcp.operations.evidence.recording import ENOUGH_TO_PROPOSE
from skillopt_mcp.operations.host_work.going_on import left_behind, open_work
from skillopt_mcp.operations.paging import page_start, shortened
from skillopt_mcp.operations.results import SkillList, SkillRow, SplitCounts
from skillopt_mcp.operations.skills.resembling import resembled, told_resembled
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Candidate
from skillopt_mcp.records.skills import Skill, short

PAGE = 15
PAGE_BYTES = 9_000
TROUBLE_BYTES = 1_500
TO_TRACK = "record_trajectory tracks it"


def list_skills(workspace: Workspace, cursor: str | None = None) -> SkillList:
    """Return tracked skills, then those found in skill folders, a page at a time; no store is made. Raises BadInput."""
    start = page_start(cursor)
    tracked = _listed(workspace) if workspace.is_made else []
    known = {skill.path for skill in tracked}
    found = [Path(os.path.realpath(path)) for path in find_skill_folders(workspace.roots())]
    untracked = [path for path in dict.fromkeys(found) if str(path) not in known and not is_as_shipped(path)]
    here: list[Skill | Path] = [*tracked, *untracked]
    alike = resembled(workspace, [*known, *map(str, untracked)]) if tracked else {}
    rows, room = list[SkillRow](), PAGE_BYTES
    for each in here[start : start + PAGE]:
        row = _tracked(workspace, each, alike) if isinstance(each, Skill) else _untracked(workspace, each, alike)
        room -= len(row.model_dump_json().encode())
        if rows and room < 0:
            break
        rows.append(row)
    n_left = max(len(here) - start - len(rows), 0)
    return SkillList(
        skills=rows,
        cursor=str(start + len(rows)) if n_left else None,
        next_step=f"{n_left} more: pass the cursor." if n_left else _next_step(here),
    )


def _listed(workspace: Workspace) -> list[Skill]:
    hidden = workspace.store.skills.list_forgotten()
    return [skill for skill in workspace.store.skills.list_skills() if skill.id not in hidden]


def _next_step(here: list[Skill | Path]) -> str:
    if not here:
        return "No skill was found. Record an attempt with the path of a skill folder to begin."
    return "Record attempts with record_trajectory; each skill's next step stands beside it."


def skill_row(workspace: Workspace, skill: Skill) -> SkillRow:
    """Return a tracked skill as it is listed."""
    return _tracked(workspace, skill, resembled(workspace, [skill.path]))


def _untracked(workspace: Workspace, path: Path, alike: Mapping[str, Skill]) -> SkillRow:
    step = told_resembled(alike, str(path)) or TO_TRACK
    promotable = workspace.root_at(str(path)) is not None
    return SkillRow(name=path.name, path=str(path), tracked=False, promotable=promotable, next_step=step)


def _trouble(workspace: Workspace, skill: Skill, alike: Mapping[str, Skill]) -> str:
    trouble = workspace.trouble(skill)
    places = [quoted(path, 200) for path, other in alike.items() if other.id == skill.id]
    return f"{trouble}; it looks like what is at {places[0]} now" if trouble and places else trouble


def _tracked(workspace: Workspace, skill: Skill, alike: Mapping[str, Skill]) -> SkillRow:
    store = workspace.store
    trouble = _trouble(workspace, skill, alike)
    skill = store.skills.get_skill(skill.id)
    counts = store.tasks.count_tasks(skill.id)
    total, new = store.trajectories.count_trajectories(skill.id)
    # Whatever was live is rolled back to, not promoted again.
    closed = {each.to_version for each in store.promotions.list_promotions(skill.id)}
    candidates = [each for each in store.candidates.list_candidates(skill.id) if each.version_id not in closed]
    current = [each for each in candidates if each.base_version == skill.live_version]
    verdicts = store.decisions.verdicts(skill.id, GATE, skill.live_version)
    undecided = [each for each in current if verdicts.get(each.version_id, "undecided") == "undecided"]
    accepted = [each for each in current if verdicts.get(each.version_id) == "accept"]
    return SkillRow(
        name=skill.name,
        path=skill.path,
        tracked=True,
        live_version=short(skill.live_version),
        best_version=short(skill.best_version) if skill.best_version else None,
        splits=SplitCounts(**counts),
        n_trajectories=total,
        n_new=new,
        open_candidates=len(undecided) + len(accepted),
        approved=list(unused_approvals(workspace, skill.id)),
        promotable=workspace.root_of(skill) is not None,
        next_step=shortened(trouble, TROUBLE_BYTES)
        or told_resembled(alike, skill.path)
        or (_promotion_of(_next_of(accepted)) if accepted else open_work(workspace, skill, undecided))
        or ("" if current else left_behind(workspace, skill, candidates))
        or _advice(undecided, new, sum(counts.values())),
    )


def _advice(undecided: list[Candidate], n_new: int, n_tasks: int) -> str:
    if undecided:
        return _evaluation_of(_next_of(undecided)) if n_tasks else "add_tasks, then evaluate the candidate"
    if n_new >= ENOUGH_TO_PROPOSE:
        return "propose_edits"
    return "record_trajectory" if n_tasks else "add_tasks"


def _next_of(candidates: list[Candidate]) -> Candidate:
    """Return the newest candidate that the guard does not hold, or the newest where it holds all of them."""
    return next((each for each in reversed(candidates) if not each.findings), candidates[-1])


def _promotion_of(candidate: Candidate) -> str:
    if not candidate.findings:
        return f"promote_skill {candidate.id}"
    return (
        f"a person has to look at {candidate.id} before it can be promoted: it was accepted, and the guard holds it "
        f"(skillopt-mcp promote {candidate.id}, or skillopt-mcp approve {candidate.id} and then promote_skill)"
    )


def _evaluation_of(candidate: Candidate) -> str:
    held = "; the guard holds it: promoting it takes a person's look" if candidate.findings else ""
    return f"evaluate_candidate {candidate.id}{held}"
