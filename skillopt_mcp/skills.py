"""Skills: which are tracked, moved and forgotten, and which of a checkout differ from a base."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.documents.lint import SETTLE, conflicts
from skillopt_mcp.documents.text import dominant_ending, quoted, to_lf
from skillopt_mcp.errors import BadInput, BadSkill, Busy, NotFound, Refused
from skillopt_mcp.limits import FILE_BYTES, SKILL_BYTES, SKILL_FILES
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Result
from skillopt_mcp.records.skills import MAIN_FILE, MEMORY_FILES, Skill, SkillFile, SkillFiles, is_memory, short
from skillopt_mcp.skill_folders import (
    find_skill_folders,
    find_tracked,
    handle,
    is_as_shipped,
    is_gone,
    known,
    lock_name,
    main_names,
    main_path,
    read_skill,
    skill_folder,
    skill_name,
)
from skillopt_mcp.store.skills import describe_recorded
from skillopt_mcp.workspace import Workspace


def first_to_track(workspace: Workspace) -> NextStep | None:
    """Return how to begin where no skill is tracked yet, by one that lies in a skill root; no store is made to look."""
    if workspace.is_made and workspace.store.skills.list_listed():
        return None
    here = (str(folder) for folder in find_skill_folders(workspace.roots()) if not is_as_shipped(folder))
    return NextStep(
        action="skills track", arguments={"folder": next(here, "PATH/TO/SKILL")}, why="no skill is tracked yet"
    )


def to_track(workspace: Workspace) -> str:
    """Return `first_to_track` as a sentence, "" for none."""
    step = first_to_track(workspace)
    return f"No skill is tracked yet, so that nothing is recorded. To begin: {step.as_command()}" if step else ""


_HOSTS = (".claude", ".agents", ".codex")
_OF_OTHERS = ("node_modules", "site-packages", "__pycache__")
_DEEPEST = 6
_MOST_FOLDERS = 5_000


def nested_roots(folder: Path) -> dict[Path, list[Path]]:
    """Return the folders below one that hold skills right inside, each with these skills; `folder` itself is none."""
    roots: dict[Path, list[Path]] = {}
    for skill in skills_below(folder):
        if skill.parent != folder:
            roots.setdefault(skill.parent, []).append(skill)
    return roots


def skills_below(folder: Path) -> Iterator[Path]:
    """Yield the skills in a folder, at whatever depth; `folder` itself is none, and a skill holds no other.

    Hidden folders but the hosts' own, links and what package managers unpack are passed over, and so is all that lies
    very deep or behind thousands of folders.
    """
    waiting = deque([(folder, 0)])
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            break
        inside, depth = waiting.popleft()
        names, below = _listed(inside)
        if depth and MAIN_FILE.lower() in names:
            yield inside
        elif depth < _DEEPEST:
            waiting.extend((inside / name, depth + 1) for name in below)


def _listed(folder: Path) -> tuple[set[str], list[str]]:
    """Return the names in a folder in lower case, and of its folders those to look into; a closed one has none."""
    try:
        with os.scandir(folder) as entries:
            listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return set(), []
    folders = sorted(name for name, is_folder in listed if is_folder)
    looked_into = [name for name in folders if name in _HOSTS or not (name.startswith(".") or name in _OF_OTHERS)]
    return {name.lower() for name, is_folder in listed if not is_folder}, looked_into


# A look takes no lock of the checkout's index, and starts no monitor. Filters that the user's own configuration defines
# run all the same: git has to read files as it would commit them to compare them.
_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false")
_SECONDS = 60.0
_OF_ANOTHER = re.compile("dubious ownership in repository at '(.+)'")
_NO_CHECKOUT = "not a git repository"


@dataclass(frozen=True, slots=True)
class Differing:
    """The folders of the skills, and the memory files, that differ from a base: those there, and those no more.

    `unseen` are the checkouts inside this one (submodules) that differ, and of which nothing is there.
    """

    changed: list[Path]
    deleted: list[Path]
    unseen: list[Path]


def differing_skills(project: Path, base: str) -> Differing:
    """Return the skills that differ, as they are on disk, from where the branch of a checkout left `base`.

    What is not added yet counts, what git ignores does not. Of a checkout inside this one (a submodule) that differs,
    all skills count: git shows no more of it. Raises BadInput where git fails.
    """
    if not base.strip():
        raise BadInput("no base is given to compare with (a variable that is not set?): name a branch or commit")
    top = Path(_asked(project, base, "rev-parse", "--show-toplevel").removesuffix("\n"))
    commit = _asked(project, base, "rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}").strip()
    left = _asked(project, base, "merge-base", commit, "HEAD").strip()
    names = _asked(top, base, "diff", "--name-only", "--no-renames", "--ignore-submodules=none", "-z", left)
    names += _asked(top, base, "ls-files", "--others", "--exclude-standard", "-z")
    paths = [top / name for name in names.split("\0") if name]
    around = [(path, skill_around(path, top)) for path in paths]
    # What a link leads to differs by itself.
    memory = {path for path, folder in around if folder is None and is_memory(str(path)) and not path.is_symlink()}
    there = {path for path in memory if path.is_file()}
    checkouts = [path for path, folder in around if folder is None and path.is_dir() and not path.is_symlink()]
    inside = {found for checkout in checkouts for found in _inside(checkout)}
    changed = sorted({folder for _, folder in around if folder} | there | inside)
    gone = {path.parent for path, folder in around if folder is None and path.name == MAIN_FILE} | (memory - there)
    return Differing(changed, sorted(gone), sorted(filter(_is_empty, checkouts)))


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
    """Return whether git ignores a file or folder, so that it is not shared; False where git fails."""
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
            f"git cannot compare with {quoted(base)} ({quoted(said or 'no common ancestor', 200)}): "
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


_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_OF_GIT = ".git"


def hidden_files(folder: Path) -> tuple[SkillFiles, list[str]]:
    """Return the dot files in a folder and all below its dot folders, and the paths of those that were not read.

    As much is read as a skill may be large; what lies behind that is not even listed, but for its first. Links, folders
    that git ignores and what it keeps for itself are passed over.
    """
    read, unread, n_bytes = list[SkillFile](), list[str](), 0
    for path in islice(_hidden(folder), SKILL_FILES + 1):
        inner = path.relative_to(folder).as_posix()
        content = _content(path) if len(read) < SKILL_FILES else None
        n_bytes += len(content or b"")
        if content is None or n_bytes > SKILL_BYTES:
            unread.append(inner)
            if n_bytes > SKILL_BYTES:
                break
        else:
            read.append(SkillFile(inner, content, False))
    return SkillFiles(tuple(read)), unread


def _hidden(folder: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(folder):
        inside = Path(at).relative_to(folder)
        is_hidden = any(part.startswith(".") for part in inside.parts)
        folders[:] = sorted(name for name in folders if not _is_unshared(Path(at, name), is_hidden=is_hidden))
        paths = (Path(at, name) for name in sorted(names) if (is_hidden or name.startswith(".")) and name != _OF_GIT)
        yield from (path for path in paths if _is_file(path))


def _is_unshared(folder: Path, *, is_hidden: bool) -> bool:
    if folder.name == _OF_GIT:
        return True
    # Below a dot folder that is shared, one question each would take long.
    return not is_hidden and folder.name.startswith(".") and is_ignored(folder)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _content(path: Path) -> bytes | None:
    """Return what a file holds, None where it is too large or cannot be read."""
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            content = file.read(FILE_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= FILE_BYTES else None


def describe_endings(before: SkillFiles, live: SkillFiles) -> str:
    """Return that what is live differs from a version in line endings alone, and how git leaves these; else ""."""
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
    found = next(conflicts(files), "")
    if found:
        raise Refused(f"{found}: {SETTLE}; nothing was spent")


def describe_unreadable(folder: Path) -> str:
    """Return that the skill in a folder cannot be read, why, and how to look at it; "" where it can be."""
    try:
        read_skill(folder)
    except BadSkill as error:
        return f"cannot be read: {error}; look at it with: skillopt-mcp check {shlex.quote(str(folder))}"
    return ""


class Moved(Result):
    """A skill that is at another path now; `edited` says that its files are not those that were seen last.

    `set_aside` is what was recorded of the new folder: the same move again swaps it back.
    """

    skill: str
    path: str
    before: str
    version: str
    edited: bool
    set_aside: str


class Forgotten(Result):
    """A skill that is listed no more; `kept` says what the store goes on holding of it."""

    skill: str
    path: str
    kept: str


def move_skill(workspace: Workspace, old: str, new: str) -> Moved:
    """Let a tracked skill be at another folder from now on, which is there already, with all that is known of it.

    What was recorded of the new folder is set aside. Raises NotFound, BadSkill, BadInput where nothing moves, Refused
    when the old folder still holds a skill, and Busy while another process changes its files.
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
        set_aside = describe_recorded(workspace.store.skills.move(skill.id, skill_name(place), str(place)))
    finally:
        lock.release()
        workspace.forget(skill)
    moved = workspace.again(workspace.store.skills.get_skill(skill.id))
    edited = files.digest != skill.live_version
    return Moved(
        skill=moved.name, path=moved.path, before=skill.path, version=short(moved.live_version), edited=edited,
        set_aside=set_aside, next_step=NextStep(action="inspect", arguments={"id": handle(workspace.store, moved)}),
    )  # fmt: skip


def forget_skill(workspace: Workspace, name: str) -> Forgotten:
    """List a skill no more whose folder is gone, or of which nothing was recorded; the store keeps what it has.

    Raises NotFound, and Refused for a skill that is there and has something recorded.
    """
    skill = _tracked(workspace, name)
    recorded = workspace.store.skills.count_recorded(skill.id)
    # It is taken back with the skill.
    recorded.pop("standing permissions", None)
    held = describe_recorded(recorded)
    if held and not is_gone(skill.path):
        raise Refused(
            f"'{skill.path}' is there, and the store holds {held} of it: only a skill whose folder is gone, or of "
            "which nothing was recorded, is forgotten"
        )
    workspace.store.skills.forget(skill.id)
    workspace.forget(skill)
    back = NextStep(action="skills move", arguments={"old": skill.path}, why="to have it back; nothing was deleted")
    return Forgotten(skill=skill.name, path=skill.path, kept=held, next_step=back if held else None)


def _tracked(workspace: Workspace, name: str) -> Skill:
    name = known(name)
    found = find_tracked(workspace.store, name)
    if found is None:
        raise NotFound(f"no skill {quoted(name)} is tracked: see 'skillopt-mcp skills'")
    return found


def _main_file(path: str) -> str:
    return os.path.basename(main_path(path))


def _place(skill: Skill, new: str) -> Path:
    """Return the folder that is meant: a path, or the new name of a folder that stayed where it was."""
    sibling = Path(skill.path).parent / new
    if Path(new).name == new and os.path.isfile(main_path(str(sibling))):
        return skill_folder(sibling)
    return skill_folder(os.path.expanduser(new))
