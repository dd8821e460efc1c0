"""Listing: which skills there are, what has been gathered for each, and what to do next."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.counts import or_more
from skillopt_mcp.folders import find_skill_folders, is_as_shipped
from skillopt_mcp.operations.candidates.recalling import told_repeats
from skillopt_mcp.operations.changes.agreed import unused_approvals
from skillopt_mcp.operations.changes.declined import undeclined
from skillopt_mcp.operations.evidence.recording import ENOUGH_TO_PROPOSE
from skillopt_mcp.operations.host_work.going_on import left_behind, open_work
from skillopt_mcp.operations.paging import page_start, shortened
from skillopt_mcp.operations.results import SkillList, SkillRow, SplitCounts
from skillopt_mcp.operations.skills.resembling import resembled, told_resembled
from skillopt_mcp.operations.skills.unread import told_unread
from skillopt_mcp.operations.speaking import proposing_first
from skillopt_mcp.operations.spending.listing_runs import stopped_run
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Candidate
from skillopt_mcp.records.skills import Skill, short
from skillopt_mcp.store.pressing import Pressing

PAGE = 15
PAGE_BYTES = 9_000
TROUBLE_BYTES = 1_500
STEP_BYTES = 500
MOST_UNSCORED = 100
TO_TRACK = "record_trajectory tracks it"


class Kind(Enum):
    """What a next step is about, the most pressing first."""

    PROMOTE, UNDER_WAY, EVALUATE, BROKEN, LEARN, TRY, GATHER, ANY = range(8)


# What the store tells of all skills at once; the other kinds take a look at each of them.
_TOLD_OF_ALL = (Kind.PROMOTE, Kind.UNDER_WAY, Kind.EVALUATE)


class _Row(NamedTuple):
    kind: Kind
    row: SkillRow


class _Around(NamedTuple):
    """What is looked at once for all skills: the skill roots, and the folders that look like skills that are gone."""

    roots: Sequence[Path]
    alike: Mapping[str, Skill]


class _Gathered(NamedTuple):
    """What a skill has to learn from, and to be tested by."""

    name: str
    n_new_scored: int
    n_unscored: int
    n_tasks: int
    n_train: int


def list_skills(workspace: Workspace, cursor: str | None = None) -> SkillList:
    """Return tracked skills, then those found in skill folders, a page at a time; no store is made. Raises BadInput."""
    start = page_start(cursor)
    here, around = _here(workspace)
    rows, room = list[_Row](), PAGE_BYTES
    for each in here[start : start + PAGE]:
        one = _listed(workspace, each, around)
        room -= len(one.row.model_dump_json().encode())
        if rows and room < 0:
            break
        rows.append(one)
    n_left = max(len(here) - start - len(rows), 0)
    more = [f"{n_left} more: pass the cursor."] if n_left else []
    return SkillList(
        skills=[each.row for each in rows],
        cursor=str(start + len(rows)) if n_left else None,
        next_step=" ".join([*_told_pressing(workspace, here, around, dict(enumerate(rows, start))), *more])
        or _next_step(here),
    )


def all_skills(workspace: Workspace) -> list[SkillRow]:
    """Return the rows of every page of `list_skills`."""
    here, around = _here(workspace)
    return [_listed(workspace, each, around).row for each in here]


def _here(workspace: Workspace) -> tuple[list[Skill | Path], _Around]:
    """Return the tracked skills, then the folders of those found in skill roots, and what is looked at for them all."""
    tracked = workspace.store.skills.list_listed() if workspace.is_made else []
    known = {skill.path for skill in tracked}
    roots = workspace.roots()
    found = [Path(os.path.realpath(path)) for path in find_skill_folders(roots)]
    untracked = [path for path in dict.fromkeys(found) if str(path) not in known and not is_as_shipped(path)]
    alike = resembled(workspace, [*known, *map(str, untracked)]) if tracked else {}
    return [*tracked, *untracked], _Around(roots, alike)


def _told_pressing(
    workspace: Workspace, here: Sequence[Skill | Path], around: _Around, shown: Mapping[int, _Row]
) -> list[str]:
    """Return which skill to go on with, the first where several are as pressing; nothing where none is.

    It is one of all `here`, not of those `shown` alone, as far as the store tells that by a query.
    """
    found = [(row.kind.value, n, row) for n, row in shown.items() if row.kind is not Kind.ANY]
    is_whole = len(shown) == len(here)
    for kind, n in [] if is_whole else _expected(workspace, here):
        if found and min(found)[:2] <= (kind, n):
            break
        if n not in shown:
            row = _listed(workspace, here[n], around)
            found.append((row.kind.value, n, row))
    if not found:
        return []
    _, n, first = min(found)
    of_all = is_whole or first.kind in _TOLD_OF_ALL
    elsewhere = "" if n in shown else f", on another page: {shortened(first.row.next_step, STEP_BYTES)}"
    beginning = "Most pressing" if of_all else "Most pressing of these"
    return [f"{beginning} is the next step of {quoted(first.row.name)}{elsewhere}."]


def _expected(workspace: Workspace, here: Sequence[Skill | Path]) -> list[tuple[int, int]]:
    """Return the kind and the place of the skills that seem to be of a kind told of all, the most pressing first."""
    if not workspace.is_made:
        return []
    pressing = workspace.store.room(Pressing)
    kinds = dict.fromkeys(pressing.list_proposing() | pressing.list_stopped(), Kind.UNDER_WAY.value)
    for skill_id, verdict, is_out in pressing.list_open(GATE):
        kind = Kind.PROMOTE if verdict == "accept" else Kind.UNDER_WAY if is_out else Kind.EVALUATE
        if verdict in ("accept", "undecided"):
            kinds[skill_id] = min(kind.value, kinds.get(skill_id, kind.value))
    places = enumerate(here)
    return sorted((kinds[each.id], n) for n, each in places if isinstance(each, Skill) and each.id in kinds)


def _next_step(here: list[Skill | Path]) -> str:
    if not here:
        return "No skill was found. Record an attempt with the path of a skill folder to begin."
    return "Record attempts with record_trajectory; each skill's next step stands beside it."


def skill_row(workspace: Workspace, skill: Skill) -> SkillRow:
    """Return a tracked skill as it is listed."""
    return _tracked(workspace, skill, _Around(workspace.roots(), resembled(workspace, [skill.path]))).row


def _listed(workspace: Workspace, each: Skill | Path, around: _Around) -> _Row:
    return _tracked(workspace, each, around) if isinstance(each, Skill) else _untracked(workspace, each, around)


def _untracked(workspace: Workspace, path: Path, around: _Around) -> _Row:
    told = told_resembled(around.alike, str(path)) or shortened(told_unread(path), TROUBLE_BYTES)
    promotable = workspace.root_at(str(path), around.roots) is not None
    row = SkillRow(
        name=path.name, path=str(path), tracked=False, promotable=promotable, next_step=told or TO_TRACK
    )  # fmt: skip
    return _Row(Kind.BROKEN if told else Kind.ANY, row)


def _trouble(workspace: Workspace, skill: Skill, alike: Mapping[str, Skill]) -> str:
    trouble = workspace.trouble(skill)
    places = [quoted(path, 200) for path, other in alike.items() if other.id == skill.id]
    return f"{trouble}; it looks like what is at {places[0]} now" if trouble and places else trouble


def _tracked(workspace: Workspace, skill: Skill, around: _Around) -> _Row:
    store = workspace.store
    trouble = _trouble(workspace, skill, around.alike)
    skill = store.skills.get_skill(skill.id)
    counts = store.tasks.count_tasks(skill.id)
    total, new = store.trajectories.count_trajectories(skill.id)
    # Whatever was live is rolled back to, not promoted again.
    closed = {each.to_version for each in store.promotions.list_promotions(skill.id)}
    candidates = [each for each in store.candidates.list_candidates(skill.id) if each.version_id not in closed]
    current = [each for each in candidates if each.base_version == skill.live_version]
    verdicts = store.decisions.verdicts(skill.id, GATE, skill.live_version)
    undecided = [each for each in current if verdicts.get(each.version_id, "undecided") == "undecided"]
    accepted = [each for each in current if verdicts.get(each.version_id) == "accept"]
    n_unscored = len(store.trajectories.list_unscored(skill.id, MOST_UNSCORED))
    again = told_repeats(store, current) if closed else {}
    # What has no score teaches nothing yet.
    n_scored = store.trajectories.count_new_scored(skill.id, ENOUGH_TO_PROPOSE)
    approved = unused_approvals(workspace, skill.id)
    agreed = [each for each in accepted if each.id in approved]
    steps = (
        (Kind.BROKEN, shortened(trouble, TROUBLE_BYTES) or told_resembled(around.alike, skill.path)),
        (
            Kind.PROMOTE,
            f"promote_skill {agreed[-1].id}" if agreed else _promotion_of(undeclined(workspace, accepted), again),
        ),
        (Kind.UNDER_WAY, open_work(workspace, skill, undecided)),
        # What a host has proposed since is not kept waiting for a run.
        (Kind.UNDER_WAY, "" if any(each.origin == "host" for each in undecided) else stopped_run(workspace, skill)),
        (Kind.BROKEN, "" if current else left_behind(workspace, skill, candidates)),
        _advice(undecided, again, _Gathered(skill.name, n_scored, n_unscored, sum(counts.values()), counts["train"])),
    )
    kind, step = next((kind, step) for kind, step in steps if step)
    row = SkillRow(
        name=skill.name,
        path=skill.path,
        tracked=True,
        live_version=short(skill.live_version),
        best_version=short(skill.best_version) if skill.best_version else None,
        splits=SplitCounts(**counts),
        n_trajectories=total,
        n_new=new,
        n_unscored=n_unscored,
        open_candidates=len(undecided) + len(accepted),
        approved=list(approved),
        promotable=workspace.root_at(skill.path, around.roots) is not None,
        next_step=step,
    )
    return _Row(kind, row)


def _advice(undecided: list[Candidate], again: Mapping[str, str], gathered: _Gathered) -> tuple[Kind, str]:
    if undecided:
        step = (
            _evaluation_of(_next_of(undecided, again), again)
            if gathered.n_tasks
            else "add_tasks, then evaluate the candidate"
        )
        return Kind.EVALUATE, step
    if gathered.n_new_scored >= ENOUGH_TO_PROPOSE:
        return Kind.LEARN, "propose_edits"
    if unscored := gathered.n_unscored:
        many = "1 attempt has" if unscored == 1 else f"{or_more(unscored, MOST_UNSCORED)} attempts have"
        return Kind.LEARN, f"{many} no score: inspect {gathered.name} lists them, record_trajectory says how each ended"
    if gathered.n_train:
        return Kind.TRY, f"{proposing_first(gathered.n_train)}, or record_trajectory"
    return Kind.GATHER, "record_trajectory" if gathered.n_tasks else "add_tasks"


def _next_of(candidates: list[Candidate], again: Mapping[str, str]) -> Candidate:
    """Return the newest candidate that the guard does not hold and that repeats no rollback, or the next best."""
    return min(reversed(candidates), key=lambda each: (bool(each.findings), each.id in again))


def _promotion_of(accepted: list[Candidate], again: Mapping[str, str]) -> str:
    if not accepted:
        return ""
    candidate = _next_of(accepted, again)
    if not candidate.findings:
        return f"promote_skill {candidate.id}{_told_again(candidate, again)}"
    return (
        f"a person has to look at {candidate.id} before it can be promoted: it was accepted, and the guard holds it "
        f"(skillopt-mcp promote {candidate.id}, or skillopt-mcp approve {candidate.id} and then promote_skill)"
    )


def _evaluation_of(candidate: Candidate, again: Mapping[str, str]) -> str:
    held = "; the guard holds it: promoting it takes a person's look" if candidate.findings else ""
    return f"evaluate_candidate {candidate.id}{held}{_told_again(candidate, again)}"


def _told_again(candidate: Candidate, again: Mapping[str, str]) -> str:
    return f"; mind that {again[candidate.id]}" if candidate.id in again else ""
