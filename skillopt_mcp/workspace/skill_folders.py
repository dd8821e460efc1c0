"""Skill folders and memory files: how they are read and found, and changes of them that were cut short."""

from __future__ import annotations

import difflib
import errno
import os
import re
import shlex
import stat
import time
import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from skillopt_mcp.core.candidates import Promotion
from skillopt_mcp.core.errors import BadSkill, NotFound, Refused, StoreError
from skillopt_mcp.core.limits import FILE_BYTES, MIB, SKILL_BYTES, SKILL_DEPTH, SKILL_FILES
from skillopt_mcp.core.skills import MAIN_FILE, MEMORY_FILES, Skill, SkillFile, SkillFiles, is_memory, short
from skillopt_mcp.core.text import is_passed_over, is_too_deep, is_unfit, quoted, storable
from skillopt_mcp.documents.live_files import find_file, replace_files, sweep
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.skills import GATED

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe put in the place of a file would hang the server.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# Where skills lie in a folder that is none: those of its hosts, and a folder of skills.
_PLACES = (".claude/skills", ".agents/skills", ".codex/skills", "skills", "")
HOSTS = (".claude", ".agents", ".codex")
# A hidden file or folder that is no skill of a host's.
_HIDDEN = re.compile(r"(?:^|/)\.(?!(?:claude|agents|codex)/skills/)")
_INSIDE_SHOWN = 3
_OWN = Path(__file__).resolve().parents[1] / "packaging/plugin/skills"
_SETTLED_LATER = "a change of it was cut short, and is settled once its files can be read"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def skill_folder(path: Path | str) -> Path:
    """Return the resolved folder of a skill, given the folder or its SKILL.md, and of a memory file itself.

    Raises BadSkill for a useless path.
    """
    given = os.fspath(path)
    if given.endswith(("/", "/.")):
        given = str(Path(given))
    if _CONTROL.search(given):
        raise BadSkill(f"{quoted(given)} has control characters or is not text; rename the folder")
    parent, name = os.path.split(given)
    if is_memory(given):
        return Path(os.path.realpath(parent), name)
    return Path(os.path.realpath(parent if name == MAIN_FILE else given))


def files_folder(path: Path) -> Path:
    """Return the folder that the files of a skill lie in, given what `skill_folder` returned."""
    return path.parent if is_memory(str(path)) else path


def skill_name(path: Path) -> str:
    """Return the name of a skill: that of its folder. Raises BadSkill when the folder has none.

    A memory file is named after its folder and itself.
    """
    folder = skill_folder(path)
    name = f"{folder.parent.name}:{folder.name}" if is_memory(str(path)) else folder.name
    if not name:
        raise BadSkill(f"{quoted(str(path))} is not a skill folder; give the folder that holds {MAIN_FILE}")
    return name


def read_skill(path: Path, *, is_resolved: bool = False) -> SkillFiles:
    """Return all files of a skill, given its folder or its SKILL.md; dot files and __pycache__ are left out.

    A memory file is a skill of one file, without what lies next to it. Raises BadSkill when the folder cannot
    be read, is too large, holds a special file or a link that is not followed, or has no main document that is UTF-8
    text.
    """
    folder = path if is_resolved else skill_folder(path)
    if is_memory(str(folder)):
        with _open_folder(folder.parent) as opened:
            memory = SkillFile(folder.name, *_read_file(opened, folder.name, folder))
        _check_text(memory, folder)
        return SkillFiles((memory,))
    files: list[SkillFile] = []
    n_bytes = 0
    with _open_folder(folder) as opened:
        _check_there(opened, folder)
        for parent, name, inner in _walk_files(opened, folder):
            content, executable = _read_file(parent, name, f"{folder}/{inner}")
            n_bytes += len(content)
            if n_bytes > SKILL_BYTES:
                raise BadSkill(f"{quoted(str(folder))} is larger than {SKILL_BYTES // MIB} MiB; move large files out")
            files.append(SkillFile(inner, content, executable))
    skill = SkillFiles(tuple(files))
    main = skill.get(MAIN_FILE)
    if main is None:  # a folder of that name, or it has just been removed
        raise _no_skill(folder)
    _check_text(main, folder / MAIN_FILE)
    return skill


def read_main(folder: Path) -> SkillFiles:
    """The beginning of the main file of a skill, alone. Raises BadSkill where it cannot be read, or is a link."""
    path = folder / MAIN_FILE
    with _open_folder(folder) as opened, _explain_errors(path):
        file = os.fdopen(os.open(MAIN_FILE, _FILE_FLAGS, dir_fd=opened), "rb")
    with file:
        content = file.read(FILE_BYTES) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b"\0"
    main = SkillFile(MAIN_FILE, content if len(content) < FILE_BYTES else content[: content.rfind(b"\n") + 1], False)
    _check_text(main, path)
    return SkillFiles((main,))


def stamp(path: Path) -> tuple[tuple[str, int, int, int, int, int], ...]:
    """Return path, size, mtime and ctime (ns), inode and mode of each file of a skill, without reading any.

    Equal stamps mean an unchanged folder, but for a change within the same tick of the disk's clock (some ms): before
    a write, read again. Raises BadSkill as `read_skill` does.
    """
    return stamp_of(skill_folder(path))


def stamp_of(folder: Path) -> tuple[tuple[str, int, int, int, int, int], ...]:
    """Return the `stamp` of what `skill_folder` returned: a path that is resolved already."""
    if is_memory(str(folder)):
        with _open_folder(folder.parent) as opened, _explain_errors(folder):
            return (_stamp_file(folder.name, os.stat(folder.name, dir_fd=opened, follow_symlinks=False)),)
    rows = []
    with _open_folder(folder) as opened:
        _check_there(opened, folder)
        for parent, name, inner in _walk_files(opened, folder):
            with _explain_errors(folder / inner):
                rows.append(_stamp_file(inner, os.stat(name, dir_fd=parent, follow_symlinks=False)))
    return tuple(sorted(rows))


def _stamp_file(inner: str, found: os.stat_result) -> tuple[str, int, int, int, int, int]:
    return (inner, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode)


def default_roots(home: Path, project: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders in which Claude Code and Codex look for skills, the project's first; they need not exist."""
    claude = project / (environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = project / (environ.get("CODEX_HOME") or home / ".codex")
    around = [root for folder in (project, *project_folders(project)[1:]) for root in project_roots(folder)]
    return list(dict.fromkeys([*around, *(owner / "skills" for owner in (claude, codex, home / ".agents"))]))


def project_roots(folder: Path) -> list[Path]:
    """Where hosts look for the skills of one folder of a project; they need not exist."""
    return [folder / owner / "skills" for owner in HOSTS]


def project_folders(project: Path) -> list[Path]:
    """Return a folder, resolved, and those around it, up to that of the git checkout that it lies in.

    Only a checkout of this user's own counts, as git has it: other users' skills further up are not theirs.
    Nor does one of the whole machine.
    """
    here = Path(os.path.realpath(project))
    around = [here, *here.parents][:-1]
    for n, folder in enumerate(around, 1):
        with suppress(OSError):
            return around[:n] if os.lstat(folder / ".git").st_uid == os.geteuid() else [here]
    return [here]


def find_skill_folders(roots: Iterable[Path], known: Container[str] = ()) -> list[Path]:
    """The folders right inside the roots that hold a SKILL.md, by root and name; each real one once, if not `known`."""
    found: dict[str, Path] = {}
    for root in roots:
        try:
            with os.scandir(root) as entries:
                links = {entry.name: entry.is_symlink() for entry in entries}
        except OSError:
            continue
        real = os.path.join(os.path.realpath(root), "")
        for name in sorted(links):
            path = os.path.realpath(real + name) if links[name] else real + name
            is_unfit = path in known or name.startswith(".") or _CONTROL.search(name)
            if not is_unfit and os.path.isfile(f"{path}/{MAIN_FILE}"):
                found.setdefault(path, root / name)
    return list(found.values())


def main_names(folder: Path) -> list[str]:
    """Return the names in a folder that are SKILL.md, or would be but for their case."""
    try:
        return [name for name in os.listdir(folder) if name.lower() == MAIN_FILE.lower()]
    except OSError:
        return []


def is_as_shipped(folder: Path) -> bool:
    """Whether a skill is one that comes with this program, unchanged."""
    try:
        return (_OWN / folder.name / MAIN_FILE).read_bytes() == (folder / MAIN_FILE).read_bytes()
    except OSError:
        return False


@contextmanager
def _explain_errors(path: Path | str) -> Iterator[None]:
    """Turn the system's errors about `path` into BadSkill."""
    try:
        yield
    except OSError as error:
        why = f"cannot be read ({error.strerror}); check the path and the disk"
        if isinstance(error, FileNotFoundError):
            why = "does not exist; check the path"
        elif isinstance(error, NotADirectoryError):
            why = f"is not a folder; give the skill's folder or its {MAIN_FILE}"
        elif isinstance(error, PermissionError):
            why = "cannot be read; give this user permission to read it"
        elif error.errno == errno.ELOOP:
            why = "is a link; put the file itself in its place"
        raise BadSkill(f"{quoted(str(path), 200)} {why}") from None


@contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    """Lend the descriptor of a folder; the system's errors about it are turned into BadSkill."""
    with _explain_errors(folder):
        opened = os.open(folder, _FOLDER_FLAGS)
        try:
            yield opened
        finally:
            os.close(opened)


def _walk_files(opened: int, folder: Path) -> Iterator[tuple[int, str, str]]:
    """Yield every file as (descriptor of its folder, name, path inside the skill); a link's name is where it leads."""
    for n_before, (parent, name, inner) in enumerate(_walk_folder(opened, folder, "")):
        if n_before == SKILL_FILES:
            raise BadSkill(
                f"{quoted(str(folder))} has more than {SKILL_FILES} files; move those that are not the skill's"
            )
        yield parent, name, inner


def _walk_folder(opened: int, folder: Path, prefix: str) -> Iterator[tuple[int, str, str]]:
    with os.scandir(opened) as entries:
        for entry in entries:
            if is_passed_over(entry.name):
                continue
            inner, fault, is_link = prefix + entry.name, "", entry.is_symlink()
            name = os.path.realpath(folder / inner) if is_link else entry.name
            if is_unfit(entry.name):
                fault = "has control characters, a backslash or no text as its name; rename it"
            elif is_link and (refusal := _refuse_link(folder, name)):
                fault = refusal
            elif os.path.isfile(name) if is_link else entry.is_file(follow_symlinks=False):
                yield opened, name, inner
                continue
            elif not (os.path.isdir(name) if is_link else entry.is_dir(follow_symlinks=False)):
                fault = "is not a regular file; remove it from the skill"
            elif is_too_deep(f"{inner}/"):
                fault = f"is nested too deep; {SKILL_DEPTH} levels are the most"
            if fault:
                raise BadSkill(f"{quoted(str(folder / inner), 200)} {fault}")
            with _explain_errors(folder / inner):
                below = os.open(name, _FOLDER_FLAGS, dir_fd=opened)
            try:
                yield from _walk_folder(below, folder, f"{inner}/")
            finally:
                os.close(below)


def _refuse_link(folder: Path, target: str) -> str:
    """Why a link of a skill is not followed to where it leads, as the end of a sentence; "" where it is.

    A skill of somebody else's must not bring along what its reader keeps to himself: hidden files, and those of /proc.
    """
    if not os.path.exists(target):
        return "is a link that leads to no file or folder; put the file itself in its place"
    around = os.path.commonpath((folder, target))
    if os.path.basename(around) in HOSTS:
        around = os.path.dirname(around)
    is_kept = _HIDDEN.search(target.removeprefix(around)) or target.startswith(("/proc/", "/sys/"))
    return f"is a link to {quoted(target, 200)}, which no skill brings along" if is_kept or around == target else ""


def _read_file(parent: int, name: str, path: Path | str) -> tuple[bytes, bool]:
    with _explain_errors(path), os.fdopen(os.open(name, _FILE_FLAGS, dir_fd=parent), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise BadSkill(f"{quoted(str(path), 200)} is not a regular file; remove it from the skill")
        content = file.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise BadSkill(f"{quoted(str(path), 200)} is larger than {FILE_BYTES // MIB} MiB; move it out of the skill")
    return content, bool(mode & stat.S_IXUSR)


def _check_there(opened: int, folder: Path) -> None:
    """Raise BadSkill for a folder that is no skill, before all that lies in it is looked at."""
    try:
        os.stat(MAIN_FILE, dir_fd=opened, follow_symlinks=False)
    except FileNotFoundError:
        raise _no_skill(folder) from None


def _no_skill(folder: Path) -> BadSkill:
    if written := [name for name in main_names(folder) if name != MAIN_FILE]:
        return BadSkill(f"{quoted(str(folder), 200)} has no {MAIN_FILE}, which hosts look for; rename {written[0]}")
    inside = [quoted(str(each), 200) for each in find_skill_folders(folder / place for place in _PLACES)]
    more = f" and {len(inside) - _INSIDE_SHOWN} more" if len(inside) > _INSIDE_SHOWN else ""
    are = "are the skills" if len(inside) > 1 else "is the skill"
    such = f" (inside it {are} {', '.join(inside[:_INSIDE_SHOWN])}{more})" if inside else ""
    return BadSkill(f"{quoted(str(folder), 200)} has no {MAIN_FILE}; write one, or give the folder that has it{such}")


def _check_text(main: SkillFile, path: Path) -> None:
    shown = quoted(str(path), 200)
    if b"\0" in main.content:
        raise BadSkill(f"{shown} has a NUL byte, so it is no text; save it as UTF-8 text")
    try:
        main.content.decode()
    except UnicodeDecodeError as error:
        raise BadSkill(f"{shown} is not UTF-8 at byte {error.start}; save it as UTF-8 text") from None


NAMES_SHOWN = 10
_COMPARED, _ALIKE = 100, 0.6


def find_folder(store: Store | None, roots: Sequence[Path], name: str, project: Path) -> Path:
    """Return the folder of the one skill of this name that is tracked or lies in a root.

    Where there are more, it is the nearest to the folder `project`. A forgotten one is it only where there is no other.
    Raises NotFound when there is none, or more than one.
    """
    spelled = [name] if name.isascii() else [unicodedata.normalize(form, name) for form in ("NFC", "NFD")]
    tracked = [path for each in spelled for path in store.skills.find_paths(each)] if store else []
    forgotten = {path for each in spelled for path in store.skills.find_forgotten_paths(each)} if store else set[str]()
    placed = [] if name.startswith(".") else [os.path.realpath(root / each) for root in roots for each in spelled]
    known_places = list(dict.fromkeys([*tracked, *placed]))
    listed = [place for place in known_places if place not in forgotten]
    places = _find_places(listed, tracked) or _find_places(known_places, tracked)
    near = _choose_nearest(places, roots, project)
    if len(near) == 1:
        return Path(near[0])
    if near:
        paths = ", ".join(f"'{place}'" for place in near[:NAMES_SHOWN])
        raise NotFound(f"{len(near)} skills are named {quoted(name)}: use the path, one of {paths}")
    misspelt = next((os.path.join(place, main) for place in placed for main in main_names(Path(place))), "")
    rename = f"; hosts look for {MAIN_FILE} alone: rename {quoted(misspelt, 500)}" if misspelt else ""
    if (id := _ID.fullmatch(name)) and len(name) == _ID_LENGTH:
        what = _KINDS[id[1].lower()]
        raise NotFound(f"{quoted(name)} is the id of a {what}, not a skill; see it: skillopt-mcp show {name}")
    names = {skill.name for skill in store.skills.list_listed()} if store else set[str]()
    names |= {path.name for path in find_skill_folders(roots) if not is_as_shipped(path)}
    pairs = {each: (None, name[:_COMPARED].casefold(), each[:_COMPARED].casefold()) for each in names}
    ratios = {each: difflib.SequenceMatcher(*pair).ratio() for each, pair in pairs.items()}
    shown = sorted(names, key=lambda each: (-ratios[each] if ratios[each] >= _ALIKE else 0.0, each))[:NAMES_SHOWN]
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    there = f"found: {', '.join(map(quoted, shown)) + more or 'none'}"
    if shown and ratios[shown[0]] >= _ALIKE:
        there = f"did you mean {quoted(shown[0])}?"
    raise NotFound(
        f"no skill {quoted(name)} is known or lies in a skill folder ({there}): "
        f"give the path of its folder once, and it is tracked from then on{rename}"
    )


def folder_at(text: str) -> Path | None:
    """Return the folder that a text is the path of, None where it looks like a name. Raises BadSkill."""
    is_path = "/" in text or os.sep in text or text.startswith("~") or text in (".", "..", MAIN_FILE, *MEMORY_FILES)
    return skill_folder(os.path.expanduser(text)) if is_path else None


def root_for(path: str) -> str:
    """What a person has to allow, so that a skill at this path may be promoted."""
    return path if is_memory(path) else os.path.dirname(path)


def handle(store: Store, skill: Skill) -> str:
    """What to call a skill by: its name, or its path where another has that name, or it looks like an option."""
    forgotten = store.skills.find_forgotten_paths(skill.name)
    others = [path for path in store.skills.find_paths(skill.name) if path not in (skill.path, *forgotten)]
    return skill.path if others or skill.name.startswith("-") or skill.path.startswith(GATED) else skill.name


def quote_handle(store: Store, skill: Skill) -> str:
    """Return the handle of a skill as one word of a shell's command."""
    return shlex.quote(handle(store, skill))


def find_tracked(store: Store, name_or_path: str) -> Skill | None:
    """Return a tracked skill, whether or not its folder is there, or None. Raises NotFound for a shared name."""
    path = os.path.abspath(os.path.expanduser(name_or_path))
    # What has become a link since is tracked by its own path.
    folder = os.path.dirname(path) if os.path.basename(path) == MAIN_FILE else path
    places = (folder, os.path.realpath(folder))
    return next(filter(None, map(store.skills.find_at, places)), None) or store.skills.find_skill(name_or_path)


def _describe_unusable(store: Store, path: str, error: BadSkill) -> str:
    """Why a skill cannot be read, and what to do about it where it was tracked and is gone."""
    skill, last = store.skills.find_at(path), store.promotions.last_begun(path)
    why = str(error)
    if skill and is_nowhere(path):
        shown = shlex.quote(path)
        why = (
            f"{quoted(path, 500)} does not exist any more; if it was renamed or moved: skillopt-mcp skills move "
            f"{shown} NEW-PATH; if it is gone for good: skillopt-mcp skills forget {shown}; if it was lost: "
            f"{_restore(skill)}"
        )
    elif skill and is_gone(path):
        why += f"; or, if it was lost: {_restore(skill)}"
    return f"{why}; {_SETTLED_LATER}" if last and last.is_open else why


def _restore(skill: Skill) -> str:
    """How to have a skill's files back as they were last seen: the store holds every version of them."""
    version = shlex.quote(f"{skill.path}@{short(skill.live_version)}")
    # Only a folder that is new or empty is written to.
    folder = "NEW-FOLDER" if is_memory(skill.path) or os.path.lexists(skill.path) else shlex.quote(skill.path)
    return f"skillopt-mcp show {version} --out {folder}"


def main_path(place: str) -> str:
    """Return the path of the main document of a skill's folder, or of a memory file."""
    return place if is_memory(place) else os.path.join(place, MAIN_FILE)


def is_gone(place: str) -> bool:
    """Whether a skill is gone: its main document is not there."""
    return is_nowhere(main_path(place))


def is_nowhere(path: str) -> bool:
    """Whether a path does not exist; what cannot be looked at may exist."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _choose_nearest(places: list[str], roots: Sequence[Path], project: Path) -> list[str]:
    """The places that a folder has itself, else those deeper inside it, else those of the folders around it.

    These are looked at up to the git checkout, the nearest first, and then all that lies in that. Where there is
    nothing at all, it is all places. A folder has itself what lies right inside it or one of its skill folders for
    hosts, and then also what is in other roots right inside it: which of such two is meant is not clear.
    """
    around, owned = project_folders(project), []
    for folder in around:
        own = {str(folder), *map(os.path.realpath, project_roots(folder))}
        if any(os.path.dirname(place) in own for place in places):
            own |= {str(root) for root in roots if root.parent == folder}
        owned.append([place for place in places if os.path.dirname(place) in own])
    groups = [owned[0], _list_inside(places, around[0]), *owned[1:], _list_inside(places, around[-1])]
    return next(filter(None, groups), places)


def _list_inside(places: Sequence[str], folder: Path) -> list[str]:
    return [place for place in places if Path(place).is_relative_to(folder)]


def _find_places(places: Sequence[str], tracked: Sequence[str]) -> list[str]:
    """Return the places where a skill is; where there is none, those where one was tracked."""
    return [place for place in places if os.path.isfile(main_path(place))] or [
        place for place in places if place in tracked
    ]


_LONGEST = 4096
_ID = re.compile(r"([ctrw])-\w*", re.IGNORECASE)
_ID_LENGTH = len("c-0123456789ab")
_VERSION = re.compile(r"(.+)@(\w*)", re.DOTALL)
_NAMED_VERSION = re.compile("(.+)@([0-9a-f]{8,64})", re.DOTALL)
_VERSION_ALONE = re.compile("[0-9a-f]{8,64}")
_TASK = re.compile("task-[0-9a-f]{8}")
_KINDS = {"c": "candidate", "t": "promotion test", "r": "run", "w": "work"}


def id_meant(text: str) -> str:
    """What is wrong with a text that seems to be meant as an id, "" otherwise."""
    if found := _ID.fullmatch(text):
        return f"there is no {_KINDS[found[1].lower()]} {quoted(text)}"
    if _TASK.fullmatch(text):
        return f"{quoted(text)} seems to be a task: a person sees tasks by skillopt-mcp tasks list SKILL"
    if is_version(text):
        return f"{quoted(text)} is a version of no skill here"
    found = _VERSION.fullmatch(text)
    return f"{quoted(found[2])} is no version: give 8 to 64 digits of 0-9 and a-f" if found else ""


def version_named(id: str) -> tuple[str, str] | None:
    """Return the skill and the version that an id names, None when it names another thing."""
    found = _NAMED_VERSION.fullmatch(id)
    return (found[1], found[2]) if found else None


def is_version(id: str) -> bool:
    """Whether an id may be that of a version alone, without its skill."""
    return _VERSION_ALONE.fullmatch(id) is not None


def known(name: str) -> str:
    """Return an id, a name or a path as it was given, but for blanks around an id or a name.

    Raises NotFound for a text that nothing can be called by.
    """
    name = name if "/" in name else name.strip()
    if not name or "\0" in name or len(name) > _LONGEST or storable(name) != name:
        raise NotFound(f"nothing is called {quoted(name)}: use an id, a name or a path as a result gave it")
    return name


def lock_name(skill_id: int) -> str:
    """Return the name of the lock under which a skill's live files are changed."""
    return f"skill-{skill_id}"


def recover(store: Store) -> None:
    """Settle every pending promotion whose process is gone; one that another process is making is left to it.

    One that cannot be settled now, because its files cannot be read or written, stays pending until it can.
    """
    for skill_id in {promotion.skill_id for promotion in store.promotions.list_pending()}:
        lock = lock_run(store.locks_path, lock_name(skill_id))
        if lock is None:
            continue
        try:
            with suppress(Refused):
                settle(store, skill_id)
        finally:
            lock.release()


def settle(store: Store, skill_id: int) -> None:
    """Settle a skill's pending promotions, under the skill's lock.

    Raises Refused when a file cannot be read or written; they stay pending.
    A half-done one is rolled forward when every file is still its old or new self, unless it had failed: then it is
    taken back. A file that is neither was edited by a person meanwhile: nothing is written any more. Files that cannot
    be read may come back (a disk that is not there looks like a skill that is gone), so nothing is concluded from that.
    """
    for promotion in store.promotions.list_pending():
        if promotion.skill_id != skill_id:
            continue
        if promotion.state == "undoing":
            _write_back(store, promotion)
            continue
        place, old, new = _get_sides(store, promotion)
        live = _read_live(place, old, new)
        missing = [file for file in old.files if live.get(file.path) is None and new.get(file.path) is not None]
        is_half_done = not missing and set(live.files) <= {*old.files, *new.files}
        if live != old and is_half_done:
            replace_files(files_folder(place), live, new)
            live = new
        if live == new:
            store.promotions.finish(promotion)
        else:
            store.promotions.undo(promotion)


def take_back(store: Store, promotion: Promotion) -> None:
    """Undo what a change that failed half-way has written, and nothing else.

    Raises Refused when that fails, too, and is left to `settle`; StoreError when not even that could be noted.
    """
    unnoted: StoreError | None = None
    try:
        store.promotions.undo(promotion, is_done=False)
    except StoreError as error:
        unnoted = error
    try:
        _write_back(store, promotion)
    except Refused as error:
        if unnoted:
            raise StoreError(f"{error}; and {unnoted}: the change is finished or taken back later") from error
        raise Refused(f"{error}; what is written already is taken back when the store is used next") from error


def _write_back(store: Store, promotion: Promotion) -> None:
    place, old, new = _get_sides(store, promotion)
    live = _read_live(place, old, new)
    written = dict[str, SkillFile]()
    for file in new.files:
        # As it is now: its disk may keep other run bits, and list it by another name.
        was = old.get(file.path)
        found = find_file(files_folder(place), file.path) if file != was else None
        if found and found.content == file.content and found != was:
            written[found.path] = found
    removed = {file.path for file in old.files if live.get(file.path) is None and new.get(file.path) is None}
    kept = [file for file in live.files if file.path not in written]
    back = [file for file in old.files if file.path in {*written, *removed}]
    replace_files(files_folder(place), SkillFiles((*kept, *written.values())), SkillFiles((*kept, *back)))
    store.promotions.undo(promotion)


def _read_live(place: Path, old: SkillFiles, new: SkillFiles) -> SkillFiles:
    """Return the live files, after removing what a killed process left. Raises Refused when they cannot be read."""
    sweep(files_folder(place), (old, new))
    try:
        return read_skill(place)
    except BadSkill as error:
        raise Refused(f"{error}; {_SETTLED_LATER}") from error


def _get_sides(store: Store, promotion: Promotion) -> tuple[Path, SkillFiles, SkillFiles]:
    skill = store.skills.get_skill(promotion.skill_id)
    old = store.skills.get_files(skill.id, promotion.from_version)
    new = store.skills.get_files(skill.id, promotion.to_version)
    return Path(skill.path), old, new


# A file changed twice within a tick of the disk's clock looks unchanged: so young a folder is read again each time.
TICK_NS = 50_000_000


class SkillCache:
    """The skills as they were last read: a folder that has not changed since is not read again."""

    def __init__(self) -> None:
        self._seen: dict[str, object] = {}

    def get(self, store: Store, folder: Path) -> Skill:
        """Return the skill in a folder as it is now, tracked. Raises BadSkill, which says what to do about it."""
        try:
            return self._get(store, folder)
        except BadSkill as error:
            raise BadSkill(_describe_unusable(store, str(folder), error)) from None

    def forget(self, path: str) -> None:
        """Read the folder again the next time."""
        self._seen.pop(path, None)

    def _get(self, store: Store, folder: Path) -> Skill:
        key, now = str(folder), stamp_of(folder)
        seen = self._seen.get(key)
        # Another process may have moved a skill to this path, or hidden the one that is here.
        if seen == now and (listed := store.skills.find_listed(key)):
            return listed
        recover(store)
        begun = store.promotions.last_begun(key)
        clock_ns = time.time_ns()
        now = stamp_of(folder)
        files = read_skill(folder)
        skill = store.skills.track(skill_name(folder), key, files, begun.id if begun else 0)
        # While a change is made, or cannot be settled, what was read may be half of it: the store knows better.
        is_whole = skill.live_version == files.digest
        if is_whole and all(changed_ns < clock_ns - TICK_NS for _, _, _, changed_ns, *_ in now):
            self._seen[key] = now
        return skill
