"""Candidates: edits applied to the live version, or again to a newer one, and whether they were tried before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, cast, get_args

from skillopt_mcp.actions.next_steps import advise_skill, advise_test, bring_back, is_reason_to_promote, was_live
from skillopt_mcp.core import limits
from skillopt_mcp.core.advice import advise_promotion
from skillopt_mcp.core.candidates import GATE, Approval, Candidate, NewCandidate, candidate_id, rolled_back
from skillopt_mcp.core.edits import Applied, Edit, EditReport, Op, Patch
from skillopt_mcp.core.errors import BadInput, Refused
from skillopt_mcp.core.limits import PATCH_EDITS
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import EditOutcome, Proposed
from skillopt_mcp.core.skills import MAIN_FILE, SkillFiles, short
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.documents.diffs import edits_between, first_and_last, unified_diff
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.documents.lint import list_introduced
from skillopt_mcp.gates.guard.capabilities import findings
from skillopt_mcp.gates.guard.evidence import find_copied, keep_findings
from skillopt_mcp.store.decisions import Discarding, Refusals
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.plan import RunPlan
from skillopt_mcp.workspace.answers import fitted, shortened
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import handle, known
from skillopt_mcp.workspace.skills import check_merged

_FIELDS = ("op", "target", "content", "path")
_OPS: tuple[str, ...] = get_args(Op)
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
        made = kept(store, place, new, patch, applied)
        stored.mark_seen(tracked.id)
    result = proposed(tracked.name, base, applied, made)
    result = with_past(store, result, made) if made else result
    diff = first_and_last(result.diff, DIFF_LINES, f"inspect {made.id} shows all" if made else "")
    return fitted(result.model_copy(update={"diff": diff}), "diff")


def _parse_edit(n: int, value: object) -> Edit:
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


def kept(store: Store, place: Place, made: Candidate, patch: Patch, applied: Applied) -> Candidate:
    """Return a candidate as the store has it now, with what became of each edit.

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


def proposed(skill_name: str, base: SkillFiles, applied: Applied, made: Candidate | None) -> Proposed:
    """What became of edits; without a candidate nothing would change."""
    found = made.findings if made else ()
    broken = list_introduced(base, applied.files, skill_name)
    n_bytes = max(EDITS_BYTES // max(1, len(applied.reports)) - ROW_BYTES, 0)  # all fit into one answer
    edits = [
        EditOutcome(
            index=report.index,
            op=report.op,
            path=shortened(report.path, max(n_bytes // 3, len(MAIN_FILE))),
            status=report.status,
            reason=report.reason,
            detail=shortened(report.detail, min(n_bytes, DETAIL_BYTES)),
        )
        for report in applied.reports
    ]
    shown = [shortened(finding, DETAIL_BYTES) for finding in found[:FINDINGS_SHOWN]]
    more = [f"and {len(found) - len(shown)} more: inspect the candidate"] if len(found) > len(shown) else []
    result = Proposed(
        status="no_change" if made is None else "held" if found else "candidate",
        skill=skill_name,
        candidate_id=made.id if made else None,
        diff=unified_diff(base, applied.files, skill_name),
        edits=edits,
        findings=[*shown, *more],
        notes=[f"lint: {shortened(problem, DETAIL_BYTES)}" for problem in broken[:FINDINGS_SHOWN]],
        next_step=_choose_step(skill_name, applied, made),
    )
    return fitted(result, "diff")


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
        step = advise_promotion(made.id, len(made.findings))
    elif store.tests.list_of(made.skill_id, made.base_version, made.version_id):
        why = "it was proposed before, and its test has not decided"
        step = NextStep(action="evaluate_candidate", arguments={"candidate_id": made.id}, why=why)
    again = describe_rolled_back_repeat(store, made)
    if not again and not step:
        # What a promotion test with a real model did not accept.
        ids = store.table(Discarding).list_rejected(made.skill_id, GATE, NEWEST_REJECTED)
        earlier = _find_repeat(store, made, (id for id in ids if id != made.id))
        again = f"it {earlier.what}, which was {NOT_PROVEN}" if earlier else ""
    step = step or result.next_step
    if step and step.action == "evaluate_candidate":
        step = advise_test(store, made, step.why)
    return result.model_copy(update={"status": status, "next_step": step, "repeats": again})


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
        made = kept(store, place, new, patch, applied)
    result = proposed(skill.name, live, applied, made)
    return with_past(store, result, made) if made else result


def edits_of(store: Store, candidate: Candidate) -> tuple[Edit, ...]:
    """Return the edits of a candidate: those it was made by, or where they are not all of it, what differs."""
    base, after = _get_files(store, candidate)
    edits = _list_applied(store, candidate)
    if edits and apply_patch(base, Patch(edits)).files == after:
        return edits
    return edits_between(base, after)


def _list_applied(store: Store, candidate: Candidate) -> tuple[Edit, ...]:
    return tuple(edit for edit, report in store.candidates.list_edits(candidate.id) if report.status == "applied")


def _get_files(store: Store, candidate: Candidate) -> tuple[SkillFiles, SkillFiles]:
    files = store.skills.get_files
    return files(candidate.skill_id, candidate.base_version), files(candidate.skill_id, candidate.version_id)


NOT_PROVEN = "not proven alone; it may be part of a larger edit"
"""Of an edit that a promotion test did not accept: what whoever writes edits learns."""


# Repeating what was rolled back or rejected, on whatever version it is based

MIN_SHARE = 0.5
_MARK = re.compile(r"^(?:[-*+>]|\d+[.)])\s+")
_EMPHASIS = re.compile(r"\*\*|__|`")
_Key = tuple[str, str, str | None, str | None]


class Repeat(NamedTuple):
    """An edit that is made again: the candidate that made it first, and how much of it comes back, in words."""

    earlier: str
    what: str


def repeated(store: Store, candidate: Candidate) -> Repeat | None:
    """Which edit that a person rolled back, and did not put back since, a candidate makes again."""
    changes = store.promotions.list_promotions(candidate.skill_id)
    undone = rolled_back(changes)
    if candidate.version_id in undone:
        return None
    made = (each.candidate_id for each in changes if each.kind == "promote" and each.to_version in undone)
    return _find_repeat(store, candidate, filter(None, made))


def describe_rolled_back_repeat(store: Store, candidate: Candidate) -> str:
    """The notice that a candidate makes an edit again that a person rolled back; else ""."""
    again = repeated(store, candidate)
    return f"it {again.what}, which a person rolled back" if again else ""


def _find_repeat(store: Store, candidate: Candidate, ids: Iterable[str]) -> Repeat | None:
    past = [past_of(_build_change(store, store.candidates.get_candidate(id))) for id in dict.fromkeys(ids)]
    return first_repeat(_build_change(store, candidate), past) if past else None


def _build_change(store: Store, candidate: Candidate) -> Change:
    files = _get_files(store, candidate)
    return Change(candidate.id, (*_list_applied(store, candidate), *edits_between(*files)), *files)


class Lines(NamedTuple):
    """The lines that a change brings into a skill, and those that it takes out, wherever they stand."""

    added: frozenset[str]
    removed: frozenset[str]

    def share(self, edit: Lines) -> float:
        """How much of what an edit brings is brought here, 0 to 1; of one that only takes, 1 if all is taken.

        To replace a line takes it out as well.
        """
        if edit.added:
            return len(edit.added & self.added) / len(edit.added)
        return float(bool(edit.removed) and edit.removed <= self.removed)


class Change(NamedTuple):
    """A candidate as one change: its edits as they were given and as they can be seen, and its files."""

    id: str
    edits: Sequence[Edit]
    before: SkillFiles
    after: SkillFiles

    @property
    def whole(self) -> Lines:
        """Return the lines that it brings and takes; what it only moves is neither."""
        old, new = (
            "\n".join(each.content.decode("utf-8", "replace") for each in files.files)
            for files in (self.before, self.after)
        )
        return _compare_lines(old, new)


class Past(NamedTuple):
    """What came to nothing: the edits of a candidate, and the lines of each; what one only moved is none."""

    id: str
    edits: frozenset[_Key]
    lines: tuple[Lines, ...]


def past_of(change: Change) -> Past:
    """Return a change as others are compared with it."""
    whole = change.whole
    edits, lines = set[_Key](), list[Lines]()
    for edit in change.edits:
        given = _compare_lines(edit.target or "", edit.content or "")
        left = Lines(given.added & whole.added, given.removed & whole.removed)
        lines.append(left)
        # Of a description, or of headings, there are no lines to compare.
        if any(left) or not any(given) or edit.op == "set_description":
            edits.add(_key(edit))
    return Past(change.id, frozenset(edits), tuple(lines))


def first_repeat(change: Change, past: Sequence[Past]) -> Repeat | None:
    """Return the first of the past that a change makes again: an edit of it, or more than half of what one brought."""
    edits, whole = frozenset(map(_key, change.edits)), change.whole
    for earlier in past:
        share, adds = max(((whole.share(edit), bool(edit.added)) for edit in earlier.lines), default=(0.0, False))
        if not edits.isdisjoint(earlier.edits) or (share == 1 and adds):
            return Repeat(earlier.id, f"makes an edit of {earlier.id} again")
        if share == 1:
            return Repeat(earlier.id, f"takes out what {earlier.id} took out")
        if share > MIN_SHARE:
            return Repeat(earlier.id, f"makes most of an edit of {earlier.id} again")
    return None


def _key(edit: Edit) -> _Key:
    return (edit.op, edit.path, edit.target, edit.content)


def _compare_lines(before: str, after: str) -> Lines:
    old, new = _split_lines(before), _split_lines(after)
    return Lines(new - old, old - new)


def _split_lines(text: str) -> frozenset[str]:
    """Return the lines that say something, however they are marked: neither blanks, nor marks, a heading or a fence."""
    return frozenset(filter(None, map(_strip_marks, text.splitlines())))


@lru_cache(maxsize=8192)  # the versions of a skill share most of their lines
def _strip_marks(line: str) -> str:
    """Return a line without its list mark, emphasis and full stop, in small letters; "" where it says nothing."""
    words = " ".join(line.split())
    if words.startswith(("#", "```", "~~~")) or not any(map(str.isalnum, words)):
        return ""
    return _EMPHASIS.sub("", _MARK.sub("", words)).rstrip(" .;:,!").casefold()
