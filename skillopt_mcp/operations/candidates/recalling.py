"""Recalling: how a candidate comes back that a person rolled back: no test and no tool brings it, only a person."""

from __future__ import annotations

from skillopt_mcp.operations.finding import called
from skillopt_mcp.records.candidates import Candidate, rolled_back
from skillopt_mcp.records.skills import short
from skillopt_mcp.store.opening import Store


def told_rolled_back(store: Store, candidate: Candidate) -> str:
    """Return that a person rolled a candidate back, and how a person has it again; "" for any other candidate."""
    if candidate.version_id not in rolled_back(store.promotions.list_promotions(candidate.skill_id)):
        return ""
    named = f"{called(store, store.skills.get_skill(candidate.skill_id))} {short(candidate.version_id)}"
    return f"It was live, and a person rolled it back. To have it back, a person runs: skillopt-mcp rollback {named}"
