"""Guarding: what the guard finds in a candidate now, which it did not know of when the candidate was made."""

from __future__ import annotations

from dataclasses import replace

from skillopt_mcp.guard.capabilities import secrets_added
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Candidate


def guarded(workspace: Workspace, candidate: Candidate) -> Candidate:
    """Return a candidate with the secrets among its findings that are known to be some by now, or here."""
    skills = workspace.store.skills
    base = skills.get_files(candidate.skill_id, candidate.base_version)
    new = skills.get_files(candidate.skill_id, candidate.version_id)
    late = [each for each in secrets_added(base, new, workspace.known) if each not in candidate.findings]
    return replace(candidate, findings=(*candidate.findings, *late)) if late else candidate
