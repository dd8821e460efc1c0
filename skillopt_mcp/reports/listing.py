"""Listing: which skills there are, what has been gathered for each, and what to do next."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_mcp.actions.next_steps import describe_outdated, skill_states
from skillopt_mcp.core.advice import advise
from skillopt_mcp.core.candidates import GATE, Promotion
from skillopt_mcp.core.errors import BadSkill
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.skills import PromotedAway, Skill, SkillRow, SplitCounts, short
from skillopt_mcp.store.files import is_locked
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pending import Pending
from skillopt_mcp.workspace.answers import page_start, shorten
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import (  # fmt: skip
    find_skill_folders,
    handle,
    is_as_shipped,
    is_nowhere,
    read_skill,
    recover,
)

if TYPE_CHECKING:
    from skillopt_mcp.core.results import SkillList

PAGE = 15
PAGE_BYTES = 9_000
TROUBLE_BYTES, _TAGS_SHOWN = 1_500, 10
# The actions that one skill has before another, the first first.
_PRESSING = ("promote_skill", "rollback_skill", "submit_work", "inspect", "replay", "evaluate_candidate", "skills move",
             "check", "record_trajectory", "propose_edits", "tasks review", "add_tasks")  # fmt: skip
_TASK = {"task": "WHAT WAS ASKED"}
_NONE = NextStep(
    action="record_trajectory",
    arguments={"skill": "PATH", **_TASK},
    why="no skill was found; give the path of a skill folder",
)


def list_skills(store: Store, place: Place, cursor: str | None = None) -> SkillList:
    """Return tracked skills, then those found in skill folders, a page at a time; no store is made. Raises BadInput.

    The next step is that of the most pressing skill of all that are tracked.
    """
    # A terminal's list needs no schema: to load pydantic takes as long as all the rest.
    from skillopt_mcp.core.results import SkillList  # noqa: PLC0415

    start, roots = page_start(cursor), place.roots()
    tracked, untracked = _find_skills(store, roots)
    rows = skill_rows(store, place, tracked[start : start + PAGE], roots, tracked)
    shown, n_bytes = list[SkillRow](), 0
    n_left = PAGE - len(rows)
    first = max(0, start - len(tracked))
    rows += [_untracked(place, path, roots) for path in untracked[first : first + n_left]]
    for row in rows:
        n_bytes += len(json.dumps(asdict(row), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
        if shown and n_bytes > PAGE_BYTES:
            break
        shown.append(row)
    end = start + len(shown)
    pressing = min([*rows, *_pressing_rows(store, place, tracked, rows, roots)], key=_urgency, default=None)
    return SkillList(
        skills=shown,
        cursor=str(end) if end < len(tracked) + len(untracked) else None,
        next_step=pressing.next_step if pressing else _NONE,
    )


def _urgency(row: SkillRow) -> tuple[bool, int]:
    return not row.tracked, _PRESSING.index(row.next_step.action)


def _pressing_rows(
    store: Store, place: Place, tracked: Sequence[Skill], rows: Sequence[SkillRow], roots: Sequence[Path]
) -> list[SkillRow]:
    """Rows of skills that may be more pressing than `rows`, most so first, up to one that is as pressing on disk."""
    if not tracked:
        return []
    least = min((_urgency(row)[1] for row in rows if row.tracked), default=len(_PRESSING))
    ranks, most = {action: n for n, action in enumerate(_PRESSING)}, store.table(Pending).list_most_urgent(GATE)
    gone = ranks["skills move"]
    left = list[tuple[int, int, bool]]()  # the rank, the place among the tracked, and whether the rank is certain
    for n, skill in enumerate(tracked):
        rank = ranks[most[skill.id]]
        is_gone = rank > gone < least and not os.path.lexists(skill.path)
        if (rank := gone if is_gone else rank) < least:
            heappush(left, (rank, n, is_gone))
    found, n_next = list[SkillRow](), 1
    while left and len(found) < PAGE:
        rank, n, is_certain = heappop(left)
        if is_certain:
            found += skill_rows(store, place, [tracked[n]], roots, tracked)
            if _urgency(found[-1])[1] <= rank:
                break
            continue
        chunk = [n]
        while left and len(chunk) < n_next and not left[0][2]:
            chunk.append(heappop(left)[1])
        n_next *= 4
        states = skill_states(store, [tracked[n].id for n in chunk])
        for n in chunk:
            state = states[tracked[n].id]
            state = replace(state, worse_than="" if place.is_agents else state.worse_than)
            rank = ranks[advise(state).action] if os.path.lexists(tracked[n].path) else gone
            if rank < least:
                heappush(left, (rank, n, True))
    return found


def all_skills(store: Store, place: Place) -> list[SkillRow]:
    """Return the rows of every page of `list_skills`."""
    roots = place.roots()
    tracked, untracked = _find_skills(store, roots)
    return [*skill_rows(store, place, tracked, roots, tracked), *(_untracked(place, path, roots) for path in untracked)]


def _find_skills(store: Store, roots: Sequence[Path]) -> tuple[list[Skill], list[Path]]:
    """The tracked skills, and the folders of others in skill roots."""
    tracked = store.skills.list_listed() if store.is_made else []
    known = {skill.path for skill in tracked}
    others = [Path(os.path.realpath(path)) for path in find_skill_folders(roots, known)]
    return tracked, [path for path in others if not is_as_shipped(path)]


def skill_row(store: Store, place: Place, skill: Skill) -> SkillRow:
    """Return a tracked skill as it is listed."""
    return skill_rows(store, place, [skill], place.roots())[0]


def _untracked(place: Place, path: Path, roots: Sequence[Path]) -> SkillRow:
    step = NextStep(action="record_trajectory", arguments={"skill": str(path), **_TASK}, why="not tracked yet")
    try:
        read_skill(path)
    except BadSkill as error:
        why = shorten(f"cannot be read: {error}", TROUBLE_BYTES)
        step = NextStep(action="check", arguments={"folder": str(path)}, why=why)
    promotable = place.root_at(str(path), roots) is not None
    return SkillRow(name=path.name, path=str(path), tracked=False, promotable=promotable, next_step=step)


def skill_rows(
    store: Store, place: Place, skills: Sequence[Skill], roots: Sequence[Path], listed: Sequence[Skill] = ()
) -> list[SkillRow]:
    """Return a row for each tracked skill, as it is on disk now where it can be read; `listed` are all, where known."""
    if not skills:
        return []
    recover(store)
    changed = list[Skill]()  # whose folder does not hold what the store has as its live version
    direct = {skill.id for skill in skills if os.path.realpath(skill.path) == skill.path}
    for skill in skills:
        try:
            same = skill.id in direct and read_skill(Path(skill.path), is_resolved=True).digest == skill.live_version
        except BadSkill:
            same = False
        if not same:
            changed.append(skill)
    problems = {skill.id: place.describe_trouble(skill) for skill in changed}
    now = {skill.id: store.skills.get_skill(skill.id) for skill in changed}
    skills = [now.get(skill.id, skill) for skill in skills]
    states = skill_states(store, [skill.id for skill in skills])
    n_named = Counter(skill.name for skill in listed or store.skills.list_listed())
    unseen, outdated = store.promotions.list_unseen(), describe_outdated(store, skills)
    inside = tuple(os.path.join(root, "") for root in roots)
    rows = list[SkillRow]()
    for skill in skills:
        state, problem = states[skill.id], shorten(problems.get(skill.id, ""), TROUBLE_BYTES)
        now_known = replace(
            state,
            skill=skill.path if n_named[skill.name] > 1 or skill.name.startswith("-") else skill.name,
            problem=problem,
            worse_than="" if place.is_agents else state.worse_than,
            is_gone=bool(problem) and is_nowhere(skill.path),
            is_running=state.stopped_run is not None and is_locked(store.locks_path, state.stopped_run),
        )
        rows.append(SkillRow(
            name=skill.name, path=skill.path, tracked=True, live_version=short(skill.live_version),
            best_version=short(skill.best_version) if skill.best_version else None,
            splits=SplitCounts(train=state.n_train, val=state.n_val, test=state.n_test),
            n_trajectories=state.n_trajectories, n_new=state.n_new, n_unscored=state.n_unscored,
            open_candidates=state.n_candidates, approved=list(state.approved),
            promotable=skill.id in direct and f"{skill.path}/".startswith(inside),
            away=_away(store, skill, unseen.get(skill.id, [])),
            outdated=outdated.get(skill.id, ""),
            gaps={code: tags[:_TAGS_SHOWN] for code, tags in state.gaps.items()}, next_step=advise(now_known),
        ))  # fmt: skip
    return rows


def promoted_away(store: Store) -> dict[str, PromotedAway]:
    """Return by name what a permission alone promoted of each skill since a person last looked."""
    unseen = store.promotions.list_unseen()
    listed = [skill for skill in store.skills.list_listed() if skill.id in unseen]
    found = {handle(store, skill): _away(store, skill, unseen[skill.id]) for skill in listed}
    return {name: away for name, away in found.items() if away}


def list_waiting(store: Store) -> list[tuple[str, str]]:
    """The skills whose next step is a promotion, each with the command; their folders are not looked at."""
    skills = {skill.id: skill for skill in store.skills.list_listed()}
    steps = {skills[id]: advise(state) for id, state in skill_states(store, list(skills)).items()}
    return [
        (handle(store, skill), step.as_command()) for skill, step in steps.items() if step.action == "promote_skill"
    ]


def _away(store: Store, skill: Skill, changes: Sequence[Promotion]) -> PromotedAway | None:
    """What a permission alone promoted, all that no person has seen; None where there is none, or not now."""
    is_promoted = any(each.kind == "promote" for each in changes)
    if not is_promoted or changes[0].to_version == changes[-1].from_version:
        return None
    name, before = handle(store, skill), short(changes[-1].from_version)
    undo = NextStep(action="rollback_skill", arguments={"skill": name, "version": before}, why="")
    return PromotedAway(
        at=changes[0].created_at,
        version=short(changes[0].to_version),
        previous_version=before,
        diff=shlex.join(["skillopt-mcp", "diff", name, before]),
        undo=undo.as_command(),
    )
