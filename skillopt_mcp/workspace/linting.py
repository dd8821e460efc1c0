"""Linting: where skills on disk depart from the Agent Skills specification, or from what it recommends."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import re2
from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.core.errors import BadInput, BadSkill, NotFound, SkillOptError
from skillopt_mcp.core.limits import FILE_BYTES, SKILL_BYTES, SKILL_FILES
from skillopt_mcp.core.redacting import find_plain_secrets
from skillopt_mcp.core.secret_shapes import VENDOR_KINDS
from skillopt_mcp.core.skills import MAIN_FILE, MEMORY_FILES, SkillFile, SkillFiles, is_memory
from skillopt_mcp.core.text import BOM, HIDDEN_RANGES, counted, hidden_offsets, is_text, quoted, to_lf
from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.lint import Problem, Severity, lint
from skillopt_mcp.gates.guard.shapes import RUN_BLOCK, blank_code
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import (
    default_roots,
    find_skill_folders,
    known,
    main_names,
    read_main,
    read_skill,
    skill_folder,
)

_TWINS_SHOWN = 3


class Linted(BaseModel):
    """What is wrong with a skill, as it was called, or a path that holds none; `name` is that of its front matter."""

    model_config = ConfigDict(frozen=True)
    path: str
    folder: Path = Field(exclude=True)
    is_skill: bool = Field(default=True, exclude=True)
    name: str | None = None
    findings: list[Problem]
    evals: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """A skill as it was called, its resolved folder, and the name of that there; or what is to say of a path."""

    shown: str
    folder: Path
    name: str = ""
    note: Problem | None = None


def lint_skills(store: Store, place: Place, given: Sequence[str]) -> list[Linted]:
    """What is wrong with skills, and with all below folders that are none, as they are on disk, each once.

    The store is read for names alone: skills that are given by their path are neither tracked nor looked up.
    """
    places: dict[Path, _Place] = {}
    for each in given:
        for found in _places(store, place, each):
            places.setdefault(found.folder, found)
    linted, by_name = [_lint_place(each) for each in places.values()], dict[str, list[str]]()
    for skill in linted:
        by_name.setdefault(skill.name or "", []).append(skill.path)
    for skill in linted:
        others = [f"'{other}'" for other in by_name[skill.name or ""][: _TWINS_SHOWN + 1] if other != skill.path]
        if others and skill.name:
            text = f"the name {quoted(skill.name)} is also that of {', '.join(others[:_TWINS_SHOWN])}"
            skill.findings.append(Problem("advice", f"{text}: a host that finds both takes one of them"))
    return linted


def folder_of(given: str, *, bare: bool = True) -> Path | None:
    """Return the resolved folder that a path names, or None for a name.

    With `bare`, the name of a folder in the working directory that holds a skill, or skills, is its path. Raises
    NotFound, BadSkill for what is no path at all.
    """
    path = Path(os.path.expanduser(known(given)))
    is_main = path.name.lower() == MAIN_FILE.lower()
    if is_main and path.is_file():
        return skill_folder(path.parent)
    is_path = is_main or "/" in given or os.sep in given or given.startswith(("~", ".")) or given in MEMORY_FILES
    has_skills = bare and (main_names(path) or find_skill_folders([path]))
    return skill_folder(path) if is_path or has_skills else None


def _places(store: Store, place: Place, given: str) -> list[_Place]:
    """The skills that were meant: one, or all below a folder. A file inside a skill means that skill."""
    path = Path(os.path.expanduser(known(given)))
    if path.name.lower() != MAIN_FILE.lower() and not is_memory(str(path)) and path.is_file():
        around = skill_around(Path(os.path.abspath(path)).parent)
        if around:
            given = str(around) if path.is_absolute() else near(around)
    try:
        folder = folder_of(given) or folder_named(store, place, given)
    except SkillOptError as error:
        if not os.path.isdir(given):
            return [_Place(given, Path(given), note=Problem("error", str(error)))]
        folder = Path(os.path.realpath(given))
    written = Path(os.path.abspath(os.path.expanduser(known(given))))
    own = [_Place(given, folder, written.name if written.is_dir() else folder.name)]
    if is_memory(str(folder)):
        return own
    found, passed_over = skills_below(folder)
    inside = [
        _Place(os.path.normpath(os.path.join(given, path.relative_to(folder))), Path(os.path.realpath(path)), path.name)
        for path in found
    ]
    # A folder without any is reported when it is read.
    notes = [_Place(given, folder / each, note=Problem("advice", each)) for each in passed_over]
    return [*(own if main_names(folder) or not inside else []), *inside, *notes]


def near(folder: Path) -> str:
    """Return the path of a folder from here; never what could be taken for a name."""
    near = os.path.relpath(folder)
    return near if near == "." or os.sep in near else os.path.join(".", near)


def folder_named(store: Store, place: Place, name: str) -> Path:
    """Return the folder of a skill by its name; no store is made to look for it. Raises NotFound, BadSkill."""
    hint = f"; for the folder {quoted(name)} here, write './{name}'" if os.path.isdir(name) else ""
    if store.path.exists():
        try:
            return Path(place.skill(name).path)
        except NotFound as error:
            raise NotFound(f"{error}{hint}") from None
    roots = default_roots(Path(os.path.expanduser("~")), Path.cwd(), os.environ)
    found = [folder for folder in find_skill_folders(roots) if folder.name == name]
    if len(found) != 1:
        lie = f"{len(found)} skills called {quoted(name)} lie" if found else f"no skill {quoted(name)} lies"
        raise NotFound(
            f"{lie} in the skill folders of the hosts, and there is no store at '{store.path}' to ask: give "
            f"the path of its folder{hint}"
        )
    return skill_folder(found[0])


def _lint_place(place: _Place) -> Linted:
    folder, name = place.folder, None
    if place.note:
        return Linted(path=place.shown, folder=folder, is_skill=False, findings=[place.note])
    try:
        name, findings = _read_findings(place)
    except BadSkill as error:
        is_followed = not (folder / MAIN_FILE).is_symlink()
        findings = [Problem("error" if is_followed else "advice", f"could not be read: {error}")]
    # It is not there, is some other file, or can be looked into and holds no skill.
    is_open = os.access(folder, os.R_OK | os.X_OK) if folder.is_dir() else not is_memory(str(folder))
    is_none = not os.path.lexists(folder) or (is_open and not main_names(folder))
    return Linted(path=place.shown, folder=folder, is_skill=not is_none, name=name, findings=findings)


def _read_findings(place: _Place) -> tuple[str | None, list[Problem]]:
    """The name in the front matter and the findings of a skill. Raises BadSkill where its main file cannot be read."""
    folder, written = place.folder, main_names(place.folder)
    if written and MAIN_FILE not in written:
        text = f"the main file is called {quoted(written[0])}, and hosts look for {MAIN_FILE} alone: rename it"
        return None, [Problem("error", text)]
    try:
        files, unread = read_skill(folder), ""
    except BadSkill as error:
        if not written:
            raise
        files, unread = read_main(folder), str(error)
    findings = list(lint(files, place.name, is_whole=not unread)) + list(find_dangers(files))
    if unread:
        findings.append(Problem("advice", f"only {MAIN_FILE} was looked at: {unread}"))
    if files.main_path != MAIN_FILE:
        return None, findings
    findings += find_host_differences(files)
    # Dot files are shared with the folder.
    hidden, skipped = hidden_files(folder) if not unread else (SkillFiles(()), [])
    for file in hidden.files:
        found = list(find_dangers(SkillFiles((file,))))
        if found and not is_ignored(folder / file.path):
            findings += found
    if skipped:
        text = (
            f"not all hidden files were looked at for secrets, {quoted(skipped[0])} for one: too many, large or closed"
        )
        findings.append(Problem("advice", text))
    front = frontmatter.read(files.main)
    return front.name if front else None, findings


_LINES_SHOWN = 5
_MAX_UNSEEN = 1_000
_MAY_HIDE = re2.compile(f"[{HIDDEN_RANGES}]")  # RE2 searches bytes faster
_BYTE_ORDER_MARK = "\ufeff"
_PAGE_BREAK = "\f"
_JOINERS = "\u200c\u200d"
# Persian, Hindi and their like cannot be spelled without joiners.
_JOINED = re.compile("[\u0600-\u0dff]")


def find_dangers(files: SkillFiles) -> Iterator[Problem]:
    """Yield secrets and unseen characters in the texts of a skill, with their lines; of a secret only its kind.

    An error is the key of a vendor alone: GitHub blocks a push that holds one. All else can be an example.
    """
    for file in files.files:
        if not is_text(file.content):
            continue
        shown, content = quoted(file.path), to_lf(file.content)
        found = [(each.start, each.kind) for each in find_plain_secrets(content)]
        keys = [each for each in found if each[1] in VENDOR_KINDS]
        others = [each for each in found if each[1] not in VENDOR_KINDS]
        if keys:
            cure = "take it out, revoke it, and write a made-up value such as <TOKEN> (GitHub blocks a push with it)"
            yield Problem("error", f"{shown} holds what looks like a secret: {_list_lines(content, keys)}; {cure}")
        if others:
            cure = "if one is real, take it out and change it; an example reads better as <SECRET>"
            yield Problem("advice", f"{shown} holds what may be a secret: {_list_lines(content, others)}; {cure}")
        text, unseen = content.decode() if _MAY_HIDE.search(content) else "", list[tuple[int, str]]()
        for at in hidden_offsets(text):
            is_first_mark = at == 0 and text[at] == _BYTE_ORDER_MARK
            is_spelling = text[at] in _JOINERS and _JOINED.match(text, at - 1) and at
            if not (is_first_mark or is_spelling or text[at] == _PAGE_BREAK):
                unseen.append((at, f"U+{ord(text[at]):04X}"))
            if len(unseen) > _MAX_UNSEEN:
                break
        if places := _list_lines(text, unseen):
            what = "characters that a reader does not see, or that turn text around"
            yield Problem("advice", f"{shown} holds {what}: {places}; remove them")


_CUT = re.compile(rb"[ \t]+#")
_ARGUMENT = re.compile(r"(?<!\\)\$\d{1,2}(?!\w)")
_MAY_RUN = re2.compile(rb"!`|(?:```|~~~)[ \t]*!")
_MAY_TAKE = re.compile(rb"\$\d")
_LONE_RETURN = re.compile(rb"\r(?!\n)")


def find_host_differences(files: SkillFiles) -> Iterator[Problem]:
    """Yield what hosts do differently with a skill, each by name; an error keeps the skill from one of them.

    As seen with Claude Code 2.1.332, Codex 0.171.0, Gemini CLI 0.61.0, opencode 1.18.33 and Copilot CLI 1.0.102.
    """
    front, content = frontmatter.read(files.main), to_lf(files.main)
    fields = {key: str(json.loads(value)).casefold() for key, value in front.fields} if front else {}
    is_hidden = fields.get("disable-model-invocation") in ("true", "yes", "on")
    is_cut = front and front.plain and front.value_end is not None and _CUT.match(files.main, front.value_end)
    takes_words = b"$ARGUMENTS" in content or bool({"argument-hint", "arguments"} & fields.keys())
    text, start = content.decode(), len(content[: frontmatter.block_end(content) or 0].decode())
    commands = RUN_BLOCK.finditer(text) if _MAY_RUN.search(content) else ()
    run = [(found.start(1), quoted(found[1].strip(), 40)) for found in commands if found.start(1) >= start]
    prose = "" if takes_words or not _MAY_TAKE.search(content) else blank_code(text)
    words = [(found.start(), found[0]) for found in _ARGUMENT.finditer(prose) if found.start() >= start]
    replaced = _list_lines(text, words)
    seen: tuple[tuple[object, Severity, str], ...] = (
        (files.main.startswith(BOM), "error", "a byte order mark begins it: Codex and Gemini do not load it"),
        (_LONE_RETURN.search(files.main), "error", "a carriage return has no line feed: Codex does not load it"),
        (is_cut, "advice", 'the description ends before " #", which begins a comment in YAML: put it in quotes'),
        (is_hidden, "advice", "disable-model-invocation: Claude Code and Copilot hide the skill, others do not"),
        ("paths" in fields, "advice", "paths: Claude Code neither lists the skill nor opens it for the model"),
        (run, "advice", f"Claude Code runs a command while it loads the skill, also in code: {_list_lines(text, run)}"),
        (words, "advice", f"Claude Code puts words of the call for {replaced}; write a backslash before each"),
    )
    yield from (Problem(severity, text) for is_so, severity, text in seen if is_so)
    for file in files.files:
        if file.path.endswith(f"/{MAIN_FILE}"):
            yield Problem("advice", f"Codex reads {quoted(file.path)} as a skill of its own: give it another name")


def _list_lines(text: str | bytes, found: Sequence[tuple[int, str]]) -> str:
    """What was found at which line of a text, in order and each once; the last ones as a number."""
    ends = () if not found else re.finditer("\n", text) if isinstance(text, str) else re.finditer(b"\n", text)
    breaks = [each.start() for each in ends]
    places = sorted({(bisect_left(breaks, at), what) for at, what in found})
    shown = ", ".join(f"{what} in line {n_before + 1}" for n_before, what in places[:_LINES_SHOWN])
    return f"{shown} and {len(places) - _LINES_SHOWN:,} more" if len(places) > _LINES_SHOWN else shown


def lint_changed(store: Store, place: Place, base: str) -> tuple[list[Linted], list[str]]:
    """What is wrong with the skills of the checkout here that changed since it left `base`, and those that are gone.

    Raises BadInput where git fails.
    """
    changed, deleted, unseen = differing_skills(Path.cwd(), base)
    linted = lint_skills(store, place, [near(folder) for folder in changed])
    finding = Problem("advice", "it has changed, but is empty here: git submodule update --init")
    empty = [Linted(path=near(each), folder=each, is_skill=False, findings=[finding]) for each in unseen]
    return [*linted, *empty], [os.path.relpath(folder) for folder in deleted]


# Finding skills and hidden files on disk

OF_SKILLS = frozenset({"references", "scripts", "assets", "examples", "templates", "resources", "tests", "evals"})
OF_OTHERS = frozenset({"node_modules", "site-packages", "__pycache__"})
_MAX_DEPTH = 8
_MAX_FOLDERS = 20_000


def skills_below(folder: Path) -> tuple[list[Path], list[str]]:
    """The skills in a folder, at whatever depth, and what was passed over; `folder` itself is none of them.

    Of hidden folders their skills/ alone count, or those that lie in a skills/; of links those to a skill, right in the
    folder or in a skills/. What lies in references/ and the like of a skill does not count, and what package managers
    unpack. What else is passed over is closed, or lies very deep or behind thousands of folders.
    """
    waiting, skills, links, closed, deep = deque([(folder, 0)]), list[Path](), list[Path](), list[str](), list[str]()
    for _ in range(_MAX_FOLDERS):
        if not waiting:
            break
        inside, depth = waiting.popleft()
        try:
            with os.scandir(inside) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
            folders = [entry.name for entry in listed if entry.is_dir(follow_symlinks=False)]
        except OSError:
            closed += [str(inside.relative_to(folder))] if depth else []
            continue
        # Elsewhere a skill.md is any file, such as a grader of that name.
        may_misspell = depth == 1 or inside.parent.name == "skills"
        mains = [
            entry.name for entry in listed if entry.name.lower() == MAIN_FILE.lower() and entry.name not in folders
        ]
        is_skill = MAIN_FILE in mains or (may_misspell and bool(mains))
        skills += [inside] if is_skill and depth and inside.name[0] != "." else []
        if not depth or inside.name == "skills":
            links += [Path(entry) for entry in listed if entry.is_symlink() and main_names(Path(entry))]
        # In a skills/ there may be a .curated/ of skills.
        is_root = inside.name == "skills"
        names = [name if name[0] != "." or is_root else f"{name}/skills" for name in folders if name not in OF_OTHERS]
        names = [name for name in names if not (is_skill and name in OF_SKILLS)]
        below = [(inside / name, depth + 1) for name in names if name[0] != "." or os.path.isdir(inside / name)]
        if below and depth == _MAX_DEPTH:
            deep.append(str(inside.relative_to(folder)))
        else:
            waiting.extend(below)
    notes = [
        f"{counted(len(names), 'folder')} {why}, {quoted(names[0])} for one"
        for names, why in ((closed, "cannot be looked into"), (deep, "with more below lie too deep to be looked into"))
        if names
    ]
    if waiting:
        notes.append(f"only its first {_MAX_FOLDERS:,} folders were looked into: name those that have skills")
    return [*skills, *links, *_list_named(folder)], notes


def _list_named(folder: Path) -> list[Path]:
    """The skills that the marketplace in a folder names by themselves, inside it, wherever they lie."""
    manifest, named = folder / ".claude-plugin/marketplace.json", list[Path]()
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        if manifest.is_file() and manifest.stat().st_size <= FILE_BYTES:
            for plugin in json.loads(manifest.read_bytes())["plugins"]:
                for skill in plugin.get("skills", []):
                    path = Path(os.path.normpath(folder / plugin.get("source", "") / skill))
                    named += [path] if path.is_relative_to(folder) and main_names(path) else []
    return named


# A look takes no lock of the checkout's index, starts no monitor and no hook, and fetches nothing, as a partial clone
# would. Filters that the user's own configuration defines run all the same where files of the working tree are looked
# at: git has to read them as it would commit them to compare them.
_GIT = ("git", "--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_GIT_ENVIRON = {"LC_ALL": "C", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
_SECONDS = 60.0
_OF_ANOTHER = re.compile("dubious ownership in repository at '(.+)'")
_NO_CHECKOUT = "not a git repository"


def differing_skills(project: Path, base: str) -> tuple[list[Path], list[Path], list[Path]]:
    """The skills that differ, as they are on disk, from where the branch of a checkout left `base`.

    First the folders of skills, and the memory files, that are there; then those no more; then the checkouts inside
    this one (submodules) that differ and are empty here.
    What is not added yet counts, what git ignores does not. Of a checkout inside this one (a submodule) that differs,
    all skills count: git shows no more of it. Raises BadInput where git fails.
    """
    if not base.strip():
        raise BadInput("no base is given to compare with (a variable that is not set?): name a branch or commit")
    top = Path(ask_git(project, base, "rev-parse", "--show-toplevel").removesuffix("\n"))
    commit = ask_git(project, base, "rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}").strip()
    left = ask_git(project, base, "merge-base", commit, "HEAD").strip()
    names = ask_git(top, base, "diff", "--name-only", "--no-renames", "--ignore-submodules=none", "-z", left)
    names += ask_git(top, base, "ls-files", "--others", "--exclude-standard", "-z")
    paths = [top / name for name in names.split("\0") if name]
    around = [(path, skill_around(path, top)) for path in paths]
    # What a link leads to differs by itself.
    memory = {path for path, folder in around if folder is None and is_memory(str(path)) and not path.is_symlink()}
    there = {path for path in memory if path.is_file()}
    checkouts = [path for path, folder in around if folder is None and path.is_dir() and not path.is_symlink()]
    inside = {skill for checkout in checkouts for skill in skills_below(checkout)[0]}
    inside |= {path for checkout in checkouts for name in MEMORY_FILES if (path := checkout / name).is_file()}
    changed = sorted({folder for _, folder in around if folder} | there | inside)
    gone = {path.parent for path, folder in around if folder is None and path.name == MAIN_FILE} | (memory - there)
    unseen = set(checkouts)
    for checkout in checkouts:
        with suppress(OSError):
            if os.listdir(checkout):
                unseen.discard(checkout)
    return changed, sorted(gone), sorted(unseen)


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
    """Whether git ignores a file or folder, so that it is not shared; False where git fails."""
    try:
        return run_git(path.parent, "check-ignore", "--quiet", "--", path.name).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def ask_git(folder: Path, base: str, *arguments: str) -> str:
    """The output of git. Raises BadInput where it fails, with its reason and what to do about it."""
    try:
        done = run_git(folder, *arguments)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"git cannot be asked what has changed ({error}): name the skills") from error
    if done.returncode:
        said = os.fsdecode(done.stderr).strip().partition("\n")[0]
        if owned := _OF_ANOTHER.search(said):
            cure = (
                "the checkout is another user's. If you trust it: git config --global --add safe.directory "
                f"{shlex.quote(owned[1])}"
            )
        elif _NO_CHECKOUT in said:
            cure = f"{quoted(str(folder), 500)} is no git checkout: go into one, or name the skills to check"
        else:
            cure = (
                "name a branch or commit that this checkout has, with its history (a CI job: actions/checkout with "
                "fetch-depth: 0)"
            )
        reason = quoted(said or "no common ancestor", 200)
        raise BadInput(f"git cannot compare with {quoted(base)} ({reason}): {cure}")
    return os.fsdecode(done.stdout)


def run_git(folder: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """How a command of git ends in a folder. Raises OSError where there is no git, TimeoutExpired after a minute."""
    command = [*_GIT, "-C", str(folder), *arguments]
    # Its reasons are looked at: they come in one language. What a hook or a shell sets for git means another folder.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _GIT_ENVIRON
    return subprocess.run(command, input=stdin, capture_output=True, timeout=_SECONDS, check=False, env=environ)


_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_OF_GIT = ".git"


def hidden_files(folder: Path) -> tuple[SkillFiles, list[str]]:
    """Return the dot files in a folder and all below its dot folders, and the paths of those that were not read.

    As much is read as a skill may be large; what lies behind that is not even listed, but for its first. Links, folders
    that git ignores and what it keeps for itself are passed over.
    """
    read, unread, n_bytes = list[SkillFile](), list[str](), 0
    for path in islice(_dot_files(folder), SKILL_FILES + 1):
        inner = path.relative_to(folder).as_posix()
        content = None  # too large, closed, or one too many
        with suppress(OSError):
            if len(read) < SKILL_FILES:
                with os.fdopen(os.open(path, _FLAGS), "rb") as file:
                    content = file.read(FILE_BYTES + 1)
                content = content if len(content) <= FILE_BYTES else None
        n_bytes += len(content or b"")
        if content is None or n_bytes > SKILL_BYTES:
            unread.append(inner)
            if n_bytes > SKILL_BYTES:
                break
        else:
            read.append(SkillFile(inner, content, False))
    return SkillFiles(tuple(read)), unread


def _dot_files(folder: Path) -> Iterator[Path]:
    """Yield the regular files that are hidden, or in a hidden folder."""
    for at, folders, names in os.walk(folder):
        is_hidden = "/." in at[len(str(folder)) :]
        # Below a dot folder that is shared, one question each to git would take long.
        folders[:] = sorted(
            name
            for name in folders
            if name != _OF_GIT and (is_hidden or name[0] != "." or not is_ignored(Path(at, name)))
        )
        for name in sorted(name for name in names if (is_hidden or name[0] == ".") and name != _OF_GIT):
            path = Path(at, name)
            if path.is_file() and not path.is_symlink():
                yield path
