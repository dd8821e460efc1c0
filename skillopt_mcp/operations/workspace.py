"""Workspace: what every operation works on: a store, the backends that were named, and the skills that can be found."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.errors import BackendError, NotFound
from skillopt_mcp.folders import default_roots, find_skill_folders, read_skill, skill_name, stamp
from skillopt_mcp.operations.jobs import Jobs
from skillopt_mcp.operations.recovery import recover
from skillopt_mcp.records.calls import Role
from skillopt_mcp.records.skills import MAIN_FILE, Skill, SkillFiles
from skillopt_mcp.store.opening import Store


class Workspace:
    """A store that is opened on first use, so that making one costs nothing; use it as a context manager.

    `target` and `optimizer` are backends as BACKEND:MODEL, or None; `project` is the folder whose skills are looked for.
    """

    def __init__(
        self,
        store_path: Path,
        *,
        target: str | None = None,
        optimizer: str | None = None,
        project: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.store_path = store_path
        self.jobs = Jobs()
        self._specs: dict[Role, str | None] = {"target": target, "optimizer": optimizer}
        self._backends: dict[Role, Backend] = {}
        self._project = project or Path.cwd()
        self._environ = os.environ if environ is None else environ
        self._store: Store | None = None
        self._seen: dict[str, tuple[object, Skill]] = {}
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store if it was opened."""
        with self._lock:
            if self._store:
                self._store.close()

    @property
    def store(self) -> Store:
        """Return the store, opened (made, migrated, recovered) on first use. Raises StoreError."""
        with self._lock:
            if self._store is None:
                store = Store(self.store_path)
                recover(store)
                self._store = store
            return self._store

    def backend(self, role: Role) -> Backend:
        """Return the backend of a role. Raises BackendError when none was named, saying how to name one."""
        with self._lock:
            spec = self._specs.get(role)
            if spec is None:
                raise BackendError(
                    f"no backend is set for the role '{role}': start with --{role} BACKEND:MODEL, "
                    "for instance 'simulated:honest'"
                )
            if role not in self._backends:
                self._backends[role] = open_backend(spec)
            return self._backends[role]

    def roots(self) -> list[Path]:
        """Return the skill roots, links resolved: the hosts' own folders that exist, and those that a person added."""
        hosts = default_roots(Path.home(), self._project, self._environ)
        registered = [Path(path) for path in self.store.skills.list_roots()]
        existing = [Path(os.path.realpath(root)) for root in [*hosts, *registered] if root.is_dir()]
        return list(dict.fromkeys(existing))

    def root_of(self, skill: Skill) -> Path | None:
        """Return the skill root that a skill's folder lies in, if it does, and no link leads out of it."""
        if os.path.realpath(skill.path) != skill.path:
            return None
        return next((root for root in self.roots() if Path(skill.path).is_relative_to(root)), None)

    def skill(self, name_or_path: str) -> Skill:
        """Return a skill by name, or by the path of its folder or SKILL.md, with what is on disk stored as its live version.

        Raises NotFound when no such skill is known or found, BadSkill when its folder cannot be read.
        """
        folder = self._folder(name_or_path)
        key = str(folder)
        now = stamp(folder)
        with self._lock:
            cached = self._seen.get(key)
        if cached and cached[0] == now:
            return cached[1]
        files = read_skill(folder)
        skill = self.store.skills.track(skill_name(folder), key, files)
        with self._lock:
            self._seen[key] = (now, skill)
        return skill

    def live(self, skill: Skill) -> SkillFiles:
        """Return a skill's files as they are on disk now. Raises BadSkill."""
        return read_skill(Path(skill.path))

    def forget(self, skill: Skill) -> None:
        """Look at the skill's folder afresh next time: its files or its row have just changed."""
        with self._lock:
            self._seen.pop(skill.path, None)

    def _folder(self, name_or_path: str) -> Path:
        given = Path(name_or_path).expanduser()
        if _looks_like_path(name_or_path):
            folder = given.parent if given.name == MAIN_FILE else given
            return Path(os.path.realpath(folder))
        tracked = self.store.skills.find_skill(name_or_path)
        if tracked:
            return Path(tracked.path)
        found = find_skill_folders(self.roots())
        matching = list(dict.fromkeys(Path(os.path.realpath(path)) for path in found if path.name == name_or_path))
        if len(matching) == 1:
            return matching[0]
        if matching:
            paths = ", ".join(f"'{path}'" for path in matching)
            raise NotFound(f"{len(matching)} skills are named '{name_or_path}': use the path, one of {paths}")
        names = ", ".join(sorted({path.name for path in found})) or "none"
        raise NotFound(
            f"no skill '{name_or_path}' is known or lies in a skill folder (found: {names}): "
            "give the path of its folder once, and it is tracked from then on"
        )


def _looks_like_path(text: str) -> bool:
    return "/" in text or os.sep in text or text.startswith("~") or text == MAIN_FILE
