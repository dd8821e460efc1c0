"""Candidates: edits applied to the live version, or again to a newer one, and whether they were tried before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from skillopt_mcp.actions.next_steps import (
    advise_accepted,
    advise_skill,
    advise_test,
    bring_back,
    is_reason_to_promote,
    was_live,
)
from skillopt_mcp.actions.repeats import NOT_PROVEN, describe_rolled_back_repeat, edits_of, find_repeat
from skillopt_mcp.core import limits
from skillopt_mcp.core.advice import advise_rebase
from skillopt_mcp.core.candidates import GATE, Approval, Candidate, NewCandidate, candidate_id
from skillopt_mcp.core.edits import Applied, Edit, EditReport, Op, Patch
from skillopt_mcp.core.errors import BadInput, Refused
from skillopt_mcp.core.limits import PATCH_EDITS
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import EditOutcome, Proposed
from skillopt_mcp.core.skills import MAIN_FILE, Skill, SkillFiles, short
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.documents.diffs import differ_in_white_space_only, unified_diff
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.documents.lint import list_introduced
from skillopt_mcp.gates.guard.capabilities import findings
from skillopt_mcp.gates.guard.evidence import find_copied, keep_findings
from skillopt_mcp.store.decisions import Discarding, Refusals
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.plan import RunPlan
from skillopt_mcp.workspace.answers import fit_answer, shorten
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import handle, known
from skillopt_mcp.workspace.skills import check_merged

_FIELDS = ("op", "target", "content", "path")
EDITS_BYTES = 7_000
ROW_BYTES = 110
DETAIL_BYTES = 250
FINDINGS_SHOWN = 4
DIFF_LINES = 60
NEWEST_SESSIONS = 16
NEWEST_REJECTED = 100

# Proposing


def propose_edits(store: Store, place: Place, skill: str, edits: Sequence[object], reasoning: str = "") -> Proposed:
    """Apply edits to the live version and keep the result as a candidate; the user's file does not change.

    Raises BadInput when the edits are not of the form {op, target?, content?, path?}; an edit that does not fit the
    skill is reported as unmatched instead. Raises Refused where git left a conflict in the skill.
    """
    if not edits:
        raise BadInput("no edit was given: an edit is {op, target?, content?, path?}")
    patch = Patch(tuple(_parse_edit(n, value) for n, value in enumerate(edits)), storable(reasoning))
    size = len(patch.reasoning) + sum(len(f"{edit.target}{edit.content}{edit.path}") for edit in patch.edits)
    if size > limits.TRAJECTORY_CHARACTERS:
        raise BadInput(
            f"the edits have {size:,} characters, {limits.TRAJECTORY_CHARACTERS:,} are allowed: make them smaller"
        )
    tracked = place.skill(skill)
    base = store.skills.get_files(tracked.id, tracked.live_version)
    check_merged(base)
    applied = apply_patch(base, patch)
    made = None
    if applied.files != base:
        version, stored = applied.files.digest, store.trajectories
        # The host that wrote the edits has read the newest sessions, and what tools returned in them.
        newest = (stored.get_trajectory(id) for id in stored.recent_trajectories(tracked.id, NEWEST_SESSIONS))
        repeats = find_copied(list(enumerate(patch.edits)), [found[1] for found in newest if found], base, alone=False)
        new = Candidate(
            id=candidate_id(tracked.id, base.digest, version),
            skill_id=tracked.id,
            base_version=base.digest,
            version_id=version,
            origin="host",
            reasoning=patch.reasoning,
            findings=(*findings(base, applied.files, place.secrets), *repeats),
        )
        made = keep_candidate(store, place, new, patch, applied)
        stored.mark_seen(tracked.id)
    result = describe_edits(tracked.name, base, applied, made)
    result = with_past(store, result, made) if made else result
    lines, n_last = result.diff.splitlines(keepends=True), DIFF_LINES // 3
    if len(lines) > DIFF_LINES:
        rest = f"inspect {made.id} shows all" if made else ""
        note = f"[... {len(lines) - DIFF_LINES} lines left out: {rest} ...]\n"
        lines = [*lines[: DIFF_LINES - n_last], note, *lines[-n_last:]]
    return fit_answer(result.model_copy(update={"diff": "".join(lines)}), "diff")


def _parse_edit(n: int, value: object) -> Edit:
    if not isinstance(value, Mapping):
        raise BadInput(f"edit {n} is not an object {{op, target?, content?, path?}}")
    unknown = sorted(str(key) for key in value if key not in _FIELDS)
    if unknown:
        raise BadInput(f"edit {n} has an unknown field {quoted(unknown[0])}: an edit has {', '.join(_FIELDS)}")
    op = str(value.get("op") or "").strip().lower()[:40]
    texts = {}
    for name in ("target", "content", "path"):
        text = value.get(name)
        if text is not None and not isinstance(text, str):
            raise BadInput(f"edit {n}: {name} must be a text")
        texts[name] = None if text is None else storable(text)
    return Edit(cast(Op, storable(op)), texts["target"], texts["content"], texts["path"] or MAIN_FILE)


def keep_candidate(store: Store, place: Place, made: Candidate, patch: Patch, applied: Applied) -> Candidate:
    """A candidate as the store has it now, with what became of each edit.

    Its files are kept as they are, and so are the edits that make them; secrets are taken out of all other text.
    """
    redactor = place.redactor
    edits = list[tuple[Edit, EditReport]]()
    for edit, report in zip(patch.edits, applied.reports, strict=True):
        if report.status != "applied":
            texts = [edit.target or "", edit.content or "", edit.path, report.detail]
            target, content, path, detail = redactor.texts(texts)
            edit = replace(edit, target=edit.target and target, content=edit.content and content, path=path)
            report = replace(report, path=path, detail=detail)
        edits.append((edit, report))
    made = replace(made, reasoning=redactor.text(made.reasoning))
    stored = store.candidates.add_candidate(NewCandidate(made, applied.files, tuple(edits)))
    place.note_seen(stored)
    return stored


def describe_edits(skill_name: str, base: SkillFiles, applied: Applied, made: Candidate | None) -> Proposed:
    """What became of edits; without a candidate nothing would change."""
    found = made.findings if made else ()
    broken = list_introduced(base, applied.files, skill_name)
    n_bytes = max(EDITS_BYTES // max(1, len(applied.reports)) - ROW_BYTES, 0)  # all fit into one answer
    edits = [
        EditOutcome(
            index=report.index,
            op=report.op,
            path=shorten(report.path, max(n_bytes // 3, len(MAIN_FILE))),
            status=report.status,
            reason=report.reason,
            detail=shorten(report.detail, min(n_bytes, DETAIL_BYTES)),
        )
        for report in applied.reports
    ]
    notes = ["only white space changes"] if differ_in_white_space_only(base, applied.files) else []
    shown = [shorten(finding, DETAIL_BYTES) for finding in found[:FINDINGS_SHOWN]]
    more = [f"and {len(found) - len(shown)} more: inspect the candidate"] if len(found) > len(shown) else []
    result = Proposed(
        status="no_change" if made is None else "held" if found else "candidate",
        skill=skill_name,
        candidate_id=made.id if made else None,
        diff=unified_diff(base, applied.files, skill_name),
        edits=edits,
        findings=[*shown, *more],
        notes=[*notes, *(f"lint: {shorten(problem, DETAIL_BYTES)}" for problem in broken[:FINDINGS_SHOWN])],
        next_step=_choose_step(skill_name, applied, made),
    )
    return fit_answer(result, "diff")


def _choose_step(skill_name: str, applied: Applied, made: Candidate | None) -> NextStep:
    """What to do with what edits led to."""
    n_unmade, n = sum(report.status != "applied" for report in applied.reports), len(applied.reports)
    if made is None:
        why = f"{n_unmade} of {n} edits do not match the file: correct them" if n_unmade else "the file has these edits"
        return NextStep(action="propose_edits", arguments={"skill": skill_name}, why=why)
    was = "was" if n_unmade == 1 else "were"
    why = f"not tested yet; {n_unmade} of {n} edits {was} not made" if n_unmade else "not tested yet"
    why += "; the guard holds it: a person has to promote it" if made.findings else ""
    return NextStep(action="evaluate_candidate", arguments={"candidate_id": made.id}, why=why)


def with_past(store: Store, result: Proposed, made: Candidate) -> Proposed:
    """What edits led to, with what became of their candidate, or of the same edits, before."""
    decision = store.decisions.latest(made.skill_id, GATE, made.base_version, made.version_id)
    verdict = decision.verdict if decision else ""
    step, status = bring_back(store, made), result.status
    propose = {"skill": result.skill}
    if step:
        pass  # a person rolled it back
    elif was_live(store, made):
        why = f"what {made.id} leads to was live before; this brings it back"
        arguments = {"skill": handle(store, store.skills.get_skill(made.skill_id)), "version": short(made.version_id)}
        step = NextStep(action="rollback_skill", arguments=arguments, why=why)
    elif verdict and not is_reason_to_promote(store, made, verdict):
        status, step = "rejected", advise_skill(store, store.skills.get_skill(made.skill_id))
    elif verdict and store.table(Refusals).last_refusal(
        Approval(made.skill_id, "promote", made.base_version, made.version_id)
    ):
        why = f"{made.id} was accepted before, and a person said no to it: ask what they want changed"
        step = NextStep(action="propose_edits", arguments=propose, why=why)
    elif verdict:
        step = advise_accepted(store, made)
    elif store.tests.list_of(made.skill_id, made.base_version, made.version_id):
        why = "it was proposed before, and its test has not decided"
        step = NextStep(action="evaluate_candidate", arguments={"candidate_id": made.id}, why=why)
    again = describe_rolled_back_repeat(store, made)
    if not again and not step:
        # What a promotion test with a real model did not accept.
        ids = store.table(Discarding).list_rejected(made.skill_id, GATE, NEWEST_REJECTED)
        earlier = find_repeat(store, made, (id for id in ids if id != made.id))
        again = f"it {earlier.what}, which was {NOT_PROVEN}" if earlier else ""
    step = step or result.next_step
    if step and step.action == "evaluate_candidate":
        step = advise_test(store, made, step.why)
    return result.model_copy(update={"status": status, "next_step": step, "repeats": again})


def refresh_outcome(store: Store, place: Place, skill: Skill, result: Proposed) -> Proposed:
    """The outcome of a proposal with what to do where its candidate was made for what is not live any more, or was
    tested before.
    """
    if result.candidate_id is None or place.describe_trouble(skill):
        return result
    candidate = store.candidates.get_candidate(result.candidate_id)
    live = store.skills.get_skill(skill.id).live_version
    if live == candidate.version_id:
        return result
    if live != candidate.base_version:
        return result.model_copy(update={"next_step": advise_rebase(candidate.id)})
    return with_past(store, result, candidate)


def store_best(store: Store, plan: RunPlan, files: SkillFiles, score: float) -> Candidate:
    """The best version of a document of a run as a candidate, with its score on val and what the guard finds in it."""
    # The candidates of the accepted steps that led to this version, oldest first.
    accepted, version = list[Candidate](), files.digest
    for step in reversed(store.runs.list_steps(plan.run_id)):
        if step.candidate_id and step.candidate_version == version and step.verdict in ("accept", "accept_best"):
            accepted.insert(0, store.candidates.get_candidate(step.candidate_id))
            version = step.parent_version
    held = [finding for each in accepted for finding in keep_findings(each.findings)]
    best = f"best version of {plan.run_id}, {score:.2f} on val"
    made = Candidate(
        id=candidate_id(plan.skill_id, plan.base.digest, files.digest),
        skill_id=plan.skill_id,
        base_version=plan.base.digest,
        version_id=files.digest,
        origin="run",
        reasoning="; ".join([*(each.reasoning for each in accepted), best]),
        findings=(*findings(plan.base, files, plan.known), *dict.fromkeys(held)),
        run_id=plan.run_id,
    )
    return store.candidates.add_candidate(NewCandidate(made, files))


# Rebasing


def rebase_candidate(store: Store, place: Place, id: str) -> Proposed:
    """Return the candidate that the same edits make of what is live now, with what became of each of them.

    It carries where the edits come from and what the guard said of their evidence, and none of the old one's evidence.
    Raises NotFound, and Refused when the live file is the one that the candidate was made for, or the candidate itself,
    edited or not, and when it has an unsettled conflict.
    """
    old = store.candidates.get_candidate(known(id))
    skill = place.again(store.skills.get_skill(old.skill_id))
    if skill.live_version == old.base_version:
        raise Refused(f"'{id}' is made for what is live of '{skill.name}': nothing has to be rebased")
    if skill.live_version == old.version_id:
        raise Refused(f"'{id}' is what is live of '{skill.name}' already")
    if any(change.to_version == old.version_id for change in store.promotions.list_promotions(skill.id)[:1]):
        raise Refused(f"'{id}' was promoted, and '{skill.name}' was edited on top of it: it is in what is live already")
    live = store.skills.get_files(skill.id, skill.live_version)
    check_merged(live)
    edits = edits_of(store, old)
    if not edits or len(edits) > PATCH_EDITS:
        raise Refused(f"{quoted(old.id)} changes too much to be rebased edit by edit; propose it again")
    patch = Patch(edits, f"{old.id}, rebased onto {short(skill.live_version)}: {old.reasoning}")
    applied = apply_patch(live, patch)
    made = None
    if applied.files != live:
        new = Candidate(
            id=candidate_id(skill.id, live.digest, applied.files.digest),
            skill_id=skill.id,
            base_version=live.digest,
            version_id=applied.files.digest,
            origin="run" if old.origin == "step" else old.origin,
            reasoning=patch.reasoning,
            findings=(*findings(live, applied.files, place.secrets), *keep_findings(old.findings)),
            run_id=old.run_id,
        )
        made = keep_candidate(store, place, new, patch, applied)
    result = describe_edits(skill.name, live, applied, made)
    return with_past(store, result, made) if made else result
