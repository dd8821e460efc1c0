"""Outcomes: how what a proposal has come to is told, with what became of its candidate meanwhile."""

from __future__ import annotations

import json
from collections.abc import Sequence

from skillopt_mcp.operations.candidates.proposing import step_of
from skillopt_mcp.operations.candidates.tested import with_past
from skillopt_mcp.operations.host_work.going_on import told_stale
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.results import Proposed
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.edits import Edit
from skillopt_mcp.records.skills import Skill

EDIT_BYTES = 600


def as_it_stands(workspace: Workspace, skill: Skill, result: Proposed) -> Proposed:
    """Return the outcome of a proposal with what to do where its candidate was made for what is not live any more, or
    was tested before.
    """
    if result.candidate_id is None or workspace.trouble(skill):
        return result
    candidate = workspace.store.candidates.get_candidate(result.candidate_id)
    live = workspace.store.skills.get_skill(skill.id).live_version
    if live == candidate.version_id:
        return result
    if live != candidate.base_version:
        return result.model_copy(update={"next_step": f"{told_stale(candidate)}."})
    return with_past(workspace.store, result, candidate, step_of(candidate, candidate.findings))


def unmade(edits: Sequence[Edit], result: Proposed) -> list[str]:
    """Return the edits of a proposal that came to nothing, each as it can be corrected and given again."""
    if result.candidate_id:
        return []
    return [
        f"edits.{n}: {shortened(json.dumps(_given(edit), ensure_ascii=False), EDIT_BYTES)}"
        for n, edit in enumerate(edits)
    ]


def _given(edit: Edit) -> dict[str, str]:
    fields = {"op": edit.op, "target": edit.target, "content": edit.content, "path": edit.path}
    return {name: value for name, value in fields.items() if value is not None}
