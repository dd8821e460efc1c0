"""Workspace: a store with its models, skills and secrets; and the jobs of a server, which calls attach to."""

from __future__ import annotations

import functools
import json
import os
import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from skillopt_mcp.core import limits
from skillopt_mcp.core.budgets import NO_CAPS, Caps
from skillopt_mcp.core.calls import Call, Reply, Role
from skillopt_mcp.core.candidates import Candidate
from skillopt_mcp.core.errors import BadInput, BadSkill
from skillopt_mcp.core.limits import SESSION_CHARACTERS
from skillopt_mcp.core.results import Result
from skillopt_mcp.core.skills import Skill, SkillFiles, is_memory
from skillopt_mcp.core.text import quoted, truncate_middle
from skillopt_mcp.store.files import Owner
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.progress import Notify, Progress, silent
from skillopt_mcp.workspace.callers import Caller
from skillopt_mcp.workspace.skill_folders import (
    SkillCache,
    check_recorded,
    describe_locked,
    find_folder,
    find_tracked,
    folder_at,
    is_nowhere,
    known,
    read_skill,
    recover,
    skill_roots,
)

if TYPE_CHECKING:
    from skillopt_mcp.backends.base import Backend
    from skillopt_mcp.backends.work_folders import WorkFolders
    from skillopt_mcp.core.redacting import KnownSecrets, Redactor
    from skillopt_mcp.workspace.models import Models

T = TypeVar("T")
# Which session of a host a call comes from, and how Claude Code names its session to servers and commands.
SESSION: ContextVar[str] = ContextVar("session", default="")
_SESSION_VARIABLE = "CLAUDE_CODE_SESSION_ID"


class Job(Generic[T]):
    """One piece of work in a thread of its own; the thread never keeps the process alive."""

    def __init__(self, name: str, work: Callable[[Notify], T], leaving: Future[None], watcher: Notify) -> None:
        self.progress: Progress | None = None
        self.result: Future[T] = Future()
        self._leaving = leaving
        self._watcher = watcher
        threading.Thread(target=self._run, args=[work], name=name, daemon=True).start()

    def _run(self, work: Callable[[Notify], T]) -> None:
        try:
            self.result.set_result(work(self._notify))
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self.result.set_exception(error)

    def _notify(self, progress: Progress) -> None:
        self.progress = progress
        self._watcher(progress)

    def watch(self, watcher: Notify) -> None:
        """Call `watcher` with the progress from now on, in the thread of the work."""
        self._watcher = watcher

    def wait(self, wait_s: float | None) -> bool:
        """Whether it is done, after `wait_s` seconds at most (None: no limit), or when the server stops."""
        either: list[Future[Any]] = [self.result, self._leaving]
        wait(either, wait_s, FIRST_COMPLETED)
        return self.result.done()


class Jobs:
    """The jobs of a process, one per name at a time; a name is always that of the same work."""

    def __init__(self) -> None:
        # Once it is done, no call waits for a job any more.
        self.leaving: Future[None] = Future()
        self._jobs: dict[str, object] = {}
        self._offered: set[str] = set()
        self._lock = threading.Lock()

    def attach(self, name: str, work: Callable[[Notify], T], watcher: Notify = silent) -> Job[T]:
        """Return the job of that name, started when it is not under way; a finished one is handed out once more.

        `watcher` is called with its progress: of a job that it starts, from the beginning.
        """
        with self._lock:
            if name not in self._jobs:
                self._jobs[name] = Job(name, work, self.leaving, watcher)
            job = cast(Job[T], self._jobs[name])
        job.watch(watcher)
        return job

    def drop(self, name: str, job: Job[T]) -> None:
        """Forget a finished job, so that the next `attach` starts afresh; another one of that name continues."""
        with self._lock:
            if self._jobs.get(name) is job:
                del self._jobs[name]

    def offer(self, name: str) -> None:
        """Remember that the estimate of a piece of work was shown."""
        with self._lock:
            self._offered.add(name)

    def is_offered(self, name: str) -> bool:
        """Whether the estimate of a piece of work was shown."""
        with self._lock:
            return name in self._offered


LEASE_S = 900.0


class Workspace:
    """A store that is opened on first use, so that making one costs nothing; use it as a context manager.

    `target`, `optimizer` and `judge` are backends (made, or as BACKEND:MODEL) or None; `project` is the folder whose
    skills are found; `caps` are those of every run and test that is advanced here; `clock` returns seconds since 1970,
    for leases, too (default for those: a clock that cannot be set). `concurrency` calls at once go to each backend, or
    as many as it takes by itself. Only with `hands_out` can a host be a backend.
    """

    def __init__(
        self,
        store_path: Path,
        *,
        target: str | Backend | None = None,
        optimizer: str | Backend | None = None,
        judge: str | Backend | None = None,
        project: Path | None = None,
        caps: Caps = NO_CAPS,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] | None = None,
        hands_out: bool = False,
        concurrency: int | None = None,
    ) -> None:
        self.store_path = store_path
        self.caps = caps
        self.clock = clock or time.time
        self._lease_clock = clock
        self.lease_s = LEASE_S
        # Whom a command line acts for: what they agree to is kept with their name.
        self.login = ""
        # Who calls, which each door says.
        self.caller: Caller = "person"
        # Who counts what comes in for contests and promotion tests: a person may watch.
        self.on_reply: Callable[[Call, Reply], None] | None = None
        self._hands_out = hands_out
        self.concurrency = concurrency
        self.jobs = Jobs()
        self._specs: dict[Role, str | Backend | None] = {"target": target, "optimizer": optimizer, "judge": judge}
        self._project = project or Path.cwd()
        self._environ = os.environ if environ is None else environ
        if any(spec is not None for spec in self._specs.values()):
            self._check_no_secret()
        self._own_session = f"process:{secrets.token_hex(8)}"
        self._store: Store | None = None
        self._owner: Owner | None = None
        self._models: Models | None = None
        self._cache = SkillCache()
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_agents(self) -> bool:
        """Whether an agent reads what is shown: then scores, costs and tasks of promotion tests are left out."""
        return self.caller == "agent"

    def lease_time(self) -> float:
        """Return the time by which leases end, in seconds since 1970."""
        return self._lease_clock() if self._lease_clock else self.store.leases.now()

    def close(self) -> None:
        """Close the store if it was opened; what was handed out here is free for others then."""
        with self._lock:
            if self._owner:
                self._owner.close()
            if self._store:
                self._store.close()

    @property
    def session(self) -> str:
        """Return the id of the session: the host's, or this process's where it has none."""
        return SESSION.get() or self._environ.get(_SESSION_VARIABLE, "")[:SESSION_CHARACTERS] or self._own_session

    @property
    def owner(self) -> Owner:
        """Return the name that work is handed out under: by it others see whether who did so still runs."""
        with self._lock:
            if self._owner is None:
                self._owner = Owner(self.store.locks_path)
            return self._owner

    @property
    def store(self) -> Store:
        """Return the store, opened (made, recovered) on first use. Raises StoreError."""
        with self._lock:
            if self._store is None:
                store = Store(self.store_path)
                recover(store)
                self._store = store
            return self._store

    @property
    def is_made(self) -> bool:
        """Whether the store is there, so that opening it makes none; what cannot be looked at may be there."""
        if self._store is not None:
            return True
        try:
            os.lstat(self.store_path)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    # What needs a backend or the redactor loads it here, for listing skills takes none.

    def _check_no_secret(self) -> None:
        from skillopt_mcp.backends.registry import check_no_secret  # noqa: PLC0415

        for role, spec in self._specs.items():
            if spec is not None:
                check_no_secret(spec if isinstance(spec, str) else spec.name, self.known, f"the {role}")

    @property
    def models(self) -> Models:
        """Who answers in which role."""
        from skillopt_mcp.workspace.models import Models  # noqa: PLC0415

        with self._lock:
            if self._models is None:
                self._models = Models(self, self._specs, hands_out=self._hands_out)
            return self._models

    @functools.cached_property
    def work_folders(self) -> WorkFolders:
        """Where the work of hosts lies."""
        from skillopt_mcp.backends.work_folders import WorkFolders  # noqa: PLC0415

        return WorkFolders(self.store_path, self._environ)

    @functools.cached_property
    def known(self) -> KnownSecrets:
        """Return the secrets that are known by their values: no store is needed for that."""
        from skillopt_mcp.workspace.redactors import known_here  # noqa: PLC0415

        return known_here(self._environ)

    @functools.cached_property
    def redactor(self) -> Redactor:
        """What takes secrets out of texts before they are stored, shown or sent; opens the store."""
        from skillopt_mcp.workspace.redactors import open_redactor  # noqa: PLC0415

        return open_redactor(self.store.path, self.known)

    def has_backend(self, role: Role) -> bool:
        """Whether a backend was named for a role."""
        return self._specs.get(role) is not None

    @property
    def _made(self) -> Store | None:
        return self.store if self.is_made else None

    def see(self, candidate: Candidate) -> None:
        """Note that the caller's session proposed or saw a candidate, where a host's session calls."""
        if self.is_agents:
            self.store.candidates.note_seen(candidate.id, self.session)

    def roots(self) -> list[Path]:
        """Return the skill roots, links resolved: the hosts' own folders that exist, and those that a person added."""
        return skill_roots(self._made, self._project, self._environ)

    def root_of(self, skill: Skill) -> Path | None:
        """Return the skill root that a skill's folder lies in, if it does, and no link leads out of it."""
        return self.root_at(skill.path)

    def root_at(self, path: str, roots: Sequence[Path] | None = None) -> Path | None:
        """Return the skill root (of these `roots`, if given) that a path lies in, and no link leads out of it."""
        if os.path.realpath(path) != path:
            return None
        return next(
            (root for root in (self.roots() if roots is None else roots) if Path(path).is_relative_to(root)), None
        )

    def locked(self, skill: Skill) -> str:
        """Why nothing may be promoted to where a skill lies, and how a person allows it; "" when it may be."""
        return "" if self.root_of(skill) else describe_locked(skill.path)

    def skill(self, name_or_path: str) -> Skill:
        """Return a skill by its name, its folder, its SKILL.md or the path of a memory file; what is on disk is stored.

        Raises NotFound when no such skill is known or found, BadSkill when its folder cannot be read; no store is made
        then.
        """
        return self._looked_at(self._meant(name_or_path))

    def recorded(self, name_or_path: str) -> Skill:
        """Return a skill as `skill` does, to continue with what is recorded: nothing new is tracked.

        Raises NotFound where nothing is, too.
        """
        folder = self._meant(name_or_path)
        check_recorded(self._made, folder)
        return self._looked_at(folder)

    def _meant(self, name_or_path: str) -> Path:
        name = known(name_or_path)
        return folder_at(name) or find_folder(self._made, self.roots(), name, self._project)

    def kept(self, name_or_path: str) -> Skill:
        """Return a skill to look at as `skill` does; where its folder is gone or cannot be read, as the store holds it.

        Raises NotFound as `skill` does, and BadSkill when the store does not hold it either.
        """
        name, store = known(name_or_path), self._made
        given = folder_at(name)
        folder = given or find_folder(store, self.roots(), name, self._project)
        try:
            return self._looked_at(folder)
        except BadSkill:
            found = find_tracked(store, name if given else str(folder)) if store else None
            if found is None:
                raise
            return found

    def trouble(self, skill: Skill) -> str:
        """Why a tracked skill cannot be used as it is on disk, and what to do, or an empty string."""
        try:
            self.again(skill)
        except BadSkill as error:
            what = "file" if is_memory(skill.path) else "folder"
            return f"its {what} {'is gone' if is_nowhere(skill.path) else 'cannot be read'}: {error}"
        return ""

    def again(self, skill: Skill) -> Skill:
        """Return a tracked skill as it is now. Raises BadSkill, also when a link has come into its path."""
        if os.path.realpath(skill.path) != skill.path:
            raise BadSkill(f"'{skill.path}' is reached through a link now: put the folder itself back in its place")
        return self._looked_at(Path(skill.path))

    def _looked_at(self, folder: Path) -> Skill:
        if not self.is_made:
            # Raises BadSkill before a store is made for it.
            read_skill(folder)
        return self._cache.get(self.store, folder)

    def live(self, skill: Skill) -> SkillFiles:
        """Return a skill's files as they are on disk now. Raises BadSkill."""
        return read_skill(Path(skill.path))

    def forget(self, skill: Skill) -> None:
        """Look at the skill's folder afresh next time: its files or its row have just changed."""
        self._cache.forget(skill.path)


ANSWER_BYTES = 9_500
LEAST_BYTES = 200
R = TypeVar("R", bound=Result)


def page_end(text: str, start: int) -> int:
    """Where the page of `text` that begins at `start` ends: as far on as the bytes of one page reach."""
    longest = min(len(text), start + limits.RESULT_CHARACTERS)
    return start + bisect_right(
        range(1, longest - start + 1), limits.RESULT_CHARACTERS, key=lambda n: size(text[start : start + n])
    )


def size(text: str) -> int:
    """How many bytes a text takes inside a JSON document."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) - 2


def shortened(text: str, n_bytes: int) -> str:
    """Return the text in at most `n_bytes` of JSON, with its middle left out where it has more."""
    limit = min(len(text), n_bytes)
    cut = truncate_middle(text, limit)
    while size(cut) > n_bytes:
        limit = limit * 9 // 10
        cut = truncate_middle(text, limit)
    return cut


def fitted(result: R, field: str) -> R:
    """Return the result with the text in `field` shortened, so that all of it is one answer."""
    rest = len(result.model_copy(update={field: ""}).model_dump_json().encode())
    text = shortened(str(getattr(result, field)), max(ANSWER_BYTES - rest, LEAST_BYTES))
    return result.model_copy(update={field: text})


def page_start(cursor: str | None) -> int:
    """Where a page begins. Raises BadInput for a cursor that no page gave."""
    if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
        raise BadInput(f"unknown cursor {quoted(cursor)}: use the one that the last page gave, or none")
    return int(cursor or 0)
