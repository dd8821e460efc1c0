"""Tasks: what the target model is asked to do, and how its answer is judged."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal, get_args

from skillopt_mcp.records.judging import JudgeSpec, spec_json

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A text file that a task brings along: relative posix path and content."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task before it is stored; `name` is the caller's own id for it."""

    prompt: str
    judge: JudgeSpec
    name: str | None = None
    split: Split | None = None
    tags: tuple[str, ...] = ()
    files: tuple[TaskFile, ...] = ()

    @property
    def digest(self) -> str:
        """Return the sha256 (hex) over prompt, judge and files: two tasks with the same digest are duplicates."""
        judge = spec_json(self.judge)
        files = [[file.path, file.content] for file in self.files]
        return hashlib.sha256(json.dumps([self.prompt, judge, files], ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Task:
    """A stored task. `split` never changes by itself; `digest` names prompt, judge and files."""

    id: int
    skill_id: int
    name: str
    prompt: str
    judge: JudgeSpec
    split: Split
    digest: str
    tags: tuple[str, ...] = ()
    files: tuple[TaskFile, ...] = ()
