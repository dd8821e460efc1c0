"""Folders: skill folders and memory files on disk, read whole and without following a link."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.readable import is_passed_over, is_too_deep, is_unfit
from skillopt_mcp.errors import BadSkill
from skillopt_mcp.limits import FILE_BYTES, MIB, SKILL_BYTES, SKILL_DEPTH, SKILL_FILES
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles, is_memory

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe put in the place of a file would hang the server.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# Where skills lie in a folder that is none: those of its hosts, and a folder of skills.
_PLACES = (".claude/skills", ".agents/skills", ".codex/skills", "skills", "")
_INSIDE_SHOWN = 3
_OWN = Path(__file__).resolve().parent / "skills"
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
    beside, name = os.path.split(given)
    if is_memory(given):
        return Path(os.path.realpath(beside), name)
    return Path(os.path.realpath(beside if name == MAIN_FILE else given))


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


def read_skill(path: Path) -> SkillFiles:
    """Return all files of a skill, given its folder or its SKILL.md; dot files and __pycache__ are left out.

    A memory file is a skill of one file, and what lies beside it is none of it. Raises BadSkill when the folder cannot
    be read, is too large, holds a link or a special file, or has no main document that is UTF-8 text.
    """
    folder = skill_folder(path)
    if is_memory(str(folder)):
        return _read_memory(folder)
    files: list[SkillFile] = []
    n_bytes = 0
    with _opened_folder(folder) as opened:
        _check_there(opened, folder)
        for parent, entry, inner in _entries(opened, folder):
            content, executable = _read_file(parent, entry.name, folder / inner)
            n_bytes += len(content)
            if n_bytes > SKILL_BYTES:
                raise BadSkill(f"{quoted(str(folder))} is larger than {SKILL_BYTES // MIB} MiB; move large files out")
            files.append(SkillFile(inner, content, executable))
    skill = SkillFiles(tuple(files))
    main = skill.get(MAIN_FILE)
    if main is None:  # a folder of that name, or somebody has just removed it
        raise _no_skill(folder)
    _check_text(main, folder / MAIN_FILE)
    return skill


def stamp(path: Path) -> tuple[tuple[str, int, int, int, int, int], ...]:
    """Return path, size, mtime and ctime (ns), inode and mode of each file of a skill, without reading any.

    Equal stamps mean an unchanged folder, but for a change within the same tick of the disk's clock (some ms): whoever
    is about to write reads again. Raises BadSkill as `read_skill` does.
    """
    return stamp_of(skill_folder(path))


def stamp_of(folder: Path) -> tuple[tuple[str, int, int, int, int, int], ...]:
    """Return the `stamp` of what `skill_folder` returned: a path that is resolved already."""
    if is_memory(str(folder)):
        with _opened_folder(folder.parent) as opened, _explained(folder):
            return (_stamped(folder.name, os.stat(folder.name, dir_fd=opened, follow_symlinks=False)),)
    rows = []
    with _opened_folder(folder) as opened:
        _check_there(opened, folder)
        for _, entry, inner in _entries(opened, folder):
            rows.append(_stamped(inner, entry.stat(follow_symlinks=False)))
    return tuple(sorted(rows))


def _stamped(inner: str, found: os.stat_result) -> tuple[str, int, int, int, int, int]:
    return (inner, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode)


def default_roots(home: Path, project: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders in which Claude Code and Codex look for skills, the project's first; they need not exist."""
    claude = project / (environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = project / (environ.get("CODEX_HOME") or home / ".codex")
    around = [root for folder in (project, *project_folders(project)[1:]) for root in project_roots(folder)]
    return list(dict.fromkeys([*around, *(owner / "skills" for owner in (claude, codex, home / ".agents"))]))


def project_roots(folder: Path) -> list[Path]:
    """Return where hosts look for the skills of one folder of a project; they need not exist."""
    return [folder / owner / "skills" for owner in (".claude", ".agents", ".codex")]


def project_folders(project: Path) -> list[Path]:
    """Return a folder, resolved, and those around it, up to that of the git checkout that it lies in.

    Only a checkout of this user's own counts, as git has it: skills that somebody else put further up are not theirs.
    Nor does one of the whole machine.
    """
    here = Path(os.path.realpath(project))
    around = [here, *here.parents][:-1]
    for n, folder in enumerate(around, 1):
        with suppress(OSError):
            return around[:n] if os.lstat(folder / ".git").st_uid == os.geteuid() else [here]
    return [here]


def find_skill_folders(roots: Iterable[Path]) -> list[Path]:
    """Return the folders right inside the roots that hold a SKILL.md, by root and name; each real folder once."""
    found: dict[str, Path] = {}
    for root in roots:
        try:
            names = sorted(os.listdir(root))
        except OSError:
            continue
        for name in names:
            folder = root / name
            if not name.startswith(".") and not _CONTROL.search(name) and os.path.isfile(folder / MAIN_FILE):
                found.setdefault(os.path.realpath(folder), folder)
    return list(found.values())


def main_names(folder: Path) -> list[str]:
    """Return the names in a folder that are SKILL.md, or would be but for their case."""
    try:
        return [name for name in os.listdir(folder) if name.lower() == MAIN_FILE.lower()]
    except OSError:
        return []


def is_as_shipped(folder: Path) -> bool:
    """Return whether a skill is one that comes with this program, as it comes: nobody has made it theirs."""
    try:
        return (_OWN / folder.name / MAIN_FILE).read_bytes() == (folder / MAIN_FILE).read_bytes()
    except OSError:
        return False


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the system's errors about `path` into BadSkill."""
    try:
        yield
    except OSError as error:
        raise BadSkill(f"{quoted(str(path), 200)} {_explanation(error)}") from None


def _explanation(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist; check the path"
    if isinstance(error, NotADirectoryError):
        return f"is not a folder; give the skill's folder or its {MAIN_FILE}"
    if isinstance(error, PermissionError):
        return "cannot be read; give this user permission to read it"
    if error.errno == errno.ELOOP:
        return "is a link; put the file itself in its place"
    return f"cannot be read ({error.strerror}); check the path and the disk"


@contextmanager
def _opened_folder(folder: Path) -> Iterator[int]:
    """Lend the descriptor of a folder; the system's errors about it are turned into BadSkill."""
    with _explained(folder):
        opened = os.open(folder, _FOLDER_FLAGS)
        try:
            yield opened
        finally:
            os.close(opened)


def _entries(opened: int, folder: Path) -> Iterator[tuple[int, os.DirEntry[str], str]]:
    """Yield every file as (descriptor of its folder, entry, path inside the skill)."""
    for n_before, (parent, entry, inner) in enumerate(_walked(opened, folder, "")):
        if n_before == SKILL_FILES:
            raise BadSkill(
                f"{quoted(str(folder))} has more than {SKILL_FILES} files; move those that are not the skill's"
            )
        yield parent, entry, inner


def _walked(opened: int, folder: Path, prefix: str) -> Iterator[tuple[int, os.DirEntry[str], str]]:
    with os.scandir(opened) as entries:
        for entry in entries:
            if is_passed_over(entry.name):
                continue
            inner = prefix + entry.name
            if fault := _fault_of(entry):
                raise BadSkill(f"{quoted(str(folder / inner), 200)} {fault}")
            if entry.is_dir(follow_symlinks=False):
                yield from _walked_below(opened, entry.name, folder, inner)
            else:
                yield opened, entry, inner


def _fault_of(entry: os.DirEntry[str]) -> str | None:
    """Return why a skill cannot hold what an entry is, if so."""
    if is_unfit(entry.name):
        return "has control characters, a backslash or no text as its name; rename it"
    if entry.is_symlink():
        return "is a link; put the file itself in its place"
    if not (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)):
        return "is not a regular file; remove it from the skill"
    return None


def _walked_below(parent: int, name: str, folder: Path, inner: str) -> Iterator[tuple[int, os.DirEntry[str], str]]:
    if is_too_deep(f"{inner}/"):
        raise BadSkill(f"{quoted(str(folder / inner), 200)} is nested too deep; {SKILL_DEPTH} levels are the most")
    with _explained(folder / inner):
        opened = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    try:
        yield from _walked(opened, folder, f"{inner}/")
    finally:
        os.close(opened)


def _read_file(parent: int, name: str, path: Path) -> tuple[bytes, bool]:
    shown = quoted(str(path), 200)
    with _explained(path), os.fdopen(os.open(name, _FILE_FLAGS, dir_fd=parent), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise BadSkill(f"{shown} is not a regular file; remove it from the skill")
        content = file.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise BadSkill(f"{shown} is larger than {FILE_BYTES // MIB} MiB; move it out of the skill")
    return content, bool(mode & stat.S_IXUSR)


def _read_memory(path: Path) -> SkillFiles:
    with _opened_folder(path.parent) as opened:
        content, executable = _read_file(opened, path.name, path)
    memory = SkillFile(path.name, content, executable)
    _check_text(memory, path)
    return SkillFiles((memory,))


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
