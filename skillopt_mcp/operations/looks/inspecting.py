"""Inspecting: one candidate, promotion test, run, trajectory, version or skill in detail, a page at a time.

Prompts, answers and per-task results of held-out tasks are shown nowhere here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from skillopt_mcp import limits
from skillopt_mcp.documents.characters import quoted, shown
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.documents.lint import introduced
from skillopt_mcp.errors import NotFound
from skillopt_mcp.operations.changes.advising import by_a_person, next_step
from skillopt_mcp.operations.changes.agreed import told_unused
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.declined import told_declined
from skillopt_mcp.operations.leasing import told_items, told_leases
from skillopt_mcp.operations.looks.detailing import (
    UNSCORED_SHOWN,
    candidate_detail,
    is_unproven,
    skill_detail,
    tombstone_detail,
    trajectory_detail,
    version_detail,
)
from skillopt_mcp.operations.looks.details import Detail, Inspected, json_bytes, with_hidden_shown, within
from skillopt_mcp.operations.looks.inspecting_runs import describe_run
from skillopt_mcp.operations.looks.inspecting_tests import described_test, promotion_test, tested_candidate
from skillopt_mcp.operations.looks.listing import skill_row
from skillopt_mcp.operations.looks.sourcing import told_sources
from skillopt_mcp.operations.looks.standing import step_of_attempt, step_of_version, told_candidates
from skillopt_mcp.operations.names import id_meant, is_version, known, version_named
from skillopt_mcp.operations.paging import ANSWER_BYTES, LEAST_BYTES, page_end, page_start
from skillopt_mcp.operations.spending.listing_runs import way_on
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.evidence import Trajectory
from skillopt_mcp.records.skills import Skill, Version, short
from skillopt_mcp.store.erasing import Erasing, Tombstone
from skillopt_mcp.store.permissions import Permission

SHOWN = 20
MANY_PAGES = 20
VERSIONS_SHOWN = 8


def inspect(workspace: Workspace, id: str, cursor: str | None = None, consent: Consent = Consent.STANDING) -> Inspected:
    """Return what the store holds of one thing, named by its id or a skill's name. Raises NotFound, BadInput.

    The last page says what to do next with a candidate or its test, if whoever asks can agree as `consent` says.
    """
    start, id = page_start(cursor), _meant(workspace, known(id))
    kind, text = described(workspace, id)
    end = page_end(text, start)
    left = _told_left(kind, id, len(text) - end)
    page = Inspected(
        id=id,
        kind=kind,
        text=text[start:end],
        cursor=str(end) if left else None,
        next_step=left or _advice(workspace, kind, id, consent),
    )
    detail = None if start else detailed(workspace, kind, id, SHOWN)
    if detail is None:
        return page
    room = max(ANSWER_BYTES - json_bytes(page), LEAST_BYTES)
    return page.model_copy(update={kind: within(with_hidden_shown(detail), room)})


def _told_left(kind: str, id: str, n: int) -> str:
    """Return how to read the characters that a page leaves over; empty where there are none."""
    n_pages = math.ceil(n / limits.RESULT_CHARACTERS)
    if n_pages <= MANY_PAGES or kind != "trajectory":
        return f"{n:,} more characters: pass the cursor." if n else ""
    return f"{n:,} more characters, {n_pages:,} pages or more: pass the cursor, or see all by: skillopt-mcp show {id}"


def detailed(workspace: Workspace, kind: str, id: str, n: int | None = None) -> Detail | None:
    """Return in fields what an id of this kind names, None for a run and for work; `n` as `skill_detail` has it.

    Raises NotFound, BadSkill.
    """
    if kind == "candidate":
        return candidate_detail(workspace, id)
    if kind == "test":
        return promotion_test(workspace, id)
    if kind == "trajectory" and (left := _tombstone(workspace, id)):
        return tombstone_detail(workspace, id, left)
    if kind == "trajectory":
        return trajectory_detail(workspace, *_attempt(workspace, id))
    if kind == "version" and (named := version_named(id)):
        return version_detail(workspace, *_version_named(workspace, *named))
    if kind == "skill":
        skill = workspace.kept(id)
        # As it is on disk now, where it can be read.
        workspace.trouble(skill)
        return skill_detail(workspace, workspace.store.skills.get_skill(skill.id), n)
    return None


def _advice(workspace: Workspace, kind: str, id: str, consent: Consent) -> str:
    if kind == "candidate":
        return next_step(workspace, workspace.store.candidates.get_candidate(id), consent)
    if kind == "run":
        return way_on(workspace, workspace.store.runs.get_run(id))
    if kind == "skill":
        step = skill_row(workspace, workspace.kept(id)).next_step
        return by_a_person(workspace, step) if consent is Consent.PERSON else step
    if kind == "version" and (named := version_named(id)):
        skill, version = _version_named(workspace, *named)
        return step_of_version(workspace, skill, version.id, consent)
    if kind == "trajectory" and _tombstone(workspace, id):
        return "Nothing: nothing is left of it to learn from."
    if kind == "trajectory":
        skill_id, trajectory = _attempt(workspace, id)
        held_out = workspace.store.tasks.is_held_out(skill_id, trajectory.prompt)
        return step_of_attempt(trajectory, is_held_out=held_out)
    if kind == "work":
        return f"Do what it says; whoever took it hands it in: submit_work with work_id {id} among its replies."
    candidate = tested_candidate(workspace, id) if kind == "test" else None
    hand_in = "Hand in first what is done of the work listed. " if candidate and told_items(workspace, id) else ""
    return f"{hand_in}{next_step(workspace, candidate, consent)}" if candidate else ""


def described(workspace: Workspace, id: str) -> tuple[str, str]:
    """Return what kind of thing an id names, and all text on it, hidden characters shown. Raises NotFound, BadInput.

    Work is text as it is: whoever attempts a task reads the very bytes that are tested.
    """
    for shape, kind, describe in _IDS:
        if shape.fullmatch(id):
            if not workspace.is_made:
                raise NotFound(f"there is no store at '{workspace.store_path}' yet, and so no {kind} {quoted(id)}")
            text = describe(workspace, id)
            return kind, text if kind == "work" else shown(text)
    if version := version_named(id):
        return "version", shown(_version(workspace, *version))
    try:
        return "skill", shown(_skill(workspace, id))
    except NotFound as error:
        raise NotFound("; and ".join(filter(None, (id_meant(id), str(error))))) from error


def _meant(workspace: Workspace, id: str) -> str:
    """Return an id, with its skill before it where it is a version alone. Raises NotFound where several have that."""
    if not (is_version(id) and workspace.is_made) or workspace.store.skills.find_paths(id):
        return id
    having = [f"{skill.path}@{id}" for skill in workspace.store.skills.list_having(id)]
    if len(having) > 1:
        shown = " or ".join(quoted(each, 500) for each in having[:2])
        raise NotFound(f"{quoted(id)} is a version of {len(having)} skills: name one, for instance {shown}")
    return having[0] if having else id


def _candidate(workspace: Workspace, id: str) -> str:
    store = workspace.store
    candidate = store.candidates.get_candidate(id)
    skill = store.skills.get_skill(candidate.skill_id)
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    lines = [
        f"candidate {id} of skill '{skill.name}' (from {' '.join(filter(None, (candidate.origin, candidate.run_id)))})",
        f"base {short(candidate.base_version)} -> version {short(candidate.version_id)}",
        f"verdict: {f'{decision.verdict} ({decision.reason})' if decision else 'none yet'}",
        *(
            "; ".join(
                filter(None, (f"promotion test {test.id}: test {test.j} of the skill", told_leases(workspace, test.id)))
            )
            for test in store.decisions.list_confirmations(skill.id, candidate.base_version, candidate.version_id)
        ),
        *told_unused(workspace, skill.id, id),
        *(f"declined: {told}" for told in told_declined(workspace, candidate)),
        f"reasoning: {candidate.reasoning or '-'}",
        *(f"guard: {finding}" for finding in candidate.findings),
    ]
    for edit, report in store.candidates.list_edits(id):
        what = report.status if report.status == "applied" else f"{report.status}: {report.reason}: {report.detail}"
        lines.append(f"edit {report.index}: {edit.op} {edit.path}: {what}; from {told_sources(edit)}")
    base = store.skills.get_files(skill.id, candidate.base_version)
    new = store.skills.get_files(skill.id, candidate.version_id)
    lines += [f"lint, new with it: {problem}" for problem in introduced(base, new, skill.name)]
    return "\n".join([*lines, "", unified_diff(base, new, skill.name)])


def _trajectory(workspace: Workspace, id: str) -> str:
    if left := _tombstone(workspace, id):
        return f"{id}, recorded at {left.recorded_at}, was erased by a person at {left.erased_at}: its text is gone"
    skill_id, trajectory = _attempt(workspace, id)
    if workspace.store.tasks.is_held_out(skill_id, trajectory.prompt):
        return f"{id} attempted a held-out task: what was asked, answered and scored is not shown"
    score = "unscored" if trajectory.hard is None else f"hard {int(trajectory.hard)}, soft {trajectory.soft}"
    messages = [f"[{message.role}] {message.content}" for message in trajectory.messages]
    return "\n".join([f"{id} ({score})", f"task: {trajectory.prompt}", *messages, f"answer: {trajectory.answer}",
                      f"reason: {trajectory.reason}"])  # fmt: skip


def _tombstone(workspace: Workspace, id: str) -> Tombstone | None:
    """Return what is left of an attempt that was erased, None where the id names no such one."""
    number = _number(id)
    return None if number is None else workspace.store.room(Erasing).get_tombstone(number)


def _attempt(workspace: Workspace, id: str) -> tuple[int, Trajectory]:
    """Return the skill and the trajectory that an id names. Raises NotFound."""
    number = _number(id)
    found = None if number is None else workspace.store.trajectories.get_trajectory(number)
    if found is None:
        raise NotFound(f"the store has no {quoted(id)}: ids of trajectories come from record_trajectory")
    return found


def _number(id: str) -> int | None:
    """Return the number in a trajectory's id, None where no trajectory can have it."""
    number = id.partition(":")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 19 else None


def _work(workspace: Workspace, id: str) -> str:
    """Return work that is in somebody's hands: whoever knows its id may read it where files cannot be read."""
    lease = workspace.store.leases.find(id)
    if lease is None or lease.state != "out":
        raise NotFound(f"there is no work {quoted(id)} to do: take more with submit_work")
    return workspace.workplaces.text(id)


def _version(workspace: Workspace, name: str, version: str) -> str:
    skill, found = _version_named(workspace, name, version)
    files = workspace.store.skills.get_files(skill.id, found.id)
    before = workspace.store.skills.find_parent(found)
    parent = short(before.id) if before else "none"
    label = _unproven(workspace, skill.id, found.id)
    head = f"version {found.id} of '{skill.name}' ({found.origin} {found.created_at}, parent {parent}{label})"
    return f"{head}\n\n{files.text}"


def _version_named(workspace: Workspace, name: str, version: str) -> tuple[Skill, Version]:
    skill = workspace.kept(name)
    return skill, workspace.store.skills.get_version(skill.id, version)


def _unproven(workspace: Workspace, skill_id: int, version: str) -> str:
    """Return the label of a version that a person adopted without proof, empty for any other."""
    unproven = is_unproven(workspace, skill_id, version)
    return ", UNPROVEN: a person adopted it on an undecided test" if unproven else ""


def _retired(workspace: Workspace, skill_id: int) -> str:
    n = len(workspace.store.retirements.list_retired(skill_id))
    return f"; {n:,} more {'is' if n == 1 else 'are'} retired" if n else ""


def _permitted(permission: Permission | None) -> str:
    if permission is None:
        return "none"
    given = (("--simulated", permission.simulated), ("--host-run", permission.host_run))
    return f"given by {' with '.join([permission.granted_by, *(flag for flag, has in given if has)])}"


def _skill(workspace: Workspace, name: str) -> str:
    skill = workspace.kept(name)
    store = workspace.store
    trouble = workspace.trouble(skill)
    counts = store.tasks.count_tasks(skill.id)
    permission = store.permissions.get(skill.id)
    lines = [
        f"skill '{skill.name}' at {skill.path}",
        # What to do about it is told as what is next.
        *([trouble.partition(":")[0]] if trouble else []),
        f"live version {short(skill.live_version)}{_unproven(workspace, skill.id, skill.live_version)}; see it with "
        f"{skill.name}@{short(skill.live_version)}",
        f"tasks: {', '.join(f'{split} {n}' for split, n in counts.items())}{_retired(workspace, skill.id)}",
        f"standing permission: {_permitted(permission)}",
        *told_unused(workspace, skill.id),
    ]
    before = [each for each in store.skills.list_live(skill.id, 1 + VERSIONS_SHOWN) if each != skill.live_version]
    if before:
        lines.append(f"was live before, the newest first: {', '.join(map(short, before[:VERSIONS_SHOWN]))}")
    lines += told_candidates(workspace, store.skills.get_skill(skill.id), SHOWN)
    unscored = store.trajectories.list_unscored(skill.id, UNSCORED_SHOWN)
    if unscored:
        ids = ", ".join(f"trajectory:{each}" for each in unscored)
        lines.append(f"without a score (record_trajectory with such an id as task says how it ended): {ids}")
    lines += [f"run {run.id}: {run.status}" for run in store.runs.list_runs(skill.id)[-SHOWN:]]
    return "\n".join(lines)


# A skill may be called "c-style" or lie in "me@work": only what has the whole shape of an id is one.
_IDS: tuple[tuple[re.Pattern[str], str, Callable[[Workspace, str], str]], ...] = (
    (re.compile("c-[0-9a-f]{12}"), "candidate", _candidate),
    (re.compile("t-[0-9a-f]{12}"), "test", described_test),
    (re.compile("r-[0-9a-f]{12}"), "run", describe_run),
    (re.compile("w-[0-9a-f]{32}"), "work", _work),
    (re.compile("trajectory:.*", re.DOTALL), "trajectory", _trajectory),
)
