"""Lookup: what an id or a skill's name refers to, as text, as fields, and what to do next with it, a page at a time."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields
from typing import Any

from pydantic import JsonValue

from skillopt_mcp.actions.next_steps import verdict_for_agents
from skillopt_mcp.actions.promotions.consent import UNPROVEN
from skillopt_mcp.actions.promotions.promoting import next_step, restore_version
from skillopt_mcp.core import limits
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import NotFound
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.skills import Skill, short
from skillopt_mcp.core.text import counted, quoted, shown
from skillopt_mcp.gates.verdicts import bars, caveats, describe, label
from skillopt_mcp.reports.details import (
    CandidateStanding,
    FileRow,
    Inspected,
    Permitted,
    RunState,
    SkillDetail,
    TrajectoryDetail,
    VersionDetail,
    json_bytes,
    show_hidden_in,
    within,
)
from skillopt_mcp.reports.inspecting import (
    SHOWN,
    Step,
    Thing,
    candidate_row,
    describe_approvals,
    find_tested,
    gather_test,
    list_approvals,
    look_at_candidate,
    number_of,
)
from skillopt_mcp.reports.listing import skill_row
from skillopt_mcp.reports.run_report import describe_run, describe_served, gather_run
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.files import is_locked
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.answers import ANSWER_BYTES, LEAST_BYTES, page_start, size
from skillopt_mcp.workspace.evidence import shown_origin
from skillopt_mcp.workspace.leases import describe_leases, describe_own_leases, host_tests
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import resume_step
from skillopt_mcp.workspace.skill_folders import handle, id_meant, is_version, known, version_named

VERSIONS_SHOWN = 8
_UNPROVEN = ", UNPROVEN: a person adopted it without proof"


def inspect(
    store: Store, place: Place, id: str, cursor: str | None = None, consent: Consent = Consent.STANDING
) -> Inspected:
    """One page on a thing, named by its id or a skill's name. Raises NotFound, BadInput.

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
    id = known(id)
    if is_version(id) and store.is_made and not store.skills.find_paths(id):
        skills = sorted(store.skills.list_listed(having=id), key=lambda skill: skill.id)
        having = [f"{skill.path}@{id}" for skill in skills]
        if len(having) > 1:
            examples = " or ".join(quoted(each, 500) for each in having[:2])
            raise NotFound(f"{quoted(id)} is a version of {len(having)} skills: name one, for instance {examples}")
        id = having[0] if having else id
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
        if shown := id_meant(id):
            shown = f"{shown}, and no skill of that name: skillopt-mcp skills lists the skills"
        raise NotFound(shown or str(error)) from error


# A skill


def _skill(store: Store, place: Place, name: str, n: int | None) -> Thing:
    skill = place.find_kept(name)  # before a store would be made
    row, trouble = skill_row(store, place, skill), place.describe_trouble(skill)
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
        approvals=list_approvals(store, skill.id),
        n_candidates=len(candidates),
        candidates=[candidate_row(store, place, skill, each, changes) for each in candidates[:n]],
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
        *describe_approvals(detail.approvals),
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


# A version


def _version(store: Store, place: Place, id: str, name: str, version: str) -> Thing:
    skill = place.find_kept(name)
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


# A promotion test, a run, an attempt, a piece of work


def _test(store: Store, place: Place, id: str) -> Thing:
    row = store.tests.find(id)
    if row is None:
        raise NotFound(f"no promotion test {quoted(id)}: use an id of evaluate_candidate, or begin it with submit_work")
    test, candidate, own_work = (
        gather_test(store, row),
        find_tested(store, row),
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
        candidate = find_tested(store, row)
        return next_step(store, place, candidate, consent) if candidate else None

    detail = None if place.is_agents else test
    return Thing(id, "test", shown("\n".join(lines)), detail, step)


def _run(store: Store, place: Place, id: str) -> Thing:
    facts = gather_run(store, place, store.runs.get_run(id))
    text = shown(describe_run(store, place, facts))
    return Thing(id, "run", text, None, lambda _: resume_step(store, store.runs.get_run(id)), facts)


def _trajectory(store: Store, id: str) -> Thing:
    number = number_of(id)
    if number is not None and (left := store.table(Erasing).find_erased([number]).get(number)):
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
    skill, is_held_out = store.skills.get_skill(skill_id), store.trajectories.is_held_out(skill_id, number)
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
    ("c-[0-9a-f]{12}", "candidate", look_at_candidate),
    ("t-[0-9a-f]{12}", "test", _test),
    ("r-[0-9a-f]{12}", "run", _run),
    ("w-[0-9a-f]{32}-[0-9]{1,2}", "work", _work),
    ("trajectory:.*", "trajectory", lambda store, _, id: _trajectory(store, id)),
)
