"""Proposing: edits that the host gives become a candidate, with a report on each edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast, get_args

from skillopt_mcp import limits
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.documents.diffs import first_and_last, unified_diff
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.documents.lint import introduced
from skillopt_mcp.errors import BadInput
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.guard.support import copied
from skillopt_mcp.operations.candidates.tested import with_past
from skillopt_mcp.operations.paging import fitted, shortened
from skillopt_mcp.operations.results import EditOutcome, Proposed
from skillopt_mcp.operations.skills.merging import check_merged
from skillopt_mcp.operations.skills.resembling import told_likeness
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import storable
from skillopt_mcp.records.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.records.edits import Applied, Edit, EditReport, Op, Patch
from skillopt_mcp.records.skills import MAIN_FILE, SkillFiles
from skillopt_mcp.redaction.redacting import Redactor

_FIELDS = ("op", "target", "content", "path")
_OPS: tuple[str, ...] = get_args(Op)
EDITS_BYTES = 7_000
ROW_BYTES = 110
DETAIL_BYTES = 250
FINDINGS_SHOWN = 4
LOOKED_BACK = 16
DIFF_LINES = 60
UNMADE_SHOWN = 3


def propose_edits(workspace: Workspace, skill: str, edits: Sequence[object], reasoning: str = "") -> Proposed:
    """Apply edits to the live version and keep the result as a candidate; the user's file does not change.

    Raises BadInput when the edits are not of the form {op, target?, content?, path?}; an edit that does not fit the
    skill is reported as unmatched instead. Raises Refused where git left a conflict in the skill.
    """
    if not edits:
        raise BadInput("no edit was given: an edit is {op, target?, content?, path?}")
    patch = Patch(tuple(_edit(n, value) for n, value in enumerate(edits)), storable(reasoning))
    _check_size(patch)
    tracked = workspace.skill(skill)
    base = workspace.store.skills.get_files(tracked.id, tracked.live_version)
    check_merged(base)
    applied = apply_patch(base, patch)
    made = None
    if applied.files != base:
        version = applied.files.digest
        new = Candidate(
            id=candidate_id(tracked.id, base.digest, version),
            skill_id=tracked.id,
            base_version=base.digest,
            version_id=version,
            origin="host",
            reasoning=patch.reasoning,
            findings=(*findings(base, applied.files, workspace.known), *_copied(workspace, tracked.id, patch, base)),
        )
        made = kept(workspace, new, patch, applied)
        workspace.store.trajectories.mark_seen(tracked.id)
    result = proposed(tracked.name, base, applied, made)
    result = with_past(workspace.store, result, made, step_of(made, made.findings)) if made else result
    likeness = told_likeness(workspace, tracked.path)
    step = f"First, {likeness}. {result.next_step}" if likeness else result.next_step
    diff = first_and_last(result.diff, DIFF_LINES, f"inspect {made.id} shows all" if made else "")
    return fitted(result.model_copy(update={"next_step": step, "diff": diff}), "diff")


def _copied(workspace: Workspace, skill_id: int, patch: Patch, base: SkillFiles) -> tuple[str, ...]:
    """Return which edits repeat what a tool returned in the newest sessions: the host that wrote them has read it."""
    stored = workspace.store.trajectories
    newest = (stored.find_sound(id) for id in stored.recent_trajectories(skill_id, LOOKED_BACK))
    return copied(list(enumerate(patch.edits)), [found[1] for found in newest if found], base, alone=False)


def kept(workspace: Workspace, made: Candidate, patch: Patch, applied: Applied) -> Candidate:
    """Return a candidate as the store has it now, with what became of each edit.

    Its files are kept as they are, and so are the edits that make them; all else that is said of it has no secret.
    """
    redactor = workspace.redactor
    told = zip(patch.edits, applied.reports, strict=True)
    edits = tuple(each if each[1].status == "applied" else _plain(redactor, *each) for each in told)
    plain = replace(made, reasoning=redactor.text(made.reasoning))
    return workspace.store.candidates.add_candidate(NewCandidate(plain, applied.files, edits))


def _plain(redactor: Redactor, edit: Edit, report: EditReport) -> tuple[Edit, EditReport]:
    """Return an edit that did not apply without secrets."""
    target, content, path, detail = redactor.texts([edit.target or "", edit.content or "", edit.path, report.detail])
    told = replace(edit, target=edit.target and target, content=edit.content and content, path=path)
    return told, replace(report, path=path, detail=detail)


def proposed(skill_name: str, base: SkillFiles, applied: Applied, made: Candidate | None) -> Proposed:
    """Return what became of edits; without a candidate nothing would change."""
    found = made.findings if made else ()
    broken = introduced(base, applied.files, skill_name)
    result = Proposed(
        status="no_change" if made is None else "held" if found else "candidate",
        skill=skill_name,
        candidate_id=made.id if made else None,
        diff=unified_diff(base, applied.files, skill_name),
        edits=[_outcome(report, EDITS_BYTES // len(applied.reports)) for report in applied.reports],
        findings=_shown(found),
        notes=[f"lint: {shortened(problem, DETAIL_BYTES)}" for problem in broken[:FINDINGS_SHOWN]],
        next_step=f"{_unmade(applied) if made else ''}{step_of(made, found)}",
    )
    return fitted(result, "diff")


def _unmade(applied: Applied) -> str:
    """Return how many edits were not made beside others that were, and why; "" where all were."""
    unmade = [report for report in applied.reports if report.status != "applied"]
    if not unmade:
        return ""
    shown = "; ".join(f"edits.{each.index}: {shortened(each.detail, DETAIL_BYTES)}" for each in unmade[:UNMADE_SHOWN])
    more = f"; and {len(unmade) - UNMADE_SHOWN} more" if len(unmade) > UNMADE_SHOWN else ""
    was = "was" if len(unmade) == 1 else "were"
    n = counted(len(applied.reports), "edit")
    return (
        f"{len(unmade)} of {n} {was} NOT made ({shown}{more}): correct and propose all of them again, or go on with "
        "what is left. "
    )


def step_of(made: Candidate | None, found: tuple[str, ...]) -> str:
    if made is None:
        return "Nothing would change. Correct the unmatched edits as their details say and propose again."
    if found:
        return (
            "The guard holds this candidate: a person has to look at the findings. It may be evaluated, and a person "
            f"may promote it at a terminal with: skillopt-mcp promote {made.id}"
        )
    return f"Call evaluate_candidate with candidate_id {made.id}; the file changes only after an accepting verdict."


def _check_size(patch: Patch) -> None:
    size = len(patch.reasoning) + sum(len(f"{edit.target}{edit.content}{edit.path}") for edit in patch.edits)
    if size > limits.TRAJECTORY_CHARACTERS:
        raise BadInput(
            f"the edits have {size:,} characters, {limits.TRAJECTORY_CHARACTERS:,} are allowed: make them smaller"
        )


def _outcome(report: EditReport, n_bytes: int) -> EditOutcome:
    """Return the report in about `n_bytes` of JSON."""
    room = max(n_bytes - ROW_BYTES, 0)
    return EditOutcome(
        index=report.index,
        op=report.op,
        path=shortened(report.path, max(room // 3, len(MAIN_FILE))),
        status=report.status,
        reason=report.reason,
        detail=shortened(report.detail, min(room, DETAIL_BYTES)),
    )


def _shown(found: tuple[str, ...]) -> list[str]:
    """Return as many findings as there is room for, and how many more there are."""
    some = found[:FINDINGS_SHOWN]
    more = [f"and {len(found) - len(some)} more: inspect the candidate"] if len(found) > len(some) else []
    return [*(shortened(finding, DETAIL_BYTES) for finding in some), *more]


def _edit(n: int, value: object) -> Edit:
    if not isinstance(value, Mapping):
        raise BadInput(f"edit {n} is not an object {{op, target?, content?, path?}}")
    unknown = sorted(str(key) for key in value if key not in _FIELDS)
    if unknown:
        raise BadInput(f"edit {n} has an unknown field {quoted(unknown[0])}: an edit has {', '.join(_FIELDS)}")
    op = value.get("op")
    if op not in _OPS:
        raise BadInput(f"edit {n} has an unknown op {quoted(str(op))}: use one of {', '.join(_OPS)}")
    texts = {}
    for name in ("target", "content", "path"):
        text = value.get(name)
        if text is not None and not isinstance(text, str):
            raise BadInput(f"edit {n}: {name} must be a text")
        texts[name] = None if text is None else storable(text)
    return Edit(cast(Op, op), texts["target"], texts["content"], texts["path"] or MAIN_FILE)
