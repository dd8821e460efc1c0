"""Declined: what a person said no to when they were asked, so that nobody asks as if they had not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from skillopt_mcp.operations.changes.permitting import signed
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Approval, Candidate
from skillopt_mcp.records.skills import short
from skillopt_mcp.store.refusals import Refusal, Refusals


def decline(workspace: Workspace, approval: Approval, said_by: str) -> None:
    """Keep that a person said no to a change."""
    said = f"{signed(said_by, workspace.login)} said no"
    workspace.store.room(Refusals).add_refusal(approval, said, "declined")


def note_unheard(workspace: Workspace, approval: Approval, said: str) -> None:
    """Keep that a host answered with no, who knows whether it asked anybody: that is told, and binds nobody."""
    workspace.store.room(Refusals).add_refusal(approval, said, "unheard")


def declined_at(workspace: Workspace, approval: Approval) -> str:
    """Return when a person last said no to a change, by the clock on their wall, with the day unless it is today.

    Empty where nobody did.
    """
    last = workspace.store.room(Refusals).last_refusal(approval)
    return _at(last) if last else ""


def minded(workspace: Workspace, approval: Approval) -> list[str]:
    """Return what whoever is asked about a change is told of how they answered before."""
    refusals = workspace.store.room(Refusals)
    if last := refusals.last_refusal(approval):
        return [f"you said no at {_at(last)}"]
    unheard = refusals.last_refusal(approval, "unheard")
    return [f"declined at {_at(unheard)}, perhaps by the host itself"] if unheard else []


def _at(refusal: Refusal) -> str:
    at = datetime.fromisoformat(refusal.at).astimezone()
    return f"{at:%H:%M}" if at.date() == datetime.now().astimezone().date() else f"{at:%Y-%m-%d %H:%M}"


def undeclined(workspace: Workspace, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return those of a skill's candidates that nobody said no to."""
    found = workspace.store.room(Refusals).list_refusals(candidates[0].skill_id) if candidates else []
    declined = {each[:3] for each in found if each.verdict == "declined"}
    return [each for each in candidates if ("promote", each.base_version, each.version_id) not in declined]


def told_declined(workspace: Workspace, candidate: Candidate) -> list[str]:
    """Return a line for each no to a candidate, the newest first."""
    versions = (candidate.base_version, candidate.version_id)
    found = workspace.store.room(Refusals).list_refusals(candidate.skill_id)
    return [f"{each.said}, {each.at}" for each in found if each[:3] == ("promote", *versions)]


def declined_changes(workspace: Workspace, skill_id: int) -> list[str]:
    """Return a line for each no to a change of a skill, the newest first."""
    return [_told(each) for each in workspace.store.room(Refusals).list_refusals(skill_id)]


def _told(refusal: Refusal) -> str:
    change = f"{refusal.kind} {short(refusal.from_version)} -> {short(refusal.to_version)}"
    return f"{refusal.at} {change}: {refusal.said}"
