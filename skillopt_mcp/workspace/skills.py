"""Skills: which are tracked, moved and forgotten, and which of a checkout differ from a base."""

from __future__ import annotations

import os
from pathlib import Path

from skillopt_mcp.core.errors import BadInput, Busy, NotFound, Refused
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import Result
from skillopt_mcp.core.skills import Skill, SkillFiles, short
from skillopt_mcp.core.text import dominant_ending, quoted, to_lf
from skillopt_mcp.documents.lint import SETTLE, find_conflicts
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.skills import describe_recorded
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import (
    find_skill_folders,
    find_tracked,
    handle,
    is_as_shipped,
    is_gone,
    known,
    lock_name,
    main_path,
    read_skill,
    skill_folder,
    skill_name,
)


def first_to_track(store: Store, place: Place) -> NextStep | None:
    """How to begin where no skill is tracked yet, by one that lies in a skill root; no store is made to look."""
    if store.is_made and store.skills.list_listed():
        return None
    here = (str(folder) for folder in find_skill_folders(place.roots()) if not is_as_shipped(folder))
    return NextStep(
        action="skills track", arguments={"folder": next(here, "PATH/TO/SKILL")}, why="no skill is tracked yet"
    )


def describe_endings(before: SkillFiles, live: SkillFiles) -> str:
    """The notice that what is live differs from a version in line endings alone, and how git leaves these; else ""."""
    if _plain(before) != _plain(live) or before == live:
        return ""
    kept = "crlf" if dominant_ending(before.main) == b"\r\n" else "lf"
    return (
        "The files differ in their line endings alone, as git writes them where core.autocrlf is set (to keep them: "
        f"'{before.main_path} text eol={kept}' in .gitattributes, and a fresh checkout)"
    )


def _plain(files: SkillFiles) -> set[tuple[str, bytes, bool]]:
    return {(file.path, to_lf(file.content), file.executable) for file in files.files}


def check_merged(files: SkillFiles) -> None:
    """Raise Refused for files of a skill that git could not merge."""
    found = next(find_conflicts(files), "")
    if found:
        raise Refused(f"{found}: {SETTLE}; nothing was spent")


class Moved(Result):
    """A skill with its new path; `edited`: its files are not those that were seen last.

    `set_aside` is what was recorded of the new folder: the same move again swaps it back.
    """

    skill: str
    path: str
    before: str
    version: str
    edited: bool
    set_aside: str


class Forgotten(Result):
    """A hidden skill, and what the store keeps of it."""

    skill: str
    path: str
    kept: str


def move_skill(store: Store, place: Place, old: str, new: str) -> Moved:
    """Change the folder of a tracked skill to another one that exists already; its history goes with it.

    What was recorded of the new folder is set aside. Raises NotFound, BadSkill, BadInput where nothing moves, Refused
    when the old folder still holds a skill, and Busy while another process changes its files.
    """
    skill = _find_tracked(store, old)
    # A path, or the new name of a folder that stayed where it was.
    sibling = Path(skill.path).parent / new
    is_sibling = Path(new).name == new and os.path.isfile(main_path(str(sibling)))
    folder = skill_folder(sibling if is_sibling else os.path.expanduser(new))
    if str(folder) == skill.path:
        raise BadInput(f"'{skill.path}' is where the skill is already: name the folder that it was moved to")
    files = read_skill(folder)
    if _main_file(skill.path) != _main_file(str(folder)):
        raise BadInput(f"'{folder}' is another kind of document than '{skill.path}': its versions would not fit there")
    if os.path.realpath(skill.path) != str(folder) and not is_gone(skill.path):
        raise Refused(f"'{skill.path}' still holds a skill, or cannot be looked at: move that folder first")
    lock = lock_run(store.locks_path, lock_name(skill.id))
    if lock is None:
        raise Busy(f"another process is changing '{skill.name}' right now: look at its history and try again")
    try:
        set_aside = describe_recorded(store.skills.move(skill.id, skill_name(folder), str(folder)))
    finally:
        lock.release()
        place.forget(skill)
    moved = place.again(store.skills.get_skill(skill.id))
    edited = files.digest != skill.live_version
    return Moved(
        skill=moved.name, path=moved.path, before=skill.path, version=short(moved.live_version), edited=edited,
        set_aside=set_aside, next_step=NextStep(action="inspect", arguments={"id": handle(store, moved)}),
    )  # fmt: skip


def forget_skill(store: Store, place: Place, name: str) -> Forgotten:
    """Hide a skill whose folder is gone, or that has no record; its history is kept.

    Raises NotFound, and Refused for a skill that is there and has something recorded.
    """
    skill = _find_tracked(store, name)
    recorded = store.skills.count_recorded(skill.id)
    # It is taken back with the skill.
    recorded.pop("standing permissions", None)
    held = describe_recorded(recorded)
    if held and not is_gone(skill.path):
        raise Refused(
            f"'{skill.path}' is there, and the store holds {held} of it: only a skill whose folder is gone, or that "
            "has no record, can be forgotten"
        )
    store.skills.forget(skill.id)
    place.forget(skill)
    back = NextStep(action="skills move", arguments={"old": skill.path}, why="to have it back; nothing was deleted")
    return Forgotten(skill=skill.name, path=skill.path, kept=held, next_step=back if held else None)


def _find_tracked(store: Store, name: str) -> Skill:
    name = known(name)
    found = find_tracked(store, name)
    if found is None:
        raise NotFound(f"no skill {quoted(name)} is tracked: see 'skillopt-mcp skills'")
    return found


def _main_file(path: str) -> str:
    return os.path.basename(main_path(path))
