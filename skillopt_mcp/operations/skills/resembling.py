"""Resembling: whether a folder seems to be a skill whose own folder is gone, so that its history is not left behind."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadSkill, NotFound, UnsafeStore
from skillopt_mcp.folders import read_skill
from skillopt_mcp.operations.finding import is_gone
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import Skill, SkillFiles
from skillopt_mcp.store.joining import MAY_JOIN

LIKENESS_BYTES = 1_000


def resembled(workspace: Workspace, paths: Iterable[str]) -> dict[str, Skill]:
    """Return which of these folders seem to be tracked skills whose own are gone: the one with the same files first.

    A folder that a move there would refuse is a skill of its own: it has been worked on.
    """
    gone = [(skill, _last_seen(workspace, skill)) for skill in _gone_skills(workspace)]
    if not gone:
        return {}
    candidates = {path: files for path in paths if (files := _read(workspace, path))}
    alike = {
        path: [skill for skill, seen in gone if skill.live_version == files.digest]
        or [skill for skill, seen in gone if seen and _is_alike(files, seen)]
        for path, files in candidates.items()
    }
    return {path: skills[-1] for path, skills in alike.items() if skills}


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
        f"it looks like {quoted(skill.name)}, whose folder is gone: if it is that skill, a person types skillopt-mcp "
        f"skills move {old} {shlex.quote(path)}, and tasks, attempts and history go on here; if not: skillopt-mcp "
        f"skills forget {old}"
    )
    return shortened(told, LIKENESS_BYTES)


def _gone_skills(workspace: Workspace) -> list[Skill]:
    """Return the skills with a history whose folder is gone, but for those that a person wants listed no more."""
    skills = workspace.store.skills
    gone = [skill for skill in skills.list_skills() if is_gone(skill.path)]
    hidden = skills.list_forgotten() if gone else set()
    return [skill for skill in gone if skill.id not in hidden and skills.recorded_kinds(skill.id)]


def _read(workspace: Workspace, path: str) -> SkillFiles | None:
    """Return the files of a folder to which a skill may be moved, None for another."""
    try:
        return read_skill(Path(path)) if _may_be_moved_to(workspace, path) else None
    except BadSkill:
        return None


def _may_be_moved_to(workspace: Workspace, path: str) -> bool:
    tracked = workspace.store.skills.find_at(path)
    return tracked is None or workspace.store.skills.recorded_kinds(tracked.id) <= MAY_JOIN


def _last_seen(workspace: Workspace, skill: Skill) -> SkillFiles | None:
    try:
        return workspace.store.skills.get_files(skill.id, skill.live_version)
    except (NotFound, UnsafeStore):
        return None


def _is_alike(one: SkillFiles, other: SkillFiles) -> bool:
    """Return whether two documents have one name in their front matter, or one text below it."""
    if one.main_path != other.main_path:
        return False
    first, second = frontmatter.read(one.main), frontmatter.read(other.main)
    if first and second and first.name and first.name == second.name:
        return True
    text = _below(one.main)
    return bool(text) and text == _below(other.main)


def _below(main: bytes) -> bytes:
    return main[frontmatter.block_end(main) or 0 :].strip()
