"""Moving: a skill whose folder was renamed goes on with all that is known of it; one that is gone is hidden."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from pydantic import Field

from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput, Busy, NotFound, Refused
from skillopt_mcp.folders import read_skill, skill_folder, skill_name
from skillopt_mcp.operations.finding import called, find_tracked, is_gone, main_path
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.recovery import lock_name
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import candidate_id
from skillopt_mcp.records.skills import Skill, short
from skillopt_mcp.store.skills import told

_IDS_SHOWN = 10


class Moved(Result):
    """A skill that is at another path now; `edited` tells that its files are not those that were seen last.

    `joined` says what had been recorded of the new folder already, and joined it; `candidates` has the new id of each
    candidate of that folder by its old one.
    """

    skill: str
    path: str
    before: str
    version: str
    edited: bool
    joined: str = ""
    candidates: dict[str, str] = Field(default_factory=dict)


class Forgotten(Result):
    """A skill that is listed no more; `kept` says what the store goes on holding of it."""

    skill: str
    path: str
    kept: str


def move_skill(workspace: Workspace, old: str, new: str) -> Moved:
    """Let a tracked skill be at another folder from now on, which is there already, with all that is known of it.

    Tasks, attempts and candidates of the new folder join those of the skill. Raises NotFound, BadSkill, BadInput where
    nothing moves, Refused when the old folder still holds a skill or the new one has been worked on beyond that, and
    Busy while another process changes its files.
    """
    skill = _tracked(workspace, old)
    place = _place(skill, new)
    if str(place) == skill.path:
        raise BadInput(f"'{skill.path}' is where the skill is already: name the folder that it was moved to")
    files = read_skill(place)
    if _main_file(skill.path) != _main_file(str(place)):
        raise BadInput(f"'{place}' is another kind of document than '{skill.path}': its versions would not fit there")
    if os.path.realpath(skill.path) != str(place) and not is_gone(skill.path):
        raise Refused(f"'{skill.path}' still holds a skill, or cannot be looked at: move that folder first")
    lock = lock_run(workspace.store.locks_path, lock_name(skill.id))
    if lock is None:
        raise Busy(f"another process is changing '{skill.name}' right now: look at its history and try again")
    try:
        candidates = _new_ids(workspace, skill, place)
        joined = told(workspace.store.skills.move(skill.id, skill_name(place), str(place)))
    finally:
        lock.release()
        workspace.forget(skill)
    moved = workspace.again(workspace.store.skills.get_skill(skill.id))
    edited = files.digest != skill.live_version
    said = _told_joined(joined, candidates)
    if edited:
        said.append(f"Its files are not those seen last ({short(skill.live_version)}): that is an edit of yours now.")
    look = "tasks check" if "tasks" in joined else "show"
    said.append(f"Look at it with: skillopt-mcp {look} {called(workspace.store, moved)}")
    return Moved(
        skill=moved.name, path=moved.path, before=skill.path, version=short(moved.live_version), edited=edited,
        joined=joined, candidates=candidates, next_step=" ".join(said),
    )  # fmt: skip


def _told_joined(joined: str, candidates: Mapping[str, str]) -> list[str]:
    said = ["Tasks, attempts and history went with it."]
    if joined:
        ids = ", the candidates under new ids" if "candidates" in joined else ""
        said.append(f"Of the new folder, {joined} joined them{ids}.")
    if candidates:
        pairs = ", ".join(f"{old} is {new} now" for old, new in islice(candidates.items(), _IDS_SHOWN))
        n_more = len(candidates) - _IDS_SHOWN
        said.append(f"{pairs}{f', and {n_more} more (--json tells all)' if n_more > 0 else ''}.")
    return said


def forget_skill(workspace: Workspace, name: str) -> Forgotten:
    """List a skill no more whose folder is gone, or of which nothing was recorded; the store keeps what it has.

    Raises NotFound, and Refused for a skill that is there and has something recorded.
    """
    skill = _tracked(workspace, name)
    recorded = workspace.store.skills.count_recorded(skill.id)
    # It is taken back with the skill.
    recorded.pop("standing permissions", None)
    held = told(recorded)
    if held and not is_gone(skill.path):
        raise Refused(
            f"'{skill.path}' is there, and the store holds {held} of it: only a skill whose folder is gone, or of "
            "which nothing was recorded, is forgotten"
        )
    workspace.store.skills.forget(skill.id)
    workspace.forget(skill)
    back = f"skillopt-mcp skills move {shlex.quote(skill.path)} NEW-PATH" if held else "use its folder again"
    return Forgotten(
        skill=skill.name, path=skill.path, kept=held,
        next_step=f"Nothing was deleted; to have it back: {back}.{_told_life(workspace, skill)}",
    )  # fmt: skip


def _told_life(workspace: Workspace, skill: Skill) -> str:
    """Return that the error rate of a skill is one life's, where tests have taken of it."""
    n_tests = workspace.store.decisions.count_tests(skill.id)
    if not n_tests:
        return ""
    return (
        f" It had {counted(n_tests, 'promotion test')}: a copy of other words, or another name, begins a life with an "
        "error rate of its own."
    )


def _tracked(workspace: Workspace, name: str) -> Skill:
    name = known(name)
    found = find_tracked(workspace.store, name)
    if found is None:
        raise NotFound(f"no skill {quoted(name)} is tracked: see 'skillopt-mcp skills'")
    return found


def _new_ids(workspace: Workspace, skill: Skill, place: Path) -> dict[str, str]:
    """Return which ids the candidates of a new folder will have as those of the skill that is moved there."""
    store = workspace.store
    other = store.skills.find_at(str(place))
    there = store.candidates.list_candidates(other.id, steps=True) if other and other.id != skill.id else []
    return {each.id: candidate_id(skill.id, each.base_version, each.version_id) for each in there}


def _main_file(path: str) -> str:
    return os.path.basename(main_path(path))


def _place(skill: Skill, new: str) -> Path:
    """Return the folder that is meant: a path, or the new name of a folder that stayed where it was."""
    beside = Path(skill.path).parent / new
    if Path(new).name == new and os.path.isfile(main_path(str(beside))):
        return skill_folder(beside)
    return skill_folder(os.path.expanduser(new))
