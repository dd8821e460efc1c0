"""Place: where a process works and for whom, and the skills that are found from there."""

from __future__ import annotations

import functools
import os
import secrets
import shlex
import stat
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_mcp.core.errors import BadSkill, NotFound, StoreError
from skillopt_mcp.core.limits import SESSION_CHARACTERS
from skillopt_mcp.core.skills import MAIN_FILE, Skill, is_memory
from skillopt_mcp.core.text import quoted
from skillopt_mcp.store.skills import GATED
from skillopt_mcp.workspace.callers import Caller, find_caller
from skillopt_mcp.workspace.skill_folders import (
    SkillCache,
    default_roots,
    find_folder,
    find_tracked,
    folder_at,
    is_nowhere,
    known,
    main_path,
    read_skill,
    root_for,
)

if TYPE_CHECKING:
    from skillopt_mcp.backends.work_folders import WorkFolders
    from skillopt_mcp.core.candidates import Candidate
    from skillopt_mcp.core.redacting import KnownSecrets, Redactor
    from skillopt_mcp.store.opening import Store

# Which session of a host a call comes from, and how Claude Code names its session to servers and commands.
SESSION: ContextVar[str] = ContextVar("session", default="")
_SESSION_VARIABLE = "CLAUDE_CODE_SESSION_ID"
_SALT_BYTES = 32
_LARGEST_FILE_BYTES = 64 * 1024
_CREDENTIAL_FILES = (
    ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".npmrc", ".pypirc", ".git-credentials",
    ".docker/config.json", ".pgpass", ".codex/auth.json", ".claude/.credentials.json",
)  # fmt: skip


class Place:
    """The folder and the environment of a process, who calls, and the skills of hosts and store that it finds there."""

    def __init__(self, store: Store, project: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._store = store
        self._project = project or Path.cwd()
        self._environ = os.environ if environ is None else environ
        # Who calls, by this process; a server says that an agent does.
        self.caller: Caller = find_caller(self._environ)
        # Whom a command line acts for: what they agree to is kept with their name.
        self.login = ""
        self._own_session = f"process:{secrets.token_hex(8)}"
        self._cache = SkillCache()

    @property
    def is_agents(self) -> bool:
        """Whether an agent reads what is shown: then scores, costs and tasks of promotion tests are left out."""
        return self.caller == "agent"

    @property
    def session(self) -> str:
        """The id of the session: the host's, or this process's where it has none."""
        return SESSION.get() or self._environ.get(_SESSION_VARIABLE, "")[:SESSION_CHARACTERS] or self._own_session

    # What needs the redactor or the work of hosts loads it here, for listing skills takes none.

    @functools.cached_property
    def secrets(self) -> KnownSecrets:
        """The secrets of the environment and of the user's credential files; no store is needed for that."""
        from skillopt_mcp.core.redacting import known_secrets  # noqa: PLC0415

        texts = []
        for path in (Path(os.path.expanduser("~"), name) for name in _CREDENTIAL_FILES):
            try:
                status = path.stat()
                if stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST_FILE_BYTES:
                    texts.append(path.read_text("utf-8", "replace"))
            except OSError:
                continue  # not there, or not ours to read: then nothing of it is in a transcript either
        return known_secrets(self._environ, texts)

    @functools.cached_property
    def redactor(self) -> Redactor:
        """What takes secrets out of texts before they are stored, shown or sent; opens the store."""
        self._store.open()
        return open_redactor(self._store.path, self.secrets)

    @functools.cached_property
    def work_folders(self) -> WorkFolders:
        """Where the work of hosts lies."""
        from skillopt_mcp.backends.work_folders import WorkFolders  # noqa: PLC0415

        return WorkFolders(self._store.path, self._environ)

    def note_seen(self, candidate: Candidate) -> None:
        """Note that the caller's session proposed or saw a candidate, where a host's session calls."""
        if self.is_agents:
            self._store.candidates.note_seen(candidate.id, self.session)

    # Where skills lie

    @property
    def _made(self) -> Store | None:
        return self._store if self._store.is_made else None

    def roots(self) -> list[Path]:
        """The skill roots, links resolved: the hosts' own folders that exist, and those that a person added."""
        hosts = default_roots(Path(os.path.expanduser("~")), self._project, self._environ)
        roots = list(map(os.path.realpath, hosts))
        if self._made:
            # A registered root is pinned: a link that took its place since leads nowhere.
            roots += [path for path in self._made.permissions.list_roots() if os.path.realpath(path) == path]
        # A memory file is a root of its own: it allows nothing next to it.
        return [Path(root) for root in dict.fromkeys(roots) if os.path.isdir(root) or is_memory(root)]

    def root_of(self, skill: Skill) -> Path | None:
        """The skill root that a skill's folder lies in, if it does, and no link leads out of it."""
        return self.root_at(skill.path)

    def root_at(self, path: str, roots: Sequence[Path] | None = None) -> Path | None:
        """The skill root (of these `roots`, if given) that a path lies in, and no link leads out of it."""
        if os.path.realpath(path) != path:
            return None
        return next(
            (root for root in (self.roots() if roots is None else roots) if Path(path).is_relative_to(root)), None
        )

    def describe_locked(self, skill: Skill) -> str:
        """Why nothing may be promoted to where a skill lies, and how a person allows it; "" when it may be."""
        if self.root_of(skill):
            main = main_path(skill.path)
            return f"{quoted(main, 500)} is a link, so no edit of it can be promoted" if os.path.islink(main) else ""
        return (
            f"{quoted(skill.path, 500)} lies in no skill root, so nothing can be promoted to it until a person allows "
            f"it: skillopt-mcp skills add-root {shlex.quote(root_for(skill.path))}"
        )

    def describe_hidden(self, path: str) -> str:
        """Which skill Claude Code loads in the place of the one at `path`; "" where it is that one."""
        home = self._environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
        own, root = os.path.join(os.path.realpath(home), "skills"), os.path.dirname(path)
        hiding = os.path.join(own, os.path.basename(path))
        if not root.endswith("/.claude/skills") or root == own or not os.path.isfile(os.path.join(hiding, MAIN_FILE)):
            return ""
        return f"{quoted(hiding, 500)} hides {quoted(path, 500)} in Claude Code, which loads that one"

    # Skills by name

    def skill(self, name_or_path: str) -> Skill:
        """Find a skill by its name, its folder, its SKILL.md or the path of a memory file; what is on disk is stored.

        Raises NotFound when no such skill is known or found, BadSkill when its folder cannot be read; no store is made
        then.
        """
        return self._looked_at(self._meant(name_or_path))

    def find_recorded(self, name_or_path: str) -> Skill:
        """Find a skill as `skill` does, to continue with what is recorded: nothing new is tracked.

        Raises NotFound where nothing is, too.
        """
        folder = self._meant(name_or_path)
        path, store = str(folder), self._made
        if os.path.isfile(main_path(path)):
            skill = store.skills.find_at(path) if store else None
            if not (store and skill and (store.skills.find_listed(path) or store.skills.count_recorded(skill.id))):
                raise NotFound(
                    f"the skill has no train task, nor is anything else recorded of {quoted(path, 500)}: add tasks "
                    "with add_tasks or 'skillopt-mcp tasks add'"
                )
        return self._looked_at(folder)

    def _meant(self, name_or_path: str) -> Path:
        name = known(name_or_path)
        return folder_at(name) or find_folder(self._made, self.roots(), name, self._project)

    def find_kept(self, name_or_path: str) -> Skill:
        """Find a skill to look at as `skill` does; where its folder is gone or cannot be read, as the store holds it.

        Raises NotFound as `skill` does, and BadSkill when the store does not hold it either.
        """
        name, store = known(name_or_path), self._made
        if store and name.startswith(GATED) and (gated := store.skills.find_at(name)):
            return gated
        given = folder_at(name)
        folder = given or find_folder(store, self.roots(), name, self._project)
        try:
            return self._looked_at(folder)
        except BadSkill:
            found = find_tracked(store, name if given else str(folder)) if store else None
            if found is None:
                raise
            return found

    def describe_trouble(self, skill: Skill) -> str:
        """Why a tracked skill cannot be used as it is on disk, and what to do, or an empty string."""
        try:
            self.again(skill)
        except BadSkill as error:
            what = "file" if is_memory(skill.path) else "folder"
            return f"its {what} {'is gone' if is_nowhere(skill.path) else 'cannot be read'}: {error}"
        return ""

    def again(self, skill: Skill) -> Skill:
        """A tracked skill as it is now. Raises BadSkill, also when a link has come into its path."""
        if skill.path.startswith(GATED):
            raise BadSkill(f"'{skill.path}' is what a gate tested, and no skill on disk: nothing is promoted there")
        if os.path.realpath(skill.path) != skill.path:
            raise BadSkill(f"'{skill.path}' is reached through a link now: put the folder itself back in its place")
        return self._looked_at(Path(skill.path))

    def _looked_at(self, folder: Path) -> Skill:
        if not self._store.is_made:
            # Raises BadSkill before a store is made for it.
            read_skill(folder)
        return self._cache.get(self._store, folder)

    def forget(self, skill: Skill) -> None:
        """Look at the skill's folder afresh next time: its files or its row have just changed."""
        self._cache.forget(skill.path)


def open_redactor(store_path: Path, known: KnownSecrets) -> Redactor:
    """The redactor of a store; its salt is kept next to the store, so that placeholders stay the same.

    Raises StoreError when the salt can neither be read nor made.
    """
    from skillopt_mcp.core.redacting import Redactor  # noqa: PLC0415

    path = store_path.with_name(f"{store_path.name}.salt")
    try:
        if not path.exists():  # the first process makes it
            own = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
            with open(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(_SALT_BYTES))
            try:
                os.link(own, path)
            except FileExistsError:
                pass
            finally:
                own.unlink()
        return Redactor(path.read_bytes(), known)
    except OSError as error:
        raise StoreError(f"'{path}' cannot be made ({error.strerror}): check the folder's permissions") from error
