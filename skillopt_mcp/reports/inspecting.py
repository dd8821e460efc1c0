"""Inspecting: what a name means, and what the store holds of a candidate and of a promotion test."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from skillopt_mcp.actions.next_steps import is_reason_to_promote, verdict_for_agents
from skillopt_mcp.actions.promotions.promoting import next_step
from skillopt_mcp.core.candidates import GATE, Candidate, Consent, Decision, Promotion, candidate_id, find_rolled_back
from skillopt_mcp.core.edits import UNSHOWN, Edit
from skillopt_mcp.core.errors import NotFound
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import EditOutcome
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.skills import Skill, SkillRow, short
from skillopt_mcp.core.text import counted, quoted, shown
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.documents.lint import list_introduced
from skillopt_mcp.reports.details import (
    ApprovalRow,
    CandidateDetail,
    CandidateRow,
    CandidateStanding,
    Detail,
    PromotionTest,
)
from skillopt_mcp.reports.run_report import RunFacts
from skillopt_mcp.store.decisions import Refusals
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.promotion_tests import TestRow
from skillopt_mcp.training.promotion_test import stored_test
from skillopt_mcp.workspace.evidence import kind_of_test
from skillopt_mcp.workspace.leases import describe_leases
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import known
from skillopt_mcp.workspace.verdicts import report_of, unit_rows

SHOWN = 20

Step = NextStep | None


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing of the store: all text on it (hidden characters shown), its fields, and how to get its next step."""

    id: str
    kind: str
    text: str
    detail: Detail | None
    next_step: Callable[[Consent], Step]
    facts: SkillRow | RunFacts | None = None


Meant = tuple[Skill, Candidate | None, TestRow | None, Run | None]


def find_meant(store: Store, place: Place, name: str) -> Meant:
    """What a name means, and what belongs to it. Raises NotFound."""
    if not store.is_made:
        raise NotFound(f"there is no store at '{store.path}' yet, and so no {quoted(name)}")
    name = known(name)
    candidate: Candidate | None = None
    row: TestRow | None = None
    run: Run | None = None
    if re.fullmatch("t-[0-9a-f]{12}", name):
        row = store.tests.find(name)
        if row is None:
            raise NotFound(f"no promotion test {quoted(name)}; of a candidate, name that: c-...")
        skill = store.skills.get_skill(row.skill_id)
    elif re.fullmatch("c-[0-9a-f]{12}", name):
        candidate = store.candidates.get_candidate(name)
        skill = store.skills.get_skill(candidate.skill_id)
    elif re.fullmatch("r-[0-9a-f]{12}", name):
        run = store.runs.get_run(name)
        skill = store.skills.get_skill(run.skill_id)
    else:
        skill = place.find_kept(name)
        tests = [(each.created_at, each.id) for each in store.tests.list_of_skill(skill.id)]
        runs = [(at, each.id) for each, at in store.runs.list_started(skill.id)]
        if tests or runs:
            return find_meant(store, place, max([*tests[-1:], *runs[-1:]])[1])
        proposed = store.candidates.list_candidates(skill.id)
        return skill, proposed[-1] if proposed else None, None, None
    of_skill = store.candidates.list_candidates(skill.id, steps=True)
    if run:
        made = [each for each in of_skill if each.run_id == run.id and each.origin != "step"]
        candidate = made[-1] if made else None
        found = [store.tests.find(each) for each in store.runs.list_finishes(run.id)]
        row = next((each for each in reversed(found) if each and each.skill_id == skill.id), None)
    if row and candidate is None:
        arms = (row.base_version, row.version_id)
        candidate = next((each for each in reversed(of_skill) if (each.base_version, each.version_id) == arms), None)
    if candidate and not row:
        tests_of = store.tests.list_of(skill.id, candidate.base_version, candidate.version_id)
        decision = latest_decision(store, candidate)
        row = (store.tests.find(decision.scope) if decision else None) or next(iter(tests_of), None)
    if candidate and candidate.run_id and not run:
        run = store.runs.get_run(candidate.run_id)
    return skill, candidate, row, run


def list_approvals(store: Store, skill_id: int) -> list[ApprovalRow]:
    """The unused approvals, the oldest first, those of one candidate, or of one version to roll back to, together."""
    found: dict[str, list[ApprovalRow]] = {}
    for each in store.approvals.list_unused(skill_id):
        made = candidate_id(skill_id, each.from_version, each.to_version)
        id = made if each.kind == "promote" else short(each.to_version)
        found.setdefault(id, []).append(ApprovalRow(id=id, kind=each.kind, login=each.login, at=each.at))
    return [row for rows in found.values() for row in rows]


def describe_approvals(approvals: Sequence[ApprovalRow]) -> list[str]:
    return [
        f"approved, not used yet: {each.id if each.kind == 'promote' else f'a rollback to {each.id}'}, in a dialog"
        f"{f' ({each.login})' if each.login else ''}, {each.at}"
        for each in approvals
    ]


def latest_decision(store: Store, candidate: Candidate) -> Decision | None:
    versions = (candidate.base_version, candidate.version_id)
    return store.decisions.latest(candidate.skill_id, GATE, *versions)


def visible_verdict(store: Store, place: Place, candidate: Candidate | None, verdict: str | None) -> str | None:
    """A verdict as whoever looks may know it."""
    return verdict_for_agents(store, candidate, verdict) if place.is_agents else verdict


def candidate_row(
    store: Store, place: Place, skill: Skill, candidate: Candidate, changes: Sequence[Promotion]
) -> CandidateRow:
    decision = latest_decision(store, candidate)
    verdict = decision.verdict if decision else None
    standing: CandidateStanding = "open"
    if candidate.version_id == skill.live_version:
        standing = "live"
    elif candidate.version_id in find_rolled_back(changes):
        standing = "rolled_back"
    elif any(each.to_version == candidate.version_id for each in changes):
        standing = "was_live"
    elif candidate.origin == "step":
        standing = "step"
    elif candidate.base_version != skill.live_version:
        standing = "stale"
    elif verdict and not is_reason_to_promote(store, candidate, verdict):
        standing = "rejected"
    return CandidateRow(
        id=candidate.id,
        standing=standing,
        verdict=visible_verdict(store, place, candidate, verdict),
        held=bool(candidate.findings),
        base=short(candidate.base_version),
        version=short(candidate.version_id),
    )


# A candidate


def look_at_candidate(store: Store, place: Place, id: str) -> Thing:
    candidate = store.candidates.get_candidate(id)
    skill = store.skills.get_skill(candidate.skill_id)
    place.describe_trouble(skill)  # a person may have changed its files meanwhile
    skill = store.skills.get_skill(skill.id)
    decision = latest_decision(store, candidate)
    place.note_seen(candidate)
    row = candidate_row(store, place, skill, candidate, store.promotions.list_promotions(skill.id))
    tests = store.tests.list_of(skill.id, candidate.base_version, candidate.version_id)
    edits = store.candidates.list_edits(id)
    approvals = [each for each in list_approvals(store, skill.id) if each.id == id]
    detail = CandidateDetail(
        **row.model_dump(),
        skill=skill.name,
        origin=candidate.origin,
        run_id=candidate.run_id,
        reason="" if place.is_agents or not decision else decision.reason,
        approved=bool(approvals),
        declined=[
            f"{each.by}, {each.at}"
            for each in store.table(Refusals).list_refusals(skill.id)
            if each[:3] == ("promote", candidate.base_version, candidate.version_id)
        ],
        findings=list(candidate.findings),
        tests=[test.id for test in tests],
        edits=[EditOutcome(**asdict(report)) for _, report in edits],
    )
    base = store.skills.get_files(skill.id, candidate.base_version)
    new = store.skills.get_files(skill.id, candidate.version_id)
    lines = [
        f"candidate {id} of skill '{skill.name}' (from {' '.join(filter(None, (candidate.origin, candidate.run_id)))})",
        f"base {row.base} -> version {row.version}",
        f"verdict: {row.verdict or 'none yet'}{f' ({detail.reason})' if detail.reason else ''}",
    ]
    for test in tests:
        work = describe_leases(store, test.id)
        lines.append(f"promotion test {test.id}{f'; {work}' if work else ''}")
    lines += [
        *describe_approvals(approvals),
        *(f"declined: {each}" for each in detail.declined),
        f"reasoning: {candidate.reasoning or '-'}",
        *(f"guard: {finding}" for finding in candidate.findings),
    ]
    for edit, report in edits:
        what = report.status if report.status == "applied" else f"{report.status}: {report.reason}: {report.detail}"
        lines.append(f"edit {report.index}: {edit.op} {edit.path}: {what}; from {describe_sources(edit)}")
    lines += [f"lint, new with it: {problem}" for problem in list_introduced(base, new, skill.name)]
    text = shown("\n".join([*lines, "", unified_diff(base, new, skill.name)]))
    return Thing(
        id,
        "candidate",
        text,
        detail,
        lambda consent: next_step(store, place, store.candidates.get_candidate(id), consent),
    )


_RECORDED = "trajectory:"


def describe_sources(edit: Edit) -> str:
    """How many attempts an edit came from, those of them that were recorded, and what its author cites."""
    cited = [each for each in edit.cited if not each.startswith(UNSHOWN)]
    unknown = [each.removeprefix(UNSHOWN) for each in edit.cited if each.startswith(UNSHOWN)][:SHOWN]
    cites = ["all of them" if set(cited) == set(edit.sources) else _describe_attempts(cited)] if cited else []
    cites += [f"unknown numbers ({', '.join(unknown)})"] if unknown else []
    authors = f"; its author cites {' and '.join(cites)}" if cites else ""
    return f"{_describe_attempts(edit.sources)}{authors}"


def _describe_attempts(ids: Sequence[str]) -> str:
    recorded = sorted((id for id in ids if id.startswith(_RECORDED)), key=lambda id: number_of(id) or 0)
    names = recorded[:SHOWN] + ([f"{len(recorded) - SHOWN:,} more"] if len(recorded) > SHOWN else [])
    if recorded and len(ids) > len(recorded):
        names.append(counted(len(ids) - len(recorded), "rollout"))
    listed = f" ({', '.join(names)})" if names else ""
    return f"{counted(len(ids), 'trajectory', 'trajectories')}{listed}"


def number_of(id: str) -> int | None:
    """The number in a trajectory's id, None where no trajectory can have it."""
    number = id.partition(":")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 19 else None


# A promotion test


def gather_test(store: Store, row: TestRow) -> PromotionTest:
    """What the store holds of a promotion test, with its units."""
    test = stored_test(store, row)
    candidate, kind = find_tested(store, row), kind_of_test(store, row.id, row.backend)
    return PromotionTest(
        id=row.id,
        skill=store.skills.get_skill(row.skill_id).name,
        candidate_id=candidate.id if candidate else None,
        base=short(row.base_version),
        version=short(row.version_id),
        report=report_of(store, test),
        units=unit_rows(store, test),
        evidence=kind,
        same_session=candidate is not None
        and kind == "host"
        and store.candidates.is_answered_by_author(candidate.id, row.id),
        served=[each for each in store.ledger.list_served(row.id) if each.role != "target"],
    )


def find_tested(store: Store, row: TestRow) -> Candidate | None:
    """The newest candidate with the text that a promotion test is of."""
    versions = (row.base_version, row.version_id)
    candidates = store.candidates.list_candidates(row.skill_id)
    return next((each for each in reversed(candidates) if (each.base_version, each.version_id) == versions), None)
