"""Strict: SkillOpt's search gate, cheap and sometimes wrong; it moves a run, never a user's file."""

from __future__ import annotations

from skillopt_mcp.records.evidence import SearchVerdict


def strict(candidate: float, current: float, best: float) -> SearchVerdict:
    """Return accept when the candidate's score is above the current one (a tie is not), accept_best when above both."""
    if candidate > current:
        return "accept_best" if candidate > best else "accept"
    return "reject"
