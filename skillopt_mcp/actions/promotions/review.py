"""Review: a change and its evidence, as a person sees them before they agree, at a terminal or in a dialog."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard
from unicodedata import east_asian_width

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.actions.next_steps import find_apart, is_reason_to_promote
from skillopt_mcp.actions.promotions.consent import Check, NeedsPerson, describe_earlier_answer
from skillopt_mcp.actions.promotions.promoting import (
    check_promotion,
    check_rollback,
    get_guarded,
    is_edited,
    rollback_target,
)
from skillopt_mcp.actions.repeats import describe_rolled_back_repeat, find_rolled_back_repeat
from skillopt_mcp.core.candidates import GATE, Approval, Candidate, Consent, find_rolled_back
from skillopt_mcp.core.evidence import EvidenceKind, TestReport
from skillopt_mcp.core.skills import short
from skillopt_mcp.core.text import counted, escaped, quoted
from skillopt_mcp.documents.diffs import list_changed_lines, unified_diff
from skillopt_mcp.documents.lint import list_introduced
from skillopt_mcp.gates.verdicts import changed_tasks, describe, label
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.promotion_test import stored_test
from skillopt_mcp.workspace.evidence import kind_of_test
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import handle
from skillopt_mcp.workspace.verdicts import report_of, unit_rows


class Review(BaseModel):
    """A change under review: its diff (hidden characters shown), its promotion test, and the guard's findings.

    `handle` names the skill in commands; `why` is what failed and `changes` how much it changes; `better` and `worse`
    are tasks of its `test`. It is `proven` where the test is a reason to promote it. `broken` are rules of the Agent
    Skills specification that the new version breaks and the old one did not. A rollback may be `over_edit`: it replaces
    an edit made since the last change. `repeats` says that the change brings again what a person rolled back. With
    `same_session` its author made attempts of the test. `not_looked_at` says of how many of its tasks no person has.
    """

    model_config = ConfigDict(frozen=True)
    skill: str
    skill_path: str
    handle: str
    from_version: str
    to_version: str
    diff: str
    test: TestReport | None = None
    proven: bool = False
    better: list[str] = []
    worse: list[str] = []
    evidence: EvidenceKind = "own"
    same_session: bool = False
    why: str = ""
    changes: str = ""
    findings: tuple[str, ...] = ()
    simulated: bool = False
    broken: tuple[str, ...] = ()
    over_edit: bool = False
    repeats: str = ""
    not_looked_at: str = ""


def review_candidate(store: Store, place: Place, candidate_id: str) -> Review:
    """Return the review of a candidate. Raises NotFound."""
    candidate = get_guarded(store, place.secrets, candidate_id)
    skill = store.skills.get_skill(candidate.skill_id)
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    row = store.tests.find(decision.scope) if decision else None
    test = stored_test(store, row) if row else None
    units = unit_rows(store, test) if test else []
    n_unseen = sum(not task.looked_at for task in test.tasks) if test else 0
    kind = kind_of_test(store, row.id, row.backend) if row else "own"
    base = store.skills.get_files(skill.id, candidate.base_version)
    new = store.skills.get_files(skill.id, candidate.version_id)
    paths = [file.path for file in (*base.files, *new.files) if base.get(file.path) != new.get(file.path)]
    lines = [line for file in list_changed_lines(base, new) for line in file]
    n_added, n_removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return Review(
        skill=skill.name,
        skill_path=skill.path,
        handle=handle(store, skill),
        from_version=candidate.base_version,
        to_version=candidate.version_id,
        diff=unified_diff(base, new, skill.name),
        test=report_of(store, test) if test else None,
        proven=decision is not None
        and is_reason_to_promote(store, candidate, decision.verdict)
        and not find_apart(store, candidate, place),
        better=changed_tasks(units, "better"),
        worse=changed_tasks(units, "worse"),
        evidence=kind,
        same_session=row is not None
        and kind == "host"
        and store.candidates.is_answered_by_author(candidate.id, row.id),
        why="" if candidate.origin == "person" else candidate.reasoning.removeprefix("failed: "),
        changes=f"+{n_added} -{n_removed} lines in {', '.join(dict.fromkeys(paths))}",
        findings=candidate.findings,
        simulated=kind == "simulated",
        broken=list_introduced(base, new, skill.name),
        repeats="it was live, and a person rolled it back"
        if _was_rolled_back(store, candidate)
        else describe_rolled_back_repeat(store, candidate),
        not_looked_at=f"TASKS NOT LOOKED AT: {n_unseen} of {len(test.tasks)}" if test and n_unseen else "",
    )


def review_rollback(store: Store, place: Place, skill: str, version: str | None = None) -> Review:
    """Return the review of a rollback to a version, or to the one before the last change. Raises NotFound, BadInput."""
    tracked = place.find_recorded(skill)
    target = rollback_target(store, tracked, version)
    live, old = (store.skills.get_files(tracked.id, each) for each in (tracked.live_version, target))
    return Review(
        skill=tracked.name,
        skill_path=tracked.path,
        handle=handle(store, tracked),
        from_version=tracked.live_version,
        to_version=target,
        diff=unified_diff(live, old, tracked.name),
        over_edit=is_edited(store, tracked),
    )


def _was_rolled_back(store: Store, candidate: Candidate) -> bool:
    return candidate.version_id in find_rolled_back(store.promotions.list_promotions(candidate.skill_id))


# Claude Code shows three rows of a question, and cuts each at its window's width; others show what their window holds,
# and cut the rest without a sign. So the first rows say all that matters, and a change that would overflow a common
# window has to be looked at in a terminal.
FIRST_ROWS, DIALOG_ROWS, COLUMNS = 3, 40, 72
NAMED_TASKS = 5
_UNDONE = "a person rolled this back"


@dataclass(frozen=True, slots=True)
class ConsentQuestion:
    """What a host may ask a person, the change in full, and the approval that a yes to it is."""

    text: str
    approval: Approval


def question_of_promotion(store: Store, place: Place, candidate_id: str, consent: Consent) -> ConsentQuestion | None:
    """What to ask about a promotion; None when no person is to be asked, or not in a dialog."""
    check = check_promotion(store, place, candidate_id, consent)
    if not _may_be_asked(check):
        return None
    review, candidate = review_candidate(store, place, candidate_id), get_guarded(store, place.secrets, candidate_id)
    mind = []
    if _was_rolled_back(store, candidate):
        mind.append(_UNDONE)
    elif earlier := find_rolled_back_repeat(store, candidate):
        mind.append(f"repeats {earlier.earlier}, rolled back")
    if review.same_session:
        mind.append("the session that knew the edit made the attempts")
    if not review.proven:
        mind.append("NO GAIN IS PROVEN, and it stays labelled unproven")
    return _question(store, check.approval, review, f"show {candidate_id}", mind)


def question_of_rollback(
    store: Store, place: Place, skill: str, version: str | None, consent: Consent
) -> ConsentQuestion | None:
    """What to ask about a rollback; None when no person is to be asked, or not in a dialog."""
    check = check_rollback(store, place, skill, version, consent)
    if not _may_be_asked(check):
        return None
    review = review_rollback(store, place, skill, version)
    look = f"diff {shlex.quote(review.handle)} {short(review.from_version)} {short(review.to_version)}"
    return _question(store, check.approval, review, look)


def _may_be_asked(check: Check) -> TypeGuard[NeedsPerson]:
    return isinstance(check, NeedsPerson) and check.answer.status == "needs_approval"


def _question(
    store: Store, approval: Approval, review: Review, look: str, mind: Sequence[str] = ()
) -> ConsentQuestion | None:
    """What to ask about a change, which the command `look` shows in full; None: a dialog cannot hold it."""
    what = "this" if approval.kind == "promote" else "an earlier version"
    versions = f"{short(review.from_version)} -> {short(review.to_version)}"
    rows = [f"Write {what} over {quoted(review.skill_path, 300)}? ({versions})"]
    rest, figures, named = ["", *review.diff.splitlines()], list[str](), list[str]()
    if report := review.test:
        verdict = f"{label(report)}{' (SIMULATION)' if review.simulated else ''}"
        units = report.units
        counts = f"{units.better} tasks better, {units.worse} worse, {units.same} same"
        rows += [f"Verdict: {verdict}. {counts} ({review.evidence} evidence)."]
        figures = ["", *describe(report)]
        named = [*_named("Worse", review.worse), *_named("Better", review.better)]
    elif approval.kind == "promote":
        rows += ["Verdict: none, it was not tested."]
    if review.why:
        rest += ["", f"What failed: {escaped(review.why)}"]
    if review.repeats and _UNDONE not in mind:
        rest += [f"Mind that {review.repeats}."]
    seen_first = [*describe_earlier_answer(store, approval), *mind]
    minded = [f"MIND: {'; '.join(seen_first)}"] if seen_first else []
    rows += ["; ".join(third)] if (third := [*filter(None, [review.not_looked_at]), *minded]) else []
    if review.simulated:
        rest += ["This rests on a SIMULATION, which says nothing about a real model."]
    # The changed lines where the first rows hold them all, else how many there are and where to read them.
    versions_of = (store.skills.get_files(approval.skill_id, id) for id in (approval.from_version, approval.to_version))
    files, n_rows = list_changed_lines(*versions_of), FIRST_ROWS - len(rows)
    lines = [line for changed in files for line in changed]
    if not (0 < len(lines) <= n_rows and all(_width(line) <= COLUMNS and "\n" not in line for line in lines)):
        change = f"change{'s' if len(lines) == 1 else ''} in {counted(len(files), 'file')}"
        pointer = [f"{counted(len(lines), 'line')} {change}. See all:", f"skillopt-mcp {look}"]
        lines = pointer if n_rows >= len(pointer) else [" ".join(pointer)]
    rows += [*lines, *rest]
    # The change has to fit; what is beyond the verdict in the first rows need not.
    for shown in ([*rows, *figures, *named], [*rows, *figures], rows):
        if sum(-(-_width(row) // COLUMNS) or 1 for row in shown) <= DIALOG_ROWS:
            return ConsentQuestion("\n".join(shown), approval)
    return None


def _named(what: str, tasks: Sequence[str]) -> list[str]:
    """Return a row that names the first of these tasks; none without one."""
    shown = [*tasks[:NAMED_TASKS], *([f"{len(tasks) - NAMED_TASKS} more"] if len(tasks) > NAMED_TASKS else [])]
    return [f"{what}: {escaped(', '.join(shown))}."] if tasks else []


def _width(line: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in line)
