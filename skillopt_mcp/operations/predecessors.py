"""Predecessors: which tracked skill, whose folder is gone, some files seem to be, so that its history goes on."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.errors import NotFound, UnsafeStore
from skillopt_mcp.operations.finding import is_gone
from skillopt_mcp.records.skills import Skill, SkillFiles
from skillopt_mcp.store.opening import Store

Gone = Sequence[tuple[Skill, SkillFiles | None]]


def gone_skills(store: Store) -> Gone:
    """Return the skills with a history whose folder is gone, with their files as they were seen last.

    Those that a person wants listed no more are left out.
    """
    gone = [skill for skill in store.skills.list_skills() if is_gone(skill.path)]
    hidden = store.skills.list_forgotten() if gone else set()
    kept = [skill for skill in gone if skill.id not in hidden and store.skills.recorded_kinds(skill.id)]
    return [(skill, _last_seen(store, skill)) for skill in kept]


def predecessor(gone: Gone, files: SkillFiles) -> Skill | None:
    """Return which of these skills some files seem to be, one with the same files first; None for none."""
    same = [skill for skill, _ in gone if skill.live_version == files.digest]
    alike = same or [skill for skill, seen in gone if seen and _is_alike(files, seen)]
    return alike[-1] if alike else None


def _last_seen(store: Store, skill: Skill) -> SkillFiles | None:
    try:
        return store.skills.get_files(skill.id, skill.live_version)
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
