"""Resembling: whether a folder seems to be a skill whose own folder is gone, so that its history is not left behind."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadSkill
from skillopt_mcp.folders import read_skill
from skillopt_mcp.operations.finding import told_branch
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.predecessors import gone_skills, predecessor
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import Skill, SkillFiles
from skillopt_mcp.store.joining import MAY_JOIN

LIKENESS_BYTES = 1_000


def resembled(workspace: Workspace, paths: Iterable[str]) -> dict[str, Skill]:
    """Return which of these folders seem to be tracked skills whose own are gone: the one with the same files first.

    A folder that a move there would refuse is a skill of its own: it has been worked on.
    """
    gone = gone_skills(workspace.store)
    found = {path: files for path in paths if (files := _read(workspace, path))} if gone else {}
    return {path: skill for path, files in found.items() if (skill := predecessor(gone, files))}


def told_likeness(workspace: Workspace, path: str) -> str:
    """Return what to do about a folder that seems to be a skill whose own is gone, "" where it is none."""
    # Most skills have been worked on: then the others need not be looked at.
    return told_resembled(resembled(workspace, [path]), path) if _may_be_moved_to(workspace, path) else ""


def told_resembled(alike: Mapping[str, Skill], path: str) -> str:
    """Return `told_likeness` of one of the folders that were looked at together."""
    if path not in alike:
        return ""
    skill, old = alike[path], shlex.quote(alike[path].path)
    told = (
        f"it looks like {quoted(skill.name)}, whose folder is gone: {told_branch(skill.path)}if it is that skill, a "
        f"person types skillopt-mcp skills move {old} {shlex.quote(path)}, and tasks, attempts and history go on here; "
        f"if not: skillopt-mcp skills forget {old}"
    )
    return shortened(told, LIKENESS_BYTES)


def _read(workspace: Workspace, path: str) -> SkillFiles | None:
    """Return the files of a folder to which a skill may be moved, None for another."""
    try:
        return read_skill(Path(path)) if _may_be_moved_to(workspace, path) else None
    except BadSkill:
        return None


def _may_be_moved_to(workspace: Workspace, path: str) -> bool:
    tracked = workspace.store.skills.find_at(path)
    return tracked is None or workspace.store.skills.recorded_kinds(tracked.id) <= MAY_JOIN
