"""Histories: the lines of a file that carries a skill's history from one store to another."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from skillopt_mcp.records.edits import Op, UnmatchedReason

FORMAT_VERSION = 4
"""What this release reads. It writes the oldest that tells all.

1, or 2 where a task was retired, 3 where an attempt was erased, 4 where a candidate is one step of a run.
"""
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Moment = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z$")]
Short = Annotated[str, Field(max_length=200)]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Heading(_Line):
    """The first line: what this is, and of which skill."""

    kind: Literal["history"] = "history"
    format: Literal["skillopt-mcp history"] = "skillopt-mcp history"
    version: int = FORMAT_VERSION
    skill: Short


class Content(_Line):
    """The content of files of versions, before the versions: as text, or in base 64 where it is none."""

    kind: Literal["content"] = "content"
    text: str | None = None
    base64: str | None = None


class VersionFile(_Line):
    """One file of a version, by the digest of its content."""

    path: str
    sha256: Digest
    executable: bool


class VersionLine(_Line):
    """A version, parents before children."""

    kind: Literal["version"] = "version"
    id: Digest
    parent_id: Digest | None
    files: tuple[VersionFile, ...]


class TaskLine(_Line):
    """A task in the form in which tasks are added, with its split."""

    kind: Literal["task"] = "task"
    task: JsonValue


class RetiredTaskLine(_Line):
    """A task that was taken out of use, and why."""

    kind: Literal["retired_task"] = "retired_task"
    task: JsonValue
    reason: Annotated[str, Field(max_length=2_000)]


class TrajectoryLine(_Line):
    """An attempt of a real session."""

    kind: Literal["trajectory"] = "trajectory"
    version_id: Digest
    session_id: Short | None
    position: int | None = Field(ge=0, lt=1 << 53)
    prompt: str
    answer: str
    hard: bool | None
    soft: float | None = Field(ge=0, le=1)
    reason: str
    messages: tuple[tuple[str, str] | tuple[str, str, str], ...]
    created_at: Moment


class ErasedLine(_Line):
    """An attempt that a person erased: its place, its score and when it was recorded are all that is left."""

    kind: Literal["erased"] = "erased"
    version_id: Digest
    session_id: Short | None
    position: int | None = Field(ge=0, lt=1 << 53)
    hard: bool | None
    soft: float | None = Field(ge=0, le=1)
    created_at: Moment


class EditLine(_Line):
    """An edit of a candidate, and what became of it."""

    op: Op
    path: str
    target: str | None
    content: str | None
    status: Literal["applied", "unmatched"]
    reason: UnmatchedReason | None
    detail: str


class _Candidate(_Line):
    base_version: Digest
    version_id: Digest
    reasoning: str
    edits: tuple[EditLine, ...]


class CandidateLine(_Candidate):
    """A candidate: the version that it leads to, from which base, by which edits."""

    kind: Literal["candidate"] = "candidate"


class StepCandidateLine(_Candidate):
    """What a run made in one of its steps: no candidate in its own right."""

    kind: Literal["step_candidate"] = "step_candidate"


class Told(_Line):
    """What only tells, and is never acted on: a decision, promotion test, promotion, run or event of another store."""

    kind: Literal["told"] = "told"
    what: Literal["decision", "test", "promotion", "run", "event"]
    content: dict[str, JsonValue]


class Ending(_Line):
    """The last line: how many there are before it, and their sha256."""

    kind: Literal["end"] = "end"
    n: int
    sha256: Digest


MadeLine = CandidateLine | StepCandidateLine
HistoryLine = Content | VersionLine | TaskLine | RetiredTaskLine | TrajectoryLine | ErasedLine | MadeLine | Told
AnyLine = Heading | HistoryLine | Ending
LINE: TypeAdapter[AnyLine] = TypeAdapter(Annotated[AnyLine, Field(discriminator="kind")])
