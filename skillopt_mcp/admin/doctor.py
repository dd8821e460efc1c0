"""Doctor: whether this installation, the store and the hosts around it are as they should be."""

from __future__ import annotations

import glob
import os
import platform
import shlex
import shutil
import stat
import tempfile
from collections.abc import Sequence
from contextlib import closing
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from skillopt_mcp import __version__
from skillopt_mcp.admin.install.hosts import surroundings
from skillopt_mcp.admin.install.installing import HostConnection, connections
from skillopt_mcp.backends.wrappers import check_backend
from skillopt_mcp.core.errors import BadSkill, SkillOptError, StoreError, UnsafeStore
from skillopt_mcp.store.files import MARK, SIDE_FILES, check_store, file_system, refuse_network_file_system
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import connect, is_safe_for_wal, sqlite, sqlite_version, storage_errors
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import default_roots, find_skill_folders, is_as_shipped, read_skill
from skillopt_mcp.workspace.skills import first_to_track

_LIBRARIES = ("mcp", "pydantic")
_SDKS = ("openai", "anthropic")
_HOSTS = ("claude", "codex")
_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
_TRIED = bytes(4096)
# This much is read in about a second.
_MOST_CHECKED = 1 << 29
# A log is cut to this once it was written into the store.
_MOST_LOGGED = 1 << 26
_UNREAD_SHOWN = 5
_NO_SKILL = (
    "no skill is in any skill root: write one (e.g. ~/.claude/skills/NAME/SKILL.md), or register your folder: "
    "skillopt-mcp skills add-root PATH"
)
_NO_BACKEND = (
    f"no backend was found: {' and '.join(_HOSTS)} are not on the PATH, and no key is set ({', '.join(_KEYS)}). "
    "An agent that starts 'skillopt-mcp serve' needs none: ask it to train a skill"
)


class StoreState(BaseModel):
    """The store's file, its journal mode and permissions; None where there is no file yet.

    `pages` is what SQLite finds of them; `verify` checks what they hold. `kept` are the stores that restores replaced.
    """

    model_config = ConfigDict(frozen=True)
    path: str
    exists: bool
    file_system: str
    journal_mode: str | None = None
    mode: str | None = None
    folder_mode: str | None = None
    pages: Literal["sound", "damaged", "not checked"] = "not checked"
    kept: list[str] = []
    kept_bytes: list[int] = []


class Root(BaseModel):
    """A skill root that exists, and how many skills lie in it."""

    model_config = ConfigDict(frozen=True)
    path: str
    n_skills: int


class Diagnosis(BaseModel):
    """Facts for a report of a fault, with `problems`, and what is `lacking` before a skill can be trained.

    `checked` is what is wrong with each backend that was named, None when it answers, `answers` what those that were
    asked for "ok" answered; `connections` what each host has of us; `roots_unread` why registered roots could not be
    read.
    """

    model_config = ConfigDict(frozen=True)
    versions: dict[str, str]
    sqlite: str
    sqlite_driver: str
    safe_for_wal: bool
    store: StoreState
    backends: dict[str, bool]
    checked: dict[str, str | None] = {}
    answers: dict[str, str] = {}
    hosts: dict[str, str | None]
    connections: list[HostConnection] = []
    roots: list[Root]
    roots_unread: str = ""
    problems: list[str]
    lacking: list[str]


def diagnose(store: Store, models: Models, place: Place, specs: Sequence[str] = ()) -> Diagnosis:
    """How things stand. A store that is not there yet is not made; one that cannot be opened is a problem.

    Each backend of `specs` is asked one short call.
    """
    problems: list[str] = []
    state, unread = _store(store, problems)
    places = (
        place.roots()
        if state.exists and not unread
        else [root for root in default_roots(Path.home(), Path.cwd(), os.environ) if os.path.isdir(root)]
    )
    roots = [
        Root(path=str(root), n_skills=sum(not is_as_shipped(folder) for folder in find_skill_folders([root])))
        for root in places
    ]
    if place.is_agents:
        for spec in specs:
            models.check_remembered(spec)
    asked = {spec: check_backend(spec) for spec in specs}
    checked = {spec: problem for spec, (problem, _) in asked.items()}
    problems += [problem for problem in checked.values() if problem]
    hosts = {name: shutil.which(name) for name in _HOSTS}
    connected = connections(surroundings(), store.path)
    problems += [problem for each in connected for problem in each.problems]
    lacking = list[str]()
    # A skill that is tracked may be outside of the roots.
    if not (unread or any(root.n_skills for root in roots) or (state.exists and store.skills.list_skills())):
        lacking.append(_NO_SKILL)
    unreadable = []
    for folder in find_skill_folders(places):
        try:
            read_skill(folder)
        except BadSkill as error:
            look = f"look at it with: skillopt-mcp check {shlex.quote(str(folder))}"
            unreadable.append(f"a skill cannot be read: {error}; {look}")
            if len(unreadable) == _UNREAD_SHOWN:
                break
    lacking += unreadable
    lacking += filter(None, (place.describe_hidden(os.path.realpath(folder)) for folder in find_skill_folders(places)))
    has_hooks = any(part.kind == "hooks" for each in connected for part in each.parts)
    if not unread and has_hooks and (step := first_to_track(store, place)):
        lacking.append(f"No skill is tracked yet, so that nothing is recorded. To begin: {step.as_command()}")
    lacking += filter(None, [each.hindrance for each in connected])
    if not (checked or any(hosts.values()) or any(map(os.environ.get, _KEYS))):
        lacking.append(_NO_BACKEND)
    return Diagnosis(
        versions={"skillopt-mcp": __version__, "python": platform.python_version()}
        | {name: version(name) for name in _LIBRARIES},
        sqlite=".".join(map(str, sqlite_version())),
        sqlite_driver=sqlite().__name__.partition(".")[0],
        safe_for_wal=is_safe_for_wal(sqlite_version()),
        store=state,
        backends={"simulated": True} | {name: find_spec(name) is not None for name in _SDKS},
        checked=checked,
        answers={spec: answer for spec, (_, answer) in asked.items() if answer},
        hosts=hosts,
        connections=connected,
        roots=roots,
        roots_unread=unread,
        problems=problems,
        lacking=lacking,
    )


def _store(store: Store, problems: list[str]) -> tuple[StoreState, str]:
    """How the store is, and why it could not be opened where it is there and could not."""
    path = store.path
    state = StoreState(path=str(path), exists=True, file_system=file_system(path))
    try:
        state = state.model_copy(update={"exists": _is_there(path)})
        refuse_network_file_system(path)
        problems += _unwritable(path, exists=state.exists)
        if not state.exists:
            return state, ""
        mode, folder_mode = (f"{place.stat().st_mode & 0o777:04o}" for place in (path, path.parent))
        state = state.model_copy(update={"mode": mode, "folder_mode": folder_mode})
        if mode[-2:] != "00":
            problems.append(f"the store '{path}' can be read by others (mode {mode}): chmod 600 it")
        check_store(path)
        state = state.model_copy(update=_look_inside(path, problems))
        if state.pages == "damaged":
            return state, "it is damaged"
        store.open()
        replaced = path.parent.glob(f"{glob.escape(path.name)}.replaced-*")  # by restores
        kept = sorted(each for each in replaced if not each.name.endswith((*SIDE_FILES, MARK)))
        sizes = [each.stat().st_size for each in kept]
        state = state.model_copy(update={"kept": [str(each) for each in kept], "kept_bytes": sizes})
    except SkillOptError as error:
        problems.append(str(error))
        return state, str(error)
    return state, ""


def _is_there(path: Path) -> bool:
    """Whether there is a file. Raises StoreError when it cannot be seen, or is not a regular file."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(
            f"the store '{path}' cannot be looked at ({error.strerror}): chmod 700 the folders above it that are yours"
        ) from error
    if stat.S_ISREG(mode):
        return True
    what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
    raise StoreError(f"'{path}' is {what}: name a file with --store or SKILLOPT_STORE")


def _unwritable(path: Path, *, exists: bool) -> list[str]:
    """Why the store could not be written there, or nothing; what is tried leaves nothing behind."""
    instead = "or name a store elsewhere with --store or SKILLOPT_STORE"
    folder = path.parent
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder) as tried:
            tried.write(_TRIED)
    except OSError as error:
        return [f"the folder '{folder}' of the store cannot be written ({error.strerror}): mend that, {instead}"]
    if exists and not os.access(path, os.W_OK):
        return [f"the store '{path}' cannot be written: chmod 600 it, {instead}"]
    return []


def _look_inside(path: Path, problems: list[str]) -> dict[str, object]:
    """Return the journal mode of a store, and whether SQLite finds its pages sound, where they are few enough.

    A write-ahead log that has grown, and that a process keeps from being written into the store, is a problem.
    """
    found, log = "", Path(f"{path}-wal")
    with closing(connect(path)) as connection:
        with storage_errors(path):
            mode = str(connection.execute("pragma journal_mode").fetchone()[0])
        if path.stat().st_size <= _MOST_CHECKED:
            try:
                with storage_errors(path):
                    [found] = connection.execute("pragma quick_check(1)").fetchone()
            except UnsafeStore:
                found = "some pages cannot be read"
        if found not in ("", "ok"):
            problems.append(
                f"the store '{path}' is damaged ({found}): restore a backup (skillopt-mcp store restore FILE)"
            )
            return {"journal_mode": mode, "pages": "damaged"}
        if log.exists() and (size := log.stat().st_size) > _MOST_LOGGED:
            with storage_errors(path):
                _, n_logged, n_brought_in = connection.execute("pragma wal_checkpoint(passive)").fetchone()
            if n_brought_in < n_logged:
                problems.append(
                    f"the log '{log}' has grown to {size >> 20:,} MiB, as some process keeps a read of the store "
                    "open: end idle hosts, and other programs that have the file open"
                )
    return {"journal_mode": mode, "pages": "sound" if found else "not checked"}
