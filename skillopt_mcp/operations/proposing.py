"""Proposing: edits that the host gives become a candidate, with a report on each edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast, get_args

from skillopt_mcp import limits
from skillopt_mcp.documents.diffs import truncate_middle, unified_diff
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.errors import BadInput
from skillopt_mcp.guard import findings
from skillopt_mcp.operations.results import EditOutcome, Proposed
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.records.edits import Applied, Edit, Op, Patch
from skillopt_mcp.records.skills import MAIN_FILE, SkillFiles

_FIELDS = ("op", "target", "content", "path")
_OPS: tuple[str, ...] = get_args(Op)


def propose_edits(workspace: Workspace, skill: str, edits: Sequence[object], reasoning: str = "") -> Proposed:
    """Apply edits to the live version and keep the result as a candidate; the user's file does not change.

    Raises BadInput when the edits are not of the form {op, target?, content?, path?}; an edit that does not fit the
    skill is reported as unmatched instead.
    """
    if not edits:
        raise BadInput("no edit was given: an edit is {op, target?, content?, path?}")
    patch = Patch(tuple(_edit(n, value) for n, value in enumerate(edits)), _clean(reasoning))
    tracked = workspace.skill(skill)
    base = workspace.store.skills.get_files(tracked.id, tracked.live_version)
    applied = apply_patch(base, patch)
    found = findings(base, applied.files)
    made = None
    if applied.files != base:
        made = _kept(workspace, tracked.id, base, patch, applied, found)
        workspace.store.tasks.mark_seen(tracked.id)
    return Proposed(
        status="no_change" if made is None else "held" if found else "candidate",
        skill=tracked.name,
        candidate_id=made.id if made else None,
        diff=truncate_middle(unified_diff(base, applied.files, tracked.name), limits.RESULT_CHARACTERS),
        edits=[_outcome(patch, applied, n) for n in range(len(patch.edits))][: limits.REJECTED_SHOWN],
        findings=[truncate_middle(finding, 300) for finding in found[: limits.REJECTED_SHOWN]],
        next_step=_next_step(made, found),
    )


def _kept(
    workspace: Workspace, skill_id: int, base: SkillFiles, patch: Patch, applied: Applied, found: tuple[str, ...]
) -> Candidate:
    version = applied.files.digest
    made = Candidate(
        candidate_id(skill_id, base.digest, version), skill_id, base.digest, version, "host", patch.reasoning, found
    )
    edits = tuple(zip(patch.edits, applied.reports, strict=True))
    return workspace.store.candidates.add_candidate(NewCandidate(made, applied.files, edits))


def _next_step(made: Candidate | None, found: tuple[str, ...]) -> str:
    if made is None:
        return "Nothing would change. Correct the unmatched edits as their details say and propose again."
    if found:
        return (
            "The guard holds this candidate: a person has to look at the findings. It may be evaluated, and a person "
            f"may promote it at a terminal with: skillopt-mcp promote {made.id}"
        )
    return f"Call evaluate_candidate with candidate_id {made.id}; the file changes only after an accepting verdict."


def _outcome(patch: Patch, applied: Applied, n: int) -> EditOutcome:
    report = applied.reports[n]
    detail = truncate_middle(report.detail, 300)
    return EditOutcome(
        index=report.index,
        op=patch.edits[n].op,
        path=report.path,
        status=report.status,
        reason=report.reason,
        detail=detail,
    )


def _edit(n: int, value: object) -> Edit:
    if not isinstance(value, Mapping):
        raise BadInput(f"edit {n} is not an object {{op, target?, content?, path?}}")
    unknown = sorted(str(key) for key in value if key not in _FIELDS)
    if unknown:
        raise BadInput(f"edit {n} has an unknown field '{unknown[0]}': an edit has {', '.join(_FIELDS)}")
    op = value.get("op")
    if op not in _OPS:
        raise BadInput(f"edit {n} has an unknown op '{op}': use one of {', '.join(_OPS)}")
    texts = {}
    for name in ("target", "content", "path"):
        text = value.get(name)
        if text is not None and not isinstance(text, str):
            raise BadInput(f"edit {n}: {name} must be a text")
        texts[name] = None if text is None else _clean(text)
    return Edit(cast(Op, op), texts["target"], texts["content"], texts["path"] or MAIN_FILE)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
