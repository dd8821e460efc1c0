"""Advising: what to do next with a candidate, by where it stands."""

from __future__ import annotations

import re

from skillopt_mcp.errors import BadSkill
from skillopt_mcp.operations.candidates.recalling import told_rolled_back
from skillopt_mcp.operations.candidates.succeeding import skill_of
from skillopt_mcp.operations.changes.consenting import Consent, Lacking, Ready
from skillopt_mcp.operations.changes.promoting import NO_GAIN, check_promotion, is_edited, told_live
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.testing.evaluating import ON_TOP
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Candidate, edited_on_top
from skillopt_mcp.records.skills import Skill, short

_LONGEST_BYTES = 600
_PROMOTION = re.compile(r"(?:Call )?promote_skill (?:with candidate_id )?(c-[0-9a-f]{12})\.?(; mind that .*)?")


def next_step(workspace: Workspace, candidate: Candidate, consent: Consent) -> str:
    """Return what to do with a candidate now: test it, or promote it, if whoever asks can agree as `consent` says."""
    try:
        return shortened(_next_step(workspace, candidate, consent), _LONGEST_BYTES)
    except BadSkill as error:
        return shortened(str(error), _LONGEST_BYTES)


def by_a_person(workspace: Workspace, step: str) -> str:
    """Return a next step as a person at a terminal takes it: a promotion may ask more of them than of a tool."""
    found = _PROMOTION.fullmatch(step)
    if found is None:
        return step
    advice = next_step(workspace, workspace.store.candidates.get_candidate(found[1]), Consent.PERSON)
    return step if "promote_skill" in advice else f"{advice}{found[2] or ''}"


def told_was_live(workspace: Workspace, skill: Skill, version: str) -> str:
    """Return what to do with a version that was live, and is no more."""
    store = workspace.store
    if edited_on_top(store.promotions.list_promotions(skill.id), version, skill.live_version):
        return f"{ON_TOP}."
    name, told = called(store, skill), "It was live, and is no more. To have it back"
    if is_edited(workspace, skill):
        command = f"skillopt-mcp rollback {name} {short(version)} --over-edit"
        return f"{told} over what somebody has edited since, a person types at a terminal: {command}"
    return f"{told}: rollback_skill with skill {name} and version {short(version)}."


def _next_step(workspace: Workspace, candidate: Candidate, consent: Consent) -> str:
    store = workspace.store
    skill = skill_of(workspace, candidate)
    if skill.live_version == candidate.version_id:
        return told_live(store, skill)
    if told := told_rolled_back(store, candidate):
        return told
    if any(each.to_version == candidate.version_id for each in store.promotions.list_promotions(skill.id)):
        return told_was_live(workspace, skill, candidate.version_id)
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    if decision and decision.verdict == "reject":
        return NO_GAIN
    if candidate.origin == "step":
        run = f"run {candidate.run_id}: inspect the run" if candidate.run_id else "a run elsewhere: inspect the skill"
        return f"It was one step of {run} to see what came of it."
    standing = check_promotion(workspace, candidate.id, consent)
    if isinstance(standing, Ready):
        return f"Call promote_skill with candidate_id {candidate.id}."
    answer = standing.answer if isinstance(standing, Lacking) else standing
    held = " The guard holds it: promoting it takes a person's look." if candidate.findings and not decision else ""
    return f"{answer.next_step}{held}"
