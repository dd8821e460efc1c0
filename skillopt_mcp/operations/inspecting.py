"""Inspecting: one candidate, promotion test, run, trajectory, version or skill in detail, a page at a time.

Prompts, answers and per-task results of held-out tasks are shown nowhere here.
"""

from __future__ import annotations

import re

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.documents.lint import introduced
from skillopt_mcp.errors import NotFound
from skillopt_mcp.operations.advising import next_step
from skillopt_mcp.operations.consenting import Consent
from skillopt_mcp.operations.inspecting_runs import describe_run
from skillopt_mcp.operations.inspecting_tests import described_test, tested_candidate
from skillopt_mcp.operations.leasing import told_leases
from skillopt_mcp.operations.listing_runs import way_on
from skillopt_mcp.operations.live_changes import UNPROVEN
from skillopt_mcp.operations.names import id_meant, known
from skillopt_mcp.operations.paging import page_end, page_start
from skillopt_mcp.operations.results import Inspected
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.skills import short

_CANDIDATE = re.compile("c-[0-9a-f]{12}")
_TEST = re.compile("t-[0-9a-f]{12}")
_RUN = re.compile("r-[0-9a-f]{12}")
UNSCORED_SHOWN = 20
_WORK = re.compile("w-[0-9a-f]{32}")
_VERSION = re.compile("(.+)@([0-9a-f]{8,64})", re.DOTALL)


def inspect(workspace: Workspace, id: str, cursor: str | None = None, consent: Consent = Consent.STANDING) -> Inspected:
    """Return what the store holds of one thing, named by its id or a skill's name. Raises NotFound, BadInput.

    The last page says what to do next with a candidate or its test, if whoever asks can agree as `consent` says.
    """
    start = page_start(cursor)
    kind, text = described(workspace, known(id))
    end = page_end(text, start)
    left = f"{len(text) - end:,} more characters: pass the cursor." if end < len(text) else ""
    return Inspected(
        id=id,
        kind=kind,
        text=text[start:end],
        cursor=str(end) if left else None,
        next_step=left or _advice(workspace, kind, id, consent),
    )


def _advice(workspace: Workspace, kind: str, id: str, consent: Consent) -> str:
    if kind == "candidate":
        return next_step(workspace, workspace.store.candidates.get_candidate(id), consent)
    if kind == "run":
        return way_on(workspace, workspace.store.runs.get_run(id))
    candidate = tested_candidate(workspace, id) if kind == "test" else None
    return next_step(workspace, candidate, consent) if candidate else ""


def described(workspace: Workspace, id: str) -> tuple[str, str]:
    """Return what kind of thing an id names, and all the text on it. Raises NotFound, BadInput."""
    # A skill may be called "c-style" or lie in "me@work": only what has the whole shape of an id is one.
    if _CANDIDATE.fullmatch(id):
        return "candidate", _candidate(workspace, id)
    if _TEST.fullmatch(id):
        return "test", described_test(workspace, id)
    if _RUN.fullmatch(id):
        return "run", describe_run(workspace, id)
    if _WORK.fullmatch(id):
        return "work", _work(workspace, id)
    if id.startswith("trajectory:"):
        return "trajectory", _trajectory(workspace, id)
    if version := version_named(id):
        return "version", _version(workspace, *version)
    try:
        return "skill", _skill(workspace, id)
    except NotFound as error:
        raise NotFound("; and ".join(filter(None, (id_meant(id), str(error))))) from error


def version_named(id: str) -> tuple[str, str] | None:
    """Return the skill and the version that an id names, None when it names another thing."""
    found = _VERSION.fullmatch(id)
    return (found[1], found[2]) if found else None


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
        f"reasoning: {candidate.reasoning or '-'}",
        *(f"guard: {finding}" for finding in candidate.findings),
    ]
    for edit, report in store.candidates.list_edits(id):
        what = report.status if report.status == "applied" else f"{report.status}: {report.reason}: {report.detail}"
        lines.append(f"edit {report.index}: {edit.op} {edit.path}: {what}; from {len(edit.sources)} trajectories")
    base = store.skills.get_files(skill.id, candidate.base_version)
    new = store.skills.get_files(skill.id, candidate.version_id)
    lines += [f"lint, new with it: {problem}" for problem in introduced(base, new, skill.name)]
    return "\n".join([*lines, "", unified_diff(base, new, skill.name)])


def _trajectory(workspace: Workspace, id: str) -> str:
    number = id.partition(":")[2]
    plain = number.isascii() and number.isdecimal() and len(number) < 19
    found = workspace.store.trajectories.get_trajectory(int(number)) if plain else None
    if found is None:
        raise NotFound(f"the store has no {quoted(id)}: ids of trajectories come from record_trajectory")
    skill_id, trajectory = found
    if workspace.store.tasks.is_held_out(skill_id, trajectory.prompt):
        return f"{id} attempted a held-out task: what was asked, answered and scored is not shown"
    score = "unscored" if trajectory.hard is None else f"hard {int(trajectory.hard)}, soft {trajectory.soft}"
    messages = [f"[{message.role}] {message.content}" for message in trajectory.messages]
    return "\n".join([f"{id} ({score})", f"task: {trajectory.prompt}", *messages, f"answer: {trajectory.answer}",
                      f"reason: {trajectory.hint}"])  # fmt: skip


def _work(workspace: Workspace, id: str) -> str:
    """Return work that is in somebody's hands: whoever knows its id may read it where files cannot be read."""
    lease = workspace.store.leases.find(id)
    if lease is None or lease.state != "out":
        raise NotFound(f"there is no work {quoted(id)} to do: take more with submit_work")
    return workspace.workplaces.text(id)


def _version(workspace: Workspace, name: str, version: str) -> str:
    skill = workspace.kept(name)
    found = workspace.store.skills.get_version(skill.id, version)
    files = workspace.store.skills.get_files(skill.id, found.id)
    parent = short(found.parent_id) if found.parent_id else "none"
    label = _unproven(workspace, skill.id, found.id)
    head = f"version {found.id} of '{skill.name}' ({found.origin} {found.created_at}, parent {parent}{label})"
    return f"{head}\n\n{files.text}"


def _unproven(workspace: Workspace, skill_id: int, version: str) -> str:
    """Return the label of a version that a person adopted without proof; a version that was proven since has none."""
    verdicts = [
        each.verdict
        for each in workspace.store.promotions.list_promotions(skill_id)
        if each.kind == "promote" and each.to_version == version
    ]
    return ", UNPROVEN: a person adopted it on an undecided test" if verdicts[:1] == [UNPROVEN] else ""


def _retired(workspace: Workspace, skill_id: int) -> str:
    n = len(workspace.store.retirements.list_retired(skill_id))
    return f"; {n} more are retired" if n else ""


def _skill(workspace: Workspace, name: str) -> str:
    store = workspace.store
    skill = workspace.kept(name)
    trouble = workspace.trouble(skill)
    counts = store.tasks.count_tasks(skill.id)
    permission = store.skills.get_permission(skill.id)
    lines = [
        f"skill '{skill.name}' at {skill.path}",
        *([trouble] if trouble else []),
        f"live version {short(skill.live_version)}{_unproven(workspace, skill.id, skill.live_version)}; see it with "
        f"{skill.name}@{short(skill.live_version)}",
        f"tasks: {', '.join(f'{split} {n}' for split, n in counts.items())}{_retired(workspace, skill.id)}",
        f"standing permission: {f'given by {permission.granted_by}' if permission else 'none'}",
    ]
    for candidate in store.candidates.list_candidates(skill.id)[-20:]:
        decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
        lines.append(f"candidate {candidate.id}: {decision.verdict if decision else 'not evaluated'}")
    unscored = store.trajectories.list_unscored(skill.id, UNSCORED_SHOWN)
    if unscored:
        ids = ", ".join(f"trajectory:{each}" for each in unscored)
        lines.append(f"without a score (record_trajectory with such an id as task says how it ended): {ids}")
    lines += [f"run {run.id}: {run.status}" for run in store.runs.list_runs(skill.id)[-20:]]
    return "\n".join(lines)
