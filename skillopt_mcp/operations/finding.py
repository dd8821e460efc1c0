"""Finding: where a skill lies, by its name or a path, and what to do when it is not there any more."""

from __future__ import annotations

import difflib
import os
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import NotFound
from skillopt_mcp.folders import (
    default_roots,
    find_skill_folders,
    is_as_shipped,
    main_names,
    project_folders,
    project_roots,
    skill_folder,
    skill_name,
)
from skillopt_mcp.records.skills import MAIN_FILE, MEMORY_FILES, Skill, is_memory, short
from skillopt_mcp.store.opening import Store

NAMES_SHOWN = 10
_COMPARED, _ALIKE = 100, 0.6


def skill_roots(store: Store | None, project: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the skill roots, links resolved: the hosts' own folders that exist, and those that a person added.

    Where there is no store yet, nobody has added one.
    """
    home = Path(os.path.expanduser("~"))
    hosts = [os.path.realpath(root) for root in default_roots(home, project, environ)]
    # A registered root is pinned: a link that took its place since leads nowhere.
    pinned = [path for path in store.permissions.list_roots() if os.path.realpath(path) == path] if store else []
    # A memory file is a root of its own: whoever allows it allows nothing beside it.
    return [Path(root) for root in dict.fromkeys([*hosts, *pinned]) if os.path.isdir(root) or is_memory(root)]


def find_folder(store: Store | None, roots: Sequence[Path], name: str, project: Path, *, look: bool = False) -> Path:
    """Return the folder of the one skill of this name that is tracked or lies in a root.

    Where there are more, it is the nearest to the folder `project`; whoever only wants to `look` means the tracked one
    that such a copy was made from. A forgotten one is it only where there is no other. Raises NotFound when there is
    none, or more than one.
    """
    spelled = [name] if name.isascii() else [unicodedata.normalize(form, name) for form in ("NFC", "NFD")]
    tracked = [path for each in spelled for path in store.skills.find_paths(each)] if store else []
    forgotten = {path for each in spelled for path in store.skills.find_forgotten_paths(each)} if store else set[str]()
    placed = [] if name.startswith(".") else [os.path.realpath(root / each) for root in roots for each in spelled]
    known_places = list(dict.fromkeys([*tracked, *placed]))
    listed = [place for place in known_places if place not in forgotten]
    places = _found(listed, tracked) or _found(known_places, tracked)
    near = _nearest(places, roots, project)
    known = [place for place in places if place in tracked]
    if look and known and (len(near) > 1 or _is_copy(near, known, project)):
        near = _nearest(known, roots, project)
    if len(near) == 1:
        return Path(near[0])
    if near:
        paths = ", ".join(f"'{place}'" for place in near[:NAMES_SHOWN])
        raise NotFound(f"{len(near)} skills are named {quoted(name)}: use the path, one of {paths}")
    raise NotFound(
        f"no skill {quoted(name)} is known or lies in a skill folder ({_names(store, roots, name)}): "
        f"give the path of its folder once, and it is tracked from then on{_misspelt(placed)}"
    )


def _misspelt(places: Sequence[str]) -> str:
    """Return how to let a skill be found whose main file is not called so that hosts find it; "" without one."""
    found = next((os.path.join(place, name) for place in places for name in main_names(Path(place))), "")
    return f"; hosts look for {MAIN_FILE} alone: rename {quoted(found, 500)}" if found else ""


def folder_at(text: str) -> Path | None:
    """Return the folder that a text is the path of, None where it looks like a name. Raises BadSkill."""
    is_path = "/" in text or os.sep in text or text.startswith("~") or text in (".", "..", MAIN_FILE, *MEMORY_FILES)
    return skill_folder(os.path.expanduser(text)) if is_path else None


def check_no_copy(store: Store, folder: Path) -> None:
    """Raise NotFound for a folder that is not tracked and has the name of a skill that is: a look tracks no copy."""
    path = str(folder)
    if not os.path.isfile(main_path(path)) or store.skills.find_at(path):
        return
    others = _namesakes(store, folder)
    if others:
        raise NotFound(
            f"nothing is recorded of {quoted(path, 500)}, and it is not tracked by a look, for a skill of its name is: "
            f"{', '.join(quoted(other, 500) for other in others[:NAMES_SHOWN])}; look at that by its path, or begin "
            f"here with: skillopt-mcp tasks add {shlex.quote(path)} FILE"
        )


def check_recorded(store: Store | None, folder: Path) -> None:
    """Raise NotFound for a skill of which nothing is recorded, and name one of its name that has tasks."""
    path = str(folder)
    if not os.path.isfile(main_path(path)):
        return
    skill = store.skills.find_at(path) if store else None
    if store and skill and (store.skills.find_listed(path) or store.skills.recorded_kinds(skill.id)):
        return
    lacks = f"the skill has no train task, nor is anything else recorded of {quoted(path, 500)}"
    others = {each: _n_tasks(store, each) for each in _namesakes(store, folder)} if store else {}
    if not others:
        raise NotFound(f"{lacks}: add tasks with add_tasks or 'skillopt-mcp tasks add'")
    other = max(others, key=others.__getitem__)
    copy = (
        f"has {others[other]:,} tasks: use that path, or copy them here: skillopt-mcp tasks export "
        f"{shlex.quote(other)} FILE, and skillopt-mcp tasks add {shlex.quote(path)} FILE"
    )
    raise NotFound(f"{lacks}; {quoted(other, 500)} {copy if others[other] else 'is tracked: use that path'}")


def _n_tasks(store: Store, path: str) -> int:
    skill = store.skills.find_at(path)
    return sum(store.tasks.count_tasks(skill.id).values()) if skill else 0


def _namesakes(store: Store, folder: Path) -> list[str]:
    """Return the paths of the listed skills that have the name of a folder, and are there."""
    name = skill_name(folder)
    forgotten = store.skills.find_forgotten_paths(name)
    return [each for each in store.skills.find_paths(name) if each not in forgotten and not is_gone(each)]


def root_for(path: str) -> str:
    """Return what a person has to allow, so that a skill at this path may be promoted."""
    return path if is_memory(path) else os.path.dirname(path)


def told_locked(path: str) -> str:
    """Return why nothing may be promoted to a skill that lies in no skill root, and how a person allows it."""
    return (
        f"{quoted(path, 500)} lies in no skill folder that may be written, so that nothing can be promoted to it until "
        f"a person allows it: skillopt-mcp skills add-root {shlex.quote(root_for(path))}"
    )


def called(store: Store, skill: Skill) -> str:
    """Return what to call a skill by in a command: its name, or its path where the name is no good.

    Another one may be listed by that name, or it would be taken for an option.
    """
    forgotten = store.skills.find_forgotten_paths(skill.name)
    others = [path for path in store.skills.find_paths(skill.name) if path not in (skill.path, *forgotten)]
    return shlex.quote(skill.path if others or skill.name.startswith("-") else skill.name)


def find_tracked(store: Store, name_or_path: str) -> Skill | None:
    """Return a tracked skill, whether or not its folder is there, or None. Raises NotFound for a shared name."""
    path = os.path.abspath(os.path.expanduser(name_or_path))
    # What has become a link since is tracked by its own path.
    folder = os.path.dirname(path) if os.path.basename(path) == MAIN_FILE else path
    places = (folder, os.path.realpath(folder))
    return next(filter(None, map(store.skills.find_at, places)), None) or store.skills.find_skill(name_or_path)


def advice(store: Store, path: str) -> str:
    """Return what to do about a path at which nothing is any more, "" when something is, or nothing tracked was."""
    skill = store.skills.find_at(path) if is_nowhere(path) else None
    if skill is None:
        return ""
    shown = shlex.quote(path)
    return (
        f"{quoted(path, 500)} does not exist any more; {told_branch(path)}if it was renamed or moved: skillopt-mcp "
        f"skills move {shown} NEW-PATH; if it is gone for good: skillopt-mcp skills forget {shown}; if it was lost: "
        f"{_back(skill)}"
    )


def told_branch(path: str) -> str:
    """Return that what is gone may be on another branch, where it lay in a git checkout; "" elsewhere."""
    lies_in_one = any(os.path.lexists(folder / ".git") for folder in Path(path).parents)
    return "if another branch of this checkout has it: check that out; " if lies_in_one else ""


def kept_files(store: Store, path: str) -> str:
    """Return how to have the files back of a tracked skill whose main document alone is gone; "" for any other path."""
    skill = store.skills.find_at(path) if is_gone(path) else None
    return f"; or, if it was lost: {_back(skill)}" if skill else ""


def _back(skill: Skill) -> str:
    """Return how to have a skill's files back as they were last seen: the store holds every version of them."""
    version = shlex.quote(f"{skill.path}@{short(skill.live_version)}")
    # Only a folder that is new or empty is written to.
    folder = "NEW-FOLDER" if is_memory(skill.path) or os.path.lexists(skill.path) else shlex.quote(skill.path)
    moved = ", and move them to their place" if folder == "NEW-FOLDER" else ""
    return f"the store has its files, as they were last seen: skillopt-mcp show {version} --out {folder}{moved}"


def main_path(place: str) -> str:
    """Return the path of the main document of a skill's folder, or of a memory file."""
    return place if is_memory(place) else os.path.join(place, MAIN_FILE)


def is_gone(place: str) -> bool:
    """Return whether a skill is gone: its main document is not there."""
    return is_nowhere(main_path(place))


def is_nowhere(path: str) -> bool:
    """Return whether nothing is at a path; what cannot be looked at may be there yet."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _nearest(places: list[str], roots: Sequence[Path], project: Path) -> list[str]:
    """Return the places that a folder has itself, else those deeper inside it, else those of the folders around it.

    These are looked at up to the git checkout, the nearest first, and then all that lies in that. Where there is
    nothing at all, all places are returned.
    """
    around = project_folders(project)
    here, checkout = around[0], around[-1]
    owned = [_own(places, roots, each) for each in around]
    groups = [owned[0], _inside(places, here), *owned[1:], _inside(places, checkout)]
    return next(filter(None, groups), places)


def _own(places: Sequence[str], roots: Sequence[Path], folder: Path) -> list[str]:
    """Return the places right inside a folder or one of its skill folders for hosts, and their equals.

    Those are in other roots right inside it: which of such two is meant, nobody can tell.
    """
    own = {str(folder), *map(os.path.realpath, project_roots(folder))}
    if not any(os.path.dirname(place) in own for place in places):
        return []
    own |= {str(root) for root in roots if root.parent == folder}
    return [place for place in places if os.path.dirname(place) in own]


def _inside(places: Sequence[str], folder: Path) -> list[str]:
    return [place for place in places if Path(place).is_relative_to(folder)]


def _is_copy(near: list[str], tracked: Sequence[str], project: Path) -> bool:
    """Return whether the nearest place is an untracked copy of skills that are tracked in other checkouts.

    In one and the same checkout they are two skills.
    """
    return near[0] not in tracked and not _inside(tracked, project_folders(project)[-1])


def _found(places: Sequence[str], tracked: Sequence[str]) -> list[str]:
    """Return the places where a skill is; where there is none, those where one was tracked."""
    return [place for place in places if os.path.isfile(main_path(place))] or [
        place for place in places if place in tracked
    ]


def _names(store: Store | None, roots: Sequence[Path], name: str) -> str:
    """Return the names that there are, those that are most like a name first."""
    tracked = {skill.name for skill in store.skills.list_listed()} if store else set[str]()
    names = tracked | {path.name for path in find_skill_folders(roots) if not is_as_shipped(path)}
    likeness = {each: _likeness(name, each) for each in names}
    shown = sorted(names, key=lambda each: (-likeness[each], each))[:NAMES_SHOWN]
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    found = ", ".join(map(quoted, shown)) + more or "none"
    return f"did you mean {quoted(shown[0])}? found: {found}" if shown and likeness[shown[0]] else f"found: {found}"


def _likeness(one: str, other: str) -> float:
    """Return how alike two names are, 0 where they are not."""
    ratio = difflib.SequenceMatcher(None, one[:_COMPARED].casefold(), other[:_COMPARED].casefold()).ratio()
    return ratio if ratio >= _ALIKE else 0.0
