"""Workspace: what every operation works on: a store, the backends that were named, and the skills that can be found."""

from __future__ import annotations

import functools
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from skillopt_mcp.backends.accompanied import Accompanied
from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.batches import Patience, batching
from skillopt_mcp.backends.redacting import Redacting
from skillopt_mcp.backends.registry import batched, open_backend
from skillopt_mcp.calls.owners import Owner
from skillopt_mcp.errors import BackendError, BadSkill
from skillopt_mcp.folders import read_skill
from skillopt_mcp.operations.callers import MOST_CHARACTERS, SESSION, VARIABLE
from skillopt_mcp.operations.finding import (
    check_no_copy,
    check_recorded,
    find_folder,
    find_tracked,
    folder_at,
    is_nowhere,
    skill_roots,
    told_locked,
)
from skillopt_mcp.operations.jobs import Jobs
from skillopt_mcp.operations.judging import judges_for
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.recovery import recover
from skillopt_mcp.operations.redacting import known_here, open_redactor
from skillopt_mcp.operations.sightings import Sightings
from skillopt_mcp.operations.workplaces import Workplaces
from skillopt_mcp.records.budgets import NO_CAPS, Caps
from skillopt_mcp.records.calls import Call, Reply, Role
from skillopt_mcp.records.skills import Skill, SkillFiles, is_memory
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.redaction.known import KnownSecrets
from skillopt_mcp.redaction.redacting import Redactor
from skillopt_mcp.store.opening import Store

LEASE_S = 900.0
_LOG = logging.getLogger(__name__)


class Workspace:
    """A store that is opened on first use, so that making one costs nothing; use it as a context manager.

    `target`, `optimizer` and `judge` are backends (made, or as BACKEND:MODEL) or None; `project` is the folder whose
    skills are found; `caps` are those of every run and test that is advanced here; `clock` tells seconds since 1970.
    `n_slots` calls at once go to each backend, or as many as it takes by itself; with `batch`, calls of targets and
    judges that have a batch API go by that, which is looked at so often. With `hands_out`, work for a host is handed
    out; where nobody hands it out, a host cannot be a backend.
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
        clock: Callable[[], float] = time.time,
        hands_out: bool = False,
        n_slots: int | None = None,
        batch: Patience | None = None,
    ) -> None:
        self.store_path = store_path
        self.caps = caps
        self.clock = clock
        self.lease_s = LEASE_S
        # Whom a command line acts for: what they agree to is kept with their name.
        self.login = ""
        # Who counts what comes in for contests and promotion tests: a person may watch.
        self.on_reply: Callable[[Call, Reply], None] | None = None
        self._hands_out = hands_out
        self.n_slots, self.batch = n_slots, batch
        self.jobs = Jobs()
        self._specs: dict[Role, str | Backend | None] = {"target": target, "optimizer": optimizer, "judge": judge}
        self._backends: dict[Role, Backend] = {}
        self._project = project or Path.cwd()
        self._environ = os.environ if environ is None else environ
        self.workplaces = Workplaces(store_path, self._environ)
        self._own_session = f"process:{secrets.token_hex(8)}"
        self._store: Store | None = None
        self._owner: Owner | None = None
        self._sightings = Sightings()
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def accompanied(self, beside: SkillFiles, called: str) -> Workspace:
        """Return another workspace on the store, whose target attempts every task with these files at hand, too."""
        return Workspace(
            self.store_path,
            target=Accompanied(self.backend("target"), beside, called),
            optimizer=self._specs.get("optimizer"),
            judge=self._specs.get("judge"),
            project=self._project,
            caps=self.caps,
            environ=self._environ,
            n_slots=self.n_slots,
            batch=self.batch,
        )

    def close(self) -> None:
        """Close the store if it was opened; what was handed out here is free for others then."""
        with self._lock:
            if self._owner:
                self._owner.close()
            if self._store:
                self._store.close()

    @property
    def session(self) -> str:
        """Return whose session asks: the host's own name for it, or this process where it has none."""
        return SESSION.get() or self._environ.get(VARIABLE, "")[:MOST_CHARACTERS] or self._own_session

    @property
    def owner(self) -> Owner:
        """Return the name that work is handed out under: by it others see whether who did so still runs."""
        with self._lock:
            if self._owner is None:
                self._owner = Owner(self.store.locks_path)
            return self._owner

    @property
    def store(self) -> Store:
        """Return the store, opened (made, migrated, recovered) on first use. Raises StoreError."""
        with self._lock:
            if self._store is None:
                store = Store(self.store_path)
                if store.migrated:
                    _LOG.warning(store.migrated)
                recover(store)
                self._store = store
            return self._store

    @property
    def is_made(self) -> bool:
        """Return whether the store is there, so that opening it makes none; what cannot be looked at may be there."""
        if self._store is not None:
            return True
        try:
            os.lstat(self.store_path)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    @functools.cached_property
    def known(self) -> KnownSecrets:
        """Return the secrets that are known by their values: no store is needed for that."""
        return known_here(self._environ)

    @functools.cached_property
    def redactor(self) -> Redactor:
        """Return what takes secrets out of texts before they are stored, shown or sent; opens the store."""
        return open_redactor(self.store.path, self.known)

    def backend(self, role: Role) -> Backend:
        """Return the backend of a role. Raises BackendError when none was named, saying how to name one."""
        with self._lock:
            spec = self._specs.get(role)
            if spec is None:
                example = "" if role == "judge" else ", for instance 'claude-code:haiku'"
                raise BackendError(
                    f"no backend is set for the role '{role}': start with --{role} BACKEND:MODEL{example}"
                )
            if role not in self._backends:
                opened = open_backend(spec) if isinstance(spec, str) else spec
                if opened.deferred and not self._hands_out and not batching(opened):
                    raise BackendError(
                        f"'{opened.name}' answers through the tools of a server alone: ask the agent that it serves, "
                        "or name another backend, for instance 'claude-code:sonnet'"
                    )
                if self.batch and role != "optimizer":
                    opened = batched(opened) or opened
                self._backends[role] = Redacting(opened, self.redactor)
            return self._backends[role]

    def _clean(self, text: str) -> str:
        return self.redactor.text(text)

    def backends_for(self, tasks: Iterable[Task]) -> dict[Role, Backend]:
        """Return who attempts these tasks, and who judges them where a judge of theirs has to be asked.

        Raises BackendError when one of them was not named, or a command that a task names cannot be run.
        """
        judges = judges_for(self.store, tasks, functools.partial(self.backend, "judge"), self._clean)
        target: dict[Role, Backend] = {"target": self.backend("target")}
        return {**target, "judge": judges} if judges else target

    @property
    def _made(self) -> Store | None:
        return self.store if self.is_made else None

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
        """Return why nothing may be promoted to where a skill lies, and how a person allows it; "" when it may be."""
        return "" if self.root_of(skill) else told_locked(skill.path)

    def skill(self, name_or_path: str) -> Skill:
        """Return a skill by its name, its folder, its SKILL.md or the path of a memory file; what is on disk is stored.

        Raises NotFound when no such skill is known or found, BadSkill when its folder cannot be read; no store is made
        then.
        """
        return self._looked_at(self._meant(name_or_path))

    def recorded(self, name_or_path: str) -> Skill:
        """Return a skill as `skill` does, to go on with what is recorded of it: nothing is tracked for that.

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

        Raises NotFound as `skill` does, and for what is no more than a copy of a tracked skill; BadSkill when the store
        does not hold it either.
        """
        name, store = known(name_or_path), self._made
        given = folder_at(name)
        folder = given or find_folder(store, self.roots(), name, self._project, look=True)
        if store:
            check_no_copy(store, folder)
        try:
            return self._looked_at(folder)
        except BadSkill:
            found = find_tracked(store, name if given else str(folder)) if store else None
            if found is None:
                raise
            return found

    def trouble(self, skill: Skill) -> str:
        """Return why a tracked skill cannot be used as it is on disk, and what to do, or an empty string."""
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
        return self._sightings.look(self.store, folder)

    def live(self, skill: Skill) -> SkillFiles:
        """Return a skill's files as they are on disk now. Raises BadSkill."""
        return read_skill(Path(skill.path))

    def forget(self, skill: Skill) -> None:
        """Look at the skill's folder afresh next time: its files or its row have just changed."""
        self._sightings.forget(skill.path)
