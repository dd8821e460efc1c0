"""Skills: the files of one skill at one moment, the named snapshots of them, and a skill in a list."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from skillopt_mcp.core.next_step import NextStep

MAIN_FILE = "SKILL.md"
EVIDENCE_FILE = "SKILL.evidence.json"
MEMORY_FILES = ("CLAUDE.md", "AGENTS.md")
Origin = Literal["recorded", "edited", "promoted", "rolled_back"]


@dataclass(frozen=True, slots=True)
class SkillFile:
    """One file of a skill: its path inside the folder (posix, relative), its bytes, and whether it may be run."""

    path: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True)
class SkillFiles:
    """All files of a skill, ordered by path; equal files give the same `digest`."""

    files: tuple[SkillFile, ...] = field()

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", tuple(sorted(self.files, key=lambda file: file.path)))

    @cached_property
    def digest(self) -> str:
        """Return the sha256 (hex) that names this content: over path, run bit and sha256 of every file, by path."""
        contents = ((file, hashlib.sha256(file.content).hexdigest()) for file in self.files)
        return files_digest((file.path, file.executable, sha256) for file, sha256 in contents)

    def get(self, path: str) -> SkillFile | None:
        """Return the file at `path`, or None."""
        return next((file for file in self.files if file.path == path), None)

    @cached_property
    def main_path(self) -> str:
        """Return the path of the main document: SKILL.md, or the one file that a memory file is."""
        return self.files[0].path if len(self.files) == 1 and is_memory(self.files[0].path) else MAIN_FILE

    @cached_property
    def main(self) -> bytes:
        """Return the bytes of the main document (empty when the skill has none)."""
        file = self.get(self.main_path)
        return file.content if file else b""

    @cached_property
    def text(self) -> str:
        """Return all text files as one string, the main document first: what a model is shown of the skill."""
        others = [file for file in self.files if file.path != self.main_path and b"\0" not in file.content]
        parts = [self.main.decode("utf-8", "replace")]
        parts += [f"\n\n=== {file.path} ===\n{file.content.decode('utf-8', 'replace')}" for file in others]
        return "".join(parts)

    def replaced(self, *files: SkillFile) -> SkillFiles:
        """Return a copy with `files` added, or put in the place of those with the same path."""
        new = {file.path: file for file in (*self.files, *files)}
        return SkillFiles(tuple(new.values()))


@dataclass(frozen=True, slots=True)
class Skill:
    """A tracked skill: `path` is its folder, or the file itself of a memory file, resolved when it was first seen."""

    id: int
    name: str
    path: str
    live_version: str
    best_version: str | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """An immutable snapshot; `id` is the digest of its files, unique within a skill."""

    id: str
    skill_id: int
    parent_id: str | None
    origin: Origin
    created_at: str


class DocumentVersion(NamedTuple):
    """A version of a skill or of a memory file, each of which is a row of table skill."""

    skill_id: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCounts:
    """Stored tasks per split."""

    train: int = 0
    val: int = 0
    test: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotedAway:
    """What a standing permission alone promoted since a person last looked: the commands that show and undo it."""

    note: Literal["promoted while you were away"] = "promoted while you were away"
    at: str
    version: str
    previous_version: str
    diff: str
    undo: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRow:
    """One skill: found on disk (tracked or not), with what has been gathered for it.

    `approved` are the candidates (or versions to roll back to) that a person agreed to and nothing has used yet.
    `n_unscored` counts the newest attempts without a score, up to 100; `n_new` those since the
    last proposal, up to 10,000. Pass `away` on to the user, with both commands. `gaps`: add a task of each of its tags.
    `outdated`: another model answers now than in the newest test.
    """

    name: str
    path: str
    tracked: bool
    live_version: str | None = None
    best_version: str | None = None
    splits: SplitCounts = field(default_factory=SplitCounts)
    n_trajectories: int = 0
    n_new: int = 0
    n_unscored: int = 0
    open_candidates: int = 0
    approved: list[str] = field(default_factory=list)
    promotable: bool = False
    away: PromotedAway | None = None
    gaps: dict[str, list[str]] = field(default_factory=dict)
    outdated: str = ""
    next_step: NextStep


def files_digest(files: Iterable[tuple[str, bool, str]]) -> str:
    """Return the digest of a version from (path, run bit, sha256 of the content) of its files, ordered by path."""
    whole = hashlib.sha256()
    for path, executable, sha256 in files:
        whole.update(f"{path}\0{int(executable)}\0{sha256}\n".encode())
    return whole.hexdigest()


def is_memory(path: str) -> bool:
    """Whether a path is that of a memory file: one document that a host reads in every session, no folder."""
    return path.replace("\\", "/").rpartition("/")[2] in MEMORY_FILES


def short(version_id: str) -> str:
    """Return the first 12 characters of a digest: enough to name a version to a person."""
    return version_id[:12]
