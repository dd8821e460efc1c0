"""Inspecting: what the store holds of one thing, as text, as fields, and what to do next with it."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

from pydantic import JsonValue

from skillopt_mcp.actions.next_steps import is_reason_to_promote, verdict_for_agents
from skillopt_mcp.actions.promotions.consent import UNPROVEN, describe_declined
from skillopt_mcp.actions.promotions.promoting import next_step, restore_version
from skillopt_mcp.core import limits
from skillopt_mcp.core.candidates import GATE, Candidate, Consent, Decision, Promotion, candidate_id, rolled_back
from skillopt_mcp.core.edits import UNSHOWN, Edit
from skillopt_mcp.core.errors import NotFound
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import EditOutcome
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.skills import Skill, SkillRow, short
from skillopt_mcp.core.text import counted, quoted, shown
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.documents.lint import list_introduced
from skillopt_mcp.gates.verdicts import bars, caveats, describe, label
from skillopt_mcp.reports.details import (
    ApprovalRow,
    CandidateDetail,
    CandidateRow,
    CandidateStanding,
    Detail,
    FileRow,
    Inspected,
    Permitted,
    PromotionTest,
    RunState,
    SkillDetail,
    TrajectoryDetail,
    VersionDetail,
    json_bytes,
    show_hidden_in,
    within,
)
from skillopt_mcp.reports.listing import skill_row
from skillopt_mcp.reports.run_report import RunFacts, describe_run, describe_served, gather_run, served_rows
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.files import is_locked
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.promotion_tests import TestRow
from skillopt_mcp.training.promotion_test import stored_test
from skillopt_mcp.workspace.answers import ANSWER_BYTES, LEAST_BYTES, page_start, size
from skillopt_mcp.workspace.evidence import kind_of_test, shown_origin
from skillopt_mcp.workspace.leases import describe_leases, describe_own_leases, host_tests
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import resume_step
from skillopt_mcp.workspace.skill_folders import handle, id_meant, is_version, known, version_named
from skillopt_mcp.workspace.verdicts import report_of, unit_rows

SHOWN = 20
VERSIONS_SHOWN = 8
_UNPROVEN = ", UNPROVEN: a person adopted it without proof"

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


def inspect(
    store: Store, place: Place, id: str, cursor: str | None = None, consent: Consent = Consent.STANDING
) -> Inspected:
    """Return one page on a thing, named by its id or a skill's name. Raises NotFound, BadInput.

    The last page has the next step for a caller who can agree as `consent` allows.
    """
    start = page_start(cursor)
    thing = look_up(store, place, id, SHOWN)
    length = len(thing.text)
    # As far on as the bytes of one page reach.
    lengths = range(1, min(length, start + limits.RESULT_CHARACTERS) - start + 1)
    end = start + bisect_right(lengths, limits.RESULT_CHARACTERS, key=lambda n: size(thing.text[start : start + n]))
    if end < length:
        why = f"{length - end:,} more characters on {math.ceil((length - end) / limits.RESULT_CHARACTERS):,} pages"
        step: Step = NextStep(action="inspect", arguments={"id": thing.id, "cursor": str(end)}, why=why)
    else:
        step = thing.next_step(consent)
    page = Inspected(
        id=thing.id,
        kind=thing.kind,
        text=thing.text[start:end],
        cursor=str(end) if end < length else None,
        next_step=step,
    )
    if start or thing.detail is None:
        return page
    n_bytes = max(ANSWER_BYTES - json_bytes(page), LEAST_BYTES)
    return page.model_copy(update={thing.kind: within(show_hidden_in(thing.detail), n_bytes)})


def look_up(store: Store, place: Place, id: str, n: int | None = None) -> Thing:
    """What an id or a skill's name refers to; of a skill, with the `n` newest candidates and runs (None: all).

    Raises NotFound, BadInput.
    """
    id = _with_skill(store, known(id))
    # A skill may be called "c-style" or lie in "me@work": only what has the whole shape of an id is one.
    for shape, kind, find in _KINDS:
        if re.compile(shape, re.DOTALL).fullmatch(id):
            if not store.is_made:
                raise NotFound(f"there is no store at '{store.path}' yet, and so no {kind} {quoted(id)}")
            return find(store, place, id)
    if version := version_named(id):
        return _version(store, place, id, *version)
    try:
        return _skill(store, place, id, n)
    except NotFound as error:
        raise NotFound("; and ".join(filter(None, (id_meant(id), str(error))))) from error


def _with_skill(store: Store, id: str) -> str:
    """Return an id, with its skill before it where it is a version alone. Raises NotFound where that is ambiguous."""
    if not (is_version(id) and store.is_made) or store.skills.find_paths(id):
        return id
    skills = sorted(store.skills.list_listed(having=id), key=lambda skill: skill.id)
    having = [f"{skill.path}@{id}" for skill in skills]
    if len(having) > 1:
        examples = " or ".join(quoted(each, 500) for each in having[:2])
        raise NotFound(f"{quoted(id)} is a version of {len(having)} skills: name one, for instance {examples}")
    return having[0] if having else id


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
        skill = place.kept(name)
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


# A skill


def _skill(store: Store, place: Place, name: str, n: int | None) -> Thing:
    skill = place.kept(name)  # before a store would be made
    row, trouble = skill_row(store, place, skill), place.trouble(skill)
    skill = store.skills.get_skill(skill.id)  # as it is on disk now, where it can be read
    permission = store.permissions.get(skill.id)
    unscored = store.trajectories.recent_trajectories(skill.id, SHOWN, is_scored=False)
    runs = store.runs.list_runs(skill.id)[::-1]
    candidates, changes = store.candidates.list_candidates(skill.id)[::-1], store.promotions.list_promotions(skill.id)
    detail = SkillDetail(
        **{each.name: getattr(row, each.name) for each in fields(row) if each.name in SkillDetail.model_fields},
        unproven=_is_unproven(store, skill.id, skill.live_version),
        n_retired=len(store.retirements.list_retired(skill.id)),
        permission=Permitted(given_by=permission.granted_by, simulated=permission.simulated) if permission else None,
        approvals=_approvals(store, skill.id),
        n_candidates=len(candidates),
        candidates=[_candidate_row(store, place, skill, each, changes) for each in candidates[:n]],
        runs=[RunState(id=run.id, status=run.status) for run in runs[:n]],
        unscored=[f"trajectory:{each}" for each in unscored[::-1]],
    )
    text = shown("\n".join(_skill_lines(store, skill, detail, trouble)))
    return Thing(name, "skill", text, detail, lambda _: row.next_step, row)


def _skill_lines(store: Store, skill: Skill, detail: SkillDetail, trouble: str) -> list[str]:
    last = store.promotions.last_begun(skill.path)
    removed = f"; {detail.n_retired:,} removed" if detail.n_retired else ""
    given = "none"
    if permission := detail.permission:
        given = f"given at the {permission.given_by}{' with --simulated' if permission.simulated else ''}"
    lines = [f"skill '{detail.name}' at {detail.path}"]
    if trouble:
        lines.append(trouble.partition(":")[0])  # the next step says what to do about it
    if last and last.is_open:
        version = short(last.to_version)
        lines.append(
            f"a {last.kind} to version {version} was interrupted; it ends once the files can be read and written"
        )
    lines += [
        f"live version {detail.live_version}{_UNPROVEN if detail.unproven else ''}; see it with "
        f"{detail.name}@{detail.live_version}",
        f"tasks: {', '.join(f'{split} {n}' for split, n in asdict(detail.splits).items())}{removed}",
        f"standing permission: {given}",
        *_describe_approvals(detail.approvals),
    ]
    before = [each for each in store.skills.list_live(skill.id, 1 + VERSIONS_SHOWN) if each != skill.live_version]
    if before:
        lines.append(f"live before, the newest first: {', '.join(map(short, before[:VERSIONS_SHOWN]))}")
    rows = detail.candidates[:SHOWN][::-1]
    tested = host_tests(store, [store.candidates.get_candidate(row.id) for row in rows if row.standing == "open"])
    under_test = {short(version) for version in tested}
    for row in rows:
        verdict = row.verdict or ("under test" if row.version in under_test else "not evaluated")
        lines.append(f"candidate {row.id}: {verdict}{_STANDINGS.get(row.standing, '')}")
    if detail.unscored:
        lines.append(f"without a score (pass such an id to record_trajectory as task): {', '.join(detail.unscored)}")
    return [*lines, *(f"run {run.id}: {run.status}" for run in detail.runs[:SHOWN][::-1])]


_STANDINGS: dict[CandidateStanding, str] = {
    "live": ", live",
    "was_live": ", live before",
    "rolled_back": ", rolled back",
    "stale": ", stale: the file has changed since",
}


def _approvals(store: Store, skill_id: int) -> list[ApprovalRow]:
    """The unused approvals, the oldest first, those of one candidate, or of one version to roll back to, together."""
    found: dict[str, list[ApprovalRow]] = {}
    for each in store.approvals.list_unused(skill_id):
        made = candidate_id(skill_id, each.from_version, each.to_version)
        id = made if each.kind == "promote" else short(each.to_version)
        found.setdefault(id, []).append(ApprovalRow(id=id, kind=each.kind, login=each.login, at=each.at))
    return [row for rows in found.values() for row in rows]


def _describe_approvals(approvals: Sequence[ApprovalRow]) -> list[str]:
    return [
        f"approved, not used yet: {each.id if each.kind == 'promote' else f'a rollback to {each.id}'}, in a dialog"
        f"{f' ({each.login})' if each.login else ''}, {each.at}"
        for each in approvals
    ]


def latest_decision(store: Store, candidate: Candidate) -> Decision | None:
    versions = (candidate.base_version, candidate.version_id)
    return store.decisions.latest(candidate.skill_id, GATE, *versions)


def visible_verdict(store: Store, place: Place, candidate: Candidate | None, decision: Decision | None) -> str | None:
    """Return a verdict as whoever looks may know it."""
    verdict = decision.verdict if decision else None
    return verdict_for_agents(store, candidate, verdict) if place.is_agents else verdict


def _candidate_row(
    store: Store, place: Place, skill: Skill, candidate: Candidate, changes: Sequence[Promotion]
) -> CandidateRow:
    decision = latest_decision(store, candidate)
    verdict = decision.verdict if decision else None
    standing: CandidateStanding = "open"
    if candidate.version_id == skill.live_version:
        standing = "live"
    elif candidate.version_id in rolled_back(changes):
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
        verdict=visible_verdict(store, place, candidate, decision),
        held=bool(candidate.findings),
        base=short(candidate.base_version),
        version=short(candidate.version_id),
    )


# A version


def _version(store: Store, place: Place, id: str, name: str, version: str) -> Thing:
    skill = place.kept(name)
    found = store.skills.get_version(skill.id, version)
    files = store.skills.get_files(skill.id, found.id)
    for each in store.candidates.list_candidates(skill.id, steps=True):
        if each.version_id == found.id:
            place.note_seen(each)
    parent = None
    with suppress(NotFound):  # it may be a version of another skill
        parent = store.skills.get_version(skill.id, found.parent_id) if found.parent_id else None
    detail = VersionDetail(
        skill=skill.name,
        version=short(found.id),
        sha256=found.id,
        parent=short(parent.id) if parent else None,
        origin=found.origin,
        at=found.created_at,
        live=found.id == skill.live_version,
        unproven=_is_unproven(store, skill.id, found.id),
        files=[FileRow(path=each.path, n_bytes=len(each.content), executable=each.executable) for each in files.files],
    )
    origin = (
        f"{found.origin} {found.created_at}, parent {detail.parent or 'none'}{_UNPROVEN if detail.unproven else ''}"
    )
    head = f"version {found.id} of '{skill.name}' ({origin})"

    def step(consent: Consent) -> Step:
        """What is to be done with its candidate, where it has one."""
        if detail.live:
            return NextStep(action="inspect", arguments={"id": handle(store, skill)}, why="it is live")
        made = [each for each in store.candidates.list_candidates(skill.id) if each.version_id == found.id]
        if made:
            of_live = [each for each in made if each.base_version == skill.live_version]
            return next_step(store, place, (of_live or made)[-1], consent)
        return restore_version(store, skill, found.id) if found.origin == "recorded" else None

    return Thing(id, "version", shown(f"{head}\n\n{files.text}"), detail, step)


def _is_unproven(store: Store, skill_id: int, version: str) -> bool:
    """Whether a person adopted a version without proof; one that was proven since is not unproven."""
    changes = store.promotions.list_promotions(skill_id)
    verdicts = [each.verdict for each in changes if each.kind == "promote" and each.to_version == version]
    return verdicts[:1] == [UNPROVEN]


# A candidate


def _candidate(store: Store, place: Place, id: str) -> Thing:
    candidate = store.candidates.get_candidate(id)
    skill = store.skills.get_skill(candidate.skill_id)
    place.trouble(skill)  # a person may have changed its files meanwhile
    skill = store.skills.get_skill(skill.id)
    decision = latest_decision(store, candidate)
    place.note_seen(candidate)
    row = _candidate_row(store, place, skill, candidate, store.promotions.list_promotions(skill.id))
    tests = store.tests.list_of(skill.id, candidate.base_version, candidate.version_id)
    edits = store.candidates.list_edits(id)
    approvals = [each for each in _approvals(store, skill.id) if each.id == id]
    detail = CandidateDetail(
        **row.model_dump(),
        skill=skill.name,
        origin=candidate.origin,
        run_id=candidate.run_id,
        reason="" if place.is_agents or not decision else decision.reason,
        approved=bool(approvals),
        declined=describe_declined(store, candidate),
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
        *_describe_approvals(approvals),
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
    recorded = sorted((id for id in ids if id.startswith(_RECORDED)), key=lambda id: _number(id) or 0)
    names = recorded[:SHOWN] + ([f"{len(recorded) - SHOWN:,} more"] if len(recorded) > SHOWN else [])
    if recorded and len(ids) > len(recorded):
        names.append(counted(len(ids) - len(recorded), "rollout"))
    listed = f" ({', '.join(names)})" if names else ""
    return f"{counted(len(ids), 'trajectory', 'trajectories')}{listed}"


# A promotion test


def gather_test(store: Store, row: TestRow) -> PromotionTest:
    """What the store holds of a promotion test, with its units."""
    test = stored_test(store, row)
    candidate, kind = _tested_candidate(store, row), kind_of_test(store, row.id, row.backend)
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
        served=[each for each in served_rows(store, row.id) if each.role != "target"],
    )


def _test(store: Store, place: Place, id: str) -> Thing:
    row = store.tests.find(id)
    if row is None:
        raise NotFound(f"no promotion test {quoted(id)}: use an id of evaluate_candidate, or begin it with submit_work")
    test, candidate, own_work = (
        gather_test(store, row),
        _tested_candidate(store, row),
        describe_own_leases(store, place, id),
    )
    report = test.report
    lines = [
        f"promotion test {id} of skill '{test.skill}', candidate {test.candidate_id or '-'}",
        f"base {test.base} -> version {test.version}",
    ]
    if place.is_agents:
        verdict = verdict_for_agents(store, candidate, report.verdict) or "none yet"
        lines.append(f"verdict: {verdict}; all else of the test is shown to a person alone")
    else:
        author = ", same session" if test.same_session else ""
        simulated = " (a SIMULATION: it says nothing about a real model)" if test.evidence == "simulated" else ""
        roles = [lease.role for lease in store.leases.list_of(id) if lease.state == "answered"]
        n_judged = roles.count("judge")
        kinds = ((len(roles) - n_judged, "answer"), (n_judged, "judgement"))
        answers = " and ".join(counted(n, kind) for n, kind in kinds if n)
        lines += [
            f"{label(report, is_running=not report.verdict and is_locked(store.locks_path, id))}{simulated}",
            *describe(report),
            *bars(report),
            *caveats(report),
            f"answered by: {shown_origin(row.backend)} ({test.evidence} evidence{author})",
            *describe_served(test.served),
            *([f"handed in: {answers}"] if answers else []),
        ]
    lines += [*filter(None, [describe_leases(store, id)]), *own_work]

    def step(consent: Consent) -> Step:
        if own_work:
            return NextStep(action="submit_work", arguments={"job_id": id}, why="its work is not handed in yet")
        candidate = _tested_candidate(store, row)
        return next_step(store, place, candidate, consent) if candidate else None

    detail = None if place.is_agents else test
    return Thing(id, "test", shown("\n".join(lines)), detail, step)


def _tested_candidate(store: Store, row: TestRow) -> Candidate | None:
    """Return the newest candidate with the text that a promotion test is of."""
    versions = (row.base_version, row.version_id)
    candidates = store.candidates.list_candidates(row.skill_id)
    return next((each for each in reversed(candidates) if (each.base_version, each.version_id) == versions), None)


# A run, an attempt, a piece of work


def _run(store: Store, place: Place, id: str) -> Thing:
    facts = gather_run(store, place, store.runs.get_run(id))
    text = shown(describe_run(store, place, facts))
    return Thing(id, "run", text, None, lambda _: resume_step(store, store.runs.get_run(id)), facts)


def _trajectory(store: Store, id: str) -> Thing:
    number = _number(id)
    if number is not None and (left := store.table(Erasing).get_tombstone(number)):
        skill_id, version, session, recorded_at, erased_at = left
        text = f"{id}, recorded at {recorded_at}, was erased by a person at {erased_at}: its text is gone"
        gone = TrajectoryDetail(
            id=id,
            skill=store.skills.get_skill(skill_id).name,
            version=short(version),
            session=session or "",
            held_out=False,
            erased_at=erased_at,
        )
        return Thing(id, "trajectory", text, gone, lambda _: None)
    found = None if number is None else store.trajectories.get_trajectory(number)
    if number is None or found is None:
        raise NotFound(f"no {quoted(id)}: ids of trajectories come from record_trajectory")
    skill_id, attempt = found
    skill, is_held_out = store.skills.get_skill(skill_id), store.tasks.is_held_out(skill_id, attempt.prompt)
    content: dict[str, Any] = {"hard": attempt.hard, "soft": attempt.soft, "reason": attempt.reason}
    content |= {"task": attempt.prompt, "n_messages": len(attempt.messages)}
    detail = TrajectoryDetail(
        id=id,
        skill=skill.name,
        version=short(store.trajectories.version_of(number)),
        session=attempt.session,
        held_out=is_held_out,
        **({} if is_held_out else content),
    )
    if is_held_out:
        text = f"{id} attempted a held-out task: what was asked, answered and scored is not shown"
        return Thing(id, "trajectory", text, detail, lambda _: None)
    score = "unscored" if attempt.hard is None else f"hard {int(attempt.hard)}, soft {attempt.soft}"
    lines = [
        f"{id} ({score})",
        f"task: {attempt.prompt}",
        *(f"[{message.role}] {message.content}" for message in attempt.messages),
        f"answer: {attempt.answer}",
        f"reason: {attempt.reason}",
    ]
    arguments: dict[str, JsonValue] = {"skill": handle(store, skill), "task": id}
    scoring = NextStep(action="record_trajectory", arguments=arguments, why="it has no score")
    return Thing(id, "trajectory", shown("\n".join(lines)), detail, lambda _: scoring if attempt.hard is None else None)


def _number(id: str) -> int | None:
    """Return the number in a trajectory's id, None where no trajectory can have it."""
    number = id.partition(":")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 19 else None


def _work(store: Store, place: Place, id: str) -> Thing:
    """Return work that is handed out, which anyone who knows its secret id may read.

    Its text stays as it is, hidden characters too: who attempts a task reads the very bytes that are tested.
    """
    lease = store.leases.find(id)
    if lease is None or lease.state != "out":
        raise NotFound(f"there is no work {quoted(id)} to do: take more with submit_work")
    arguments: dict[str, JsonValue] = {"job_id": lease.scope, "replies": [{"work_id": id}]}
    step = NextStep(action="submit_work", arguments=arguments, why="hand in the answer")
    return Thing(id, "work", place.work_folders.text(id), None, lambda _: step)


_KINDS: tuple[tuple[str, str, Callable[[Store, Place, str], Thing]], ...] = (
    ("c-[0-9a-f]{12}", "candidate", _candidate),
    ("t-[0-9a-f]{12}", "test", _test),
    ("r-[0-9a-f]{12}", "run", _run),
    ("w-[0-9a-f]{32}", "work", _work),
    ("trajectory:.*", "trajectory", lambda store, _, id: _trajectory(store, id)),
)
