"""Moving folders: all tracked skills below one folder are below another one now, as on a machine with other paths."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.errors import BadInput, SkillOptError
from skillopt_mcp.operations.finding import find_tracked, is_gone, main_path
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.skills.moving import Moved, move_skill
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import Skill


@dataclass(frozen=True, slots=True)
class FolderMove:
    """Which skills a folder's move takes along, as (path, new path), and those that are not in the new folder."""

    before: str
    path: str
    skills: tuple[tuple[str, str], ...]
    left: tuple[str, ...]


class MovedFolder(Result):
    """Skills that are below another folder now; `left` says of the others below the old one why they stayed."""

    before: str
    path: str
    moved: list[Moved]
    left: list[str]


def plan_folder_move(workspace: Workspace, old: str, new: str) -> FolderMove | None:
    """Return what a move of a folder of skills would take along; None where `old` is a skill, or nothing lies below it.

    Raises BadInput when the new folder is none, or holds none of the skills.
    """
    if not _is_path(known(old)) or find_tracked(workspace.store, old) is not None:
        return None
    before, tracked = _below(workspace, old)
    if not tracked:
        return None
    target = Path(os.path.realpath(os.path.expanduser(known(new))))
    if not target.is_dir():
        raise BadInput(f"'{new}' is not a folder: name the one in which the skills below '{before}' are now")
    places = [(skill.path, str(target / Path(skill.path).relative_to(before))) for skill in tracked]
    there = tuple((path, place) for path, place in places if place != path and os.path.isfile(main_path(place)))
    left = tuple(f"'{path}': there is no '{main_path(place)}'" for path, place in places if (path, place) not in there)
    if not there:
        raise BadInput(f"'{target}' holds none of the {len(places)} skills below '{before}': {'; '.join(left[:3])}")
    return FolderMove(before, str(target), there, left)


def move_folder(workspace: Workspace, plan: FolderMove) -> MovedFolder:
    """Move the skills of a plan, each as `move_skill` does; one that cannot be moved stays, and the others go on."""
    moved, left = list[Moved](), list(plan.left)
    for path, place in plan.skills:
        try:
            moved.append(move_skill(workspace, path, place))
        except SkillOptError as error:
            left.append(f"'{path}': {error}")
    return MovedFolder(
        before=plan.before, path=plan.path, moved=moved, left=left, next_step=_next_step(workspace, plan.before)
    )


def missing_folders(skills: Sequence[Skill]) -> tuple[list[str], str]:
    """Return the folders in which skills were that are gone, with how many; and how to move them all, or ""."""
    folders = sorted(os.path.dirname(skill.path) for skill in skills if is_gone(skill.path))
    if not folders:
        return [], ""
    told = [f"{folder} ({n} {'skill' if n == 1 else 'skills'})" for folder, n in Counter(folders).items()]
    # From the root of all files nothing is moved at once.
    whole = os.path.commonpath(folders)
    old = whole if whole != os.path.dirname(whole) else folders[0]
    return told, f"skillopt-mcp skills move {shlex.quote(old)} NEW-FOLDER"


def _is_path(text: str) -> bool:
    return "/" in text or os.sep in text or text.startswith("~") or text in (".", "..")


def _below(workspace: Workspace, old: str) -> tuple[str, list[Skill]]:
    """Return a folder as skills were tracked in it, resolved or as it is given, and those listed skills."""
    given = os.path.abspath(os.path.expanduser(old))
    listed = workspace.store.skills.list_listed()
    for folder in (given, os.path.realpath(given)):
        found = [skill for skill in listed if Path(skill.path).is_relative_to(folder)]
        if found:
            return folder, found
    return given, []


def _next_step(workspace: Workspace, before: str) -> str:
    roots = [root for root in workspace.store.permissions.list_roots() if Path(root).is_relative_to(before)]
    told = f" Skill roots that lay there: {', '.join(roots)}; say anew which may be written: " if roots else ""
    return f"Look at them with: skillopt-mcp skills.{told}{'skillopt-mcp skills add-root FOLDER' if roots else ''}"
