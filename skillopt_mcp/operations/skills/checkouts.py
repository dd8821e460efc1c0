"""Checkouts: what git tells of the skills in a checkout: which changed on a branch, and which files it ignores."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.folders import main_names
from skillopt_mcp.operations.skills.nesting import skills_below
from skillopt_mcp.records.skills import MAIN_FILE, MEMORY_FILES, is_memory

# A look takes no lock of the checkout's index, and starts no monitor. Filters that the user's own configuration defines
# run all the same: to tell which files differ, git has to read them as it would commit them.
_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false")
_SECONDS = 60.0
_OF_ANOTHER = re.compile("dubious ownership in repository at '(.+)'")
_NO_CHECKOUT = "not a git repository"


@dataclass(frozen=True, slots=True)
class Differing:
    """The folders of the skills, and the memory files, that differ from a base: those there, and those no more.

    `renamed` are others that are no more, with where they are now. `unseen` are the checkouts inside this one
    (submodules) that differ, and of which nothing is there.
    """

    changed: list[Path]
    deleted: list[Path]
    renamed: dict[Path, Path]
    unseen: list[Path]


def differing_skills(project: Path, base: str) -> Differing:
    """Return the skills that differ, as they are on disk, from where the branch of a checkout left `base`.

    What is not added yet counts, what git ignores does not. Of a checkout inside this one (a submodule) that differs,
    all skills count: git tells no more of it. Raises BadInput where git cannot tell.
    """
    if not base.strip():
        raise BadInput("no base is given to compare with (a variable that is not set?): name a branch or commit")
    top = Path(_asked(project, base, "rev-parse", "--show-toplevel").removesuffix("\n"))
    commit = _asked(project, base, "rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}").strip()
    left = _asked(project, base, "merge-base", commit, "HEAD").strip()
    told = _asked(top, base, "diff", "--name-only", "--no-renames", "--ignore-submodules=none", "-z", left)
    told += _asked(top, base, "ls-files", "--others", "--exclude-standard", "-z")
    paths = [top / name for name in told.split("\0") if name]
    around = [(path, skill_around(path, top)) for path in paths]
    # What a link leads to differs by itself.
    memory = {path for path, folder in around if folder is None and is_memory(str(path)) and not path.is_symlink()}
    there = {path for path in memory if path.is_file()}
    checkouts = [path for path, folder in around if folder is None and path.is_dir() and not path.is_symlink()]
    inside = {found for checkout in checkouts for found in _inside(checkout)}
    changed = sorted({folder for _, folder in around if folder} | there | inside)
    gone = {path.parent for path, folder in around if folder is None and path.name == MAIN_FILE} | (memory - there)
    renamed = _renamed(top, base, left) if gone else {}
    moved = {old: renamed[old] for old in sorted(gone & renamed.keys())}
    return Differing(changed, sorted(gone - moved.keys()), moved, sorted(filter(_is_empty, checkouts)))


def _renamed(top: Path, base: str, left: str) -> dict[Path, Path]:
    """Return the folders of skills, and the memory files, that git finds under another name than they had."""
    told = _asked(top, base, "diff", "--name-status", "--find-renames", "--diff-filter=R", "-z", left).split("\0")
    pairs = [(top / old, top / new) for old, new in zip(told[1::3], told[2::3], strict=False)]
    mains = {old.parent: new.parent for old, new in pairs if old.name == new.name == MAIN_FILE}
    return mains | {old: new for old, new in pairs if is_memory(str(old)) and is_memory(str(new))}


def _inside(checkout: Path) -> list[Path]:
    """Return the skills in a checkout, at whatever depth, and its memory files."""
    return [*skills_below(checkout), *(path for name in MEMORY_FILES if (path := checkout / name).is_file())]


def _is_empty(folder: Path) -> bool:
    try:
        return not os.listdir(folder)
    except OSError:
        return True


def skill_around(path: Path, top: Path | None = None) -> Path | None:
    """Return the folder of the skill that a path lies in, or is; None where there is none, in `top` if that is given.

    A folder is one of a skill by its main file, whatever the case of that name is.
    """
    for folder in (path, *path.parents):
        if main_names(folder):
            return folder
        if folder == top:
            break
    return None


def is_ignored(path: Path) -> bool:
    """Return whether git ignores a file or folder, so that nobody gets it by git; where nobody can tell, it is not."""
    try:
        return _git(path.parent, "check-ignore", "--quiet", "--", path.name).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _asked(folder: Path, base: str, *arguments: str) -> str:
    """Return what git says. Raises BadInput where it cannot, with its reason."""
    try:
        done = _git(folder, *arguments)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"git cannot be asked what has changed ({error}): name the skills") from error
    if done.returncode:
        said = os.fsdecode(done.stderr).strip().partition("\n")[0]
        raise BadInput(
            f"git cannot tell what has changed since {quoted(base)} ({quoted(said or 'no common ancestor', 200)}): "
            f"{_cure(folder, said)}"
        )
    return os.fsdecode(done.stdout)


def _cure(folder: Path, said: str) -> str:
    """Return what to do where git gives this reason."""
    if owned := _OF_ANOTHER.search(said):
        return (
            "the checkout is another user's. If you trust it: git config --global --add safe.directory "
            f"{shlex.quote(owned[1])}"
        )
    if _NO_CHECKOUT in said:
        return f"{quoted(str(folder), 500)} is no git checkout: go into one, or name the skills to check"
    return (
        "name a branch or commit that this checkout has, with its history (a CI job: actions/checkout with "
        "fetch-depth: 0)"
    )


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [*_GIT, "-C", str(folder), *arguments]
    # Its reasons are looked at: they come in one language.
    environ = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False, env=environ)
