"""Tasks: what the target model is asked to do, and how its answer is judged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from skillopt_mcp.core.judging import Judge, judge_json
from skillopt_mcp.core.text import quoted, without_hidden

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
SHAPE = "{prompt, judge: {kind, ...}, id?, split?, group?, tags?, files?}"
QUESTION = "Question: "
QUESTION_ENDING = "Reply with the answer alone, in as few words as it takes."
"""What the prompts of questions out of data sets have in common: where the question begins, and how it ends."""


# What hosts read of a folder that they work in, of which some may run programs.
_OF_HOSTS = frozenset({
    ".agents", ".claude", ".codex", ".git", ".mcp.json",
    *("agents.md", "agents.override.md", "claude.md", "claude.local.md"),
})  # fmt: skip


def describe_hosts_own(path: str) -> str:
    """Why a task may not have a file at this path, where it would set up the host; "" elsewhere."""
    parts = without_hidden(path).lower().replace("\\", "/").split("/")
    return "" if _OF_HOSTS.isdisjoint(parts) else f"its file {quoted(path)} would set up the host; leave it out"


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A text file that a task brings along: relative posix path and content."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task before it is stored; `name` is the caller's own id for it. Tasks of the same `group` are one family."""

    prompt: str
    judge: Judge
    name: str | None = None
    split: Split | None = None
    tags: tuple[str, ...] = ()
    files: tuple[TaskFile, ...] = ()
    group: str = ""

    @property
    def digest(self) -> str:
        """Return the sha256 (hex) over prompt, judge and files: two tasks with the same digest are duplicates."""
        return task_digest(self.prompt, judge_json(self.judge), [[file.path, file.content] for file in self.files])


@dataclass(frozen=True, slots=True)
class Task:
    """A stored task. `digest` names prompt, judge and files, `folder` its skill's.

    `looked_at`: a person added it, or looked at it as it is. One that `waits` was added by another, and is in train
    until a person has looked at it; then its split is drawn.
    """

    id: int
    skill_id: int
    name: str
    prompt: str
    judge: Judge
    split: Split
    digest: str
    tags: tuple[str, ...] = ()
    files: tuple[TaskFile, ...] = ()
    group: str = ""
    folder: str = field(default="", compare=False)
    waits: bool = field(default=False, compare=False)
    looked_at: bool = field(default=False, compare=False)
    created_at: str = field(default="", compare=False)  # the same for all that were added at once


def task_digest(prompt: str, judge: str, files: Sequence[Sequence[str]]) -> str:
    """Return the digest of a task from its prompt, its judge (json) and its files as (path, content)."""
    return hashlib.sha256(json.dumps([prompt, judge, files], ensure_ascii=False).encode()).hexdigest()
