"""Succeeding: where a candidate goes on whose skill is gone, as the same change of another skill."""

from __future__ import annotations

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadSkill
from skillopt_mcp.operations.finding import is_gone
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Candidate
from skillopt_mcp.records.skills import Skill


def skill_of(workspace: Workspace, candidate: Candidate) -> Skill:
    """Return the skill of a candidate as it is now. Raises BadSkill, which names the candidate that took its place."""
    store = workspace.store
    skill = store.skills.get_skill(candidate.skill_id)
    try:
        return workspace.again(skill)
    except BadSkill as error:
        skills = [(each, store.skills.get_skill(each.skill_id)) for each in store.candidates.list_twins(candidate)]
        living = [f"{each.id}, of {quoted(its.path, 500)}" for each, its in skills if not is_gone(its.path)]
        if not living or not is_gone(skill.path):
            raise
        raise BadSkill(
            f"{quoted(skill.path, 500)}, the folder of {candidate.id}, is gone, and the same change is a candidate "
            f"of a skill that is there: use {' or '.join(living)}"
        ) from error
