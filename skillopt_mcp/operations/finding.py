"""Finding: where a skill lies, by its name or a path, and what to do when it is not there any more."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import NotFound
from skillopt_mcp.folders import default_roots, find_skill_folders, skill_folder
from skillopt_mcp.records.skills import MAIN_FILE, MEMORY_FILES, Skill, is_memory
from skillopt_mcp.store.opening import Store

NAMES_SHOWN = 10


def skill_roots(store: Store | None, project: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the skill roots, links resolved: the hosts' own folders that exist, and those that a person added.

    Where there is no store yet, nobody has added one.
    """
    home = Path(os.path.expanduser("~"))
    hosts = [os.path.realpath(root) for root in default_roots(home, project, environ)]
    # A registered root is pinned: a link that took its place since leads nowhere.
    pinned = [path for path in store.skills.list_roots() if os.path.realpath(path) == path] if store else []
    # A memory file is a root of its own: whoever allows it allows nothing beside it.
    return [Path(root) for root in dict.fromkeys([*hosts, *pinned]) if os.path.isdir(root) or is_memory(root)]


def find_folder(store: Store | None, roots: Sequence[Path], name: str) -> Path:
    """Return the folder of the one skill of this name that is tracked or lies in a root.

    A forgotten one is it only where there is no other. Raises NotFound when there is none, or more than one.
    """
    tracked = store.skills.find_paths(name) if store else []
    forgotten = store.skills.find_forgotten_paths(name) if store else set[str]()
    placed = [] if name.startswith(".") else [os.path.realpath(root / name) for root in roots]
    known_places = list(dict.fromkeys([*tracked, *placed]))
    listed = [place for place in known_places if place not in forgotten]
    places = _found(listed, tracked) or _found(known_places, tracked)
    if len(places) == 1:
        return Path(places[0])
    if places:
        paths = ", ".join(f"'{place}'" for place in places[:NAMES_SHOWN])
        raise NotFound(f"{len(places)} skills are named {quoted(name)}: use the path, one of {paths}")
    raise NotFound(
        f"no skill {quoted(name)} is known or lies in a skill folder (found: {_names(roots)}): "
        "give the path of its folder once, and it is tracked from then on"
    )


def folder_at(text: str) -> Path | None:
    """Return the folder that a text is the path of, None where it looks like a name. Raises BadSkill."""
    is_path = "/" in text or os.sep in text or text.startswith("~") or text in (MAIN_FILE, *MEMORY_FILES)
    return skill_folder(os.path.expanduser(text)) if is_path else None


def find_tracked(store: Store, name_or_path: str) -> Skill | None:
    """Return a tracked skill, whether or not its folder is there, or None. Raises NotFound for a shared name."""
    path = os.path.abspath(os.path.expanduser(name_or_path))
    # What has become a link since is tracked by its own path.
    folder = os.path.dirname(path) if os.path.basename(path) == MAIN_FILE else path
    places = (folder, os.path.realpath(folder))
    return next(filter(None, map(store.skills.find_at, places)), None) or store.skills.find_skill(name_or_path)


def advice(store: Store, path: str) -> str:
    """Return what to do about a path at which nothing is any more, "" when something is, or nothing tracked was."""
    if not is_nowhere(path) or store.skills.find_at(path) is None:
        return ""
    shown = shlex.quote(path)
    return (
        f"{quoted(path, 500)} does not exist any more; if it was renamed or moved: skillopt-mcp skills move "
        f"{shown} NEW-PATH; if it is gone for good: skillopt-mcp skills forget {shown}"
    )


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


def _found(places: Sequence[str], tracked: Sequence[str]) -> list[str]:
    """Return the places where a skill is; where there is none, those where one was tracked."""
    return [place for place in places if os.path.isfile(main_path(place))] or [
        place for place in places if place in tracked
    ]


def _names(roots: Sequence[Path]) -> str:
    names = sorted({path.name for path in find_skill_folders(roots)})
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(quoted(name) for name in names[:NAMES_SHOWN]) + more or "none"
