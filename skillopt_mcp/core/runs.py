"""Runs: one training run, frozen at its start, and the steps it has finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.core.budgets import NO_CAPS, Caps
from skillopt_mcp.core.calls import Role
from skillopt_mcp.core.candidates import Decision, NewCandidate
from skillopt_mcp.core.edits import Edit
from skillopt_mcp.core.evidence import Mean, Trial
from skillopt_mcp.core.skills import DocumentVersion

RunStatus = Literal["running", "stopped", "finished"]
RunKind = Literal["replay", "proposal"]
StepKind = Literal["step", "memory", "slow", "meta"]
StepVerdict = Literal["accept_best", "accept", "reject", "no_change"]


@dataclass(frozen=True, slots=True)
class Answering:
    """Who answers in a run once its first `after` steps are finished: fingerprints of backends, by role.

    `program` is the version of this program that began, or went on, with them.
    """

    after: int
    fingerprints: dict[str, str]
    program: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run's row: config, prompts and result are json texts; `tasks` and `sessions` (trajectories) are ids.

    Target, optimizer and judge are backend specs; `note` is what earlier runs left for the optimizer; `caps` are those
    that it was given last. `answering` is who answered, the latest last; empty where that is not known. A
    proposal is one step up to its candidate, which a host asked for. `memory` is the memory file that is trained, too.
    """

    id: str
    skill_id: int
    base_version: str
    config: str
    prompts: str
    tasks: tuple[int, ...]
    sessions: tuple[int, ...]
    target: str
    optimizer: str
    status: RunStatus
    result: str | None = None
    note: str = ""
    judge: str = ""
    # The id is made of the repr, and does not depend on these.
    kind: RunKind = field(default="replay", repr=False)
    caps: Caps = field(default=NO_CAPS, repr=False, compare=False)
    answering: tuple[Answering, ...] = field(default=(), repr=False, compare=False)
    memory: DocumentVersion | None = field(default=None, repr=False)

    @property
    def roles(self) -> tuple[Role, ...]:
        """Return the roles that the run asks models for."""
        return ("target", "optimizer", "judge") if self.judge else ("target", "optimizer")

    @property
    def n_documents(self) -> int:
        """The number of documents that the run trains: the skill, or the memory file, too."""
        return 2 if self.memory else 1

    def count_better(self, steps: Sequence[StepRecord]) -> int:
        """Return of how many documents these steps found a better version than the one that the run began with."""
        memory = self.memory.version if self.memory else None
        return sum((last.best_version != self.base_version) + (last.best_memory != memory) for last in steps[-1:])


class StepRecord(BaseModel):
    """What a step did and where it left the run: enough to go on from, and to draw the learning curve.

    `n` counts the rows of a run: its steps, and the slow updates and meta notes that end an epoch. `current`,
    `candidate` and `best` are val scores by the run's metric; `val` has both scores of the candidate there, `baseline`
    those of the base version, with the first row. A rejected candidate scores `at_most` that where its evaluation may
    have ended early, and has no `val`. A slow update's `train` is that of two versions, `train_current` that of the
    current one alone. `patterns` are the mistakes that the analysts saw; `train_by_type` and `val_by_type` (the
    candidate's) are means by a task's first tag. `left_out` are edits beyond the budget, with which the next step
    begins. Parent, candidate and edits of a step of kind memory are those of the memory file; `current_memory` and
    `best_memory` are None in a run without one.
    """

    model_config = ConfigDict(frozen=True)
    n: int
    epoch: int
    budget: int
    train: Mean
    parent_version: str
    candidate_version: str | None
    candidate_id: str | None
    verdict: StepVerdict
    current: float
    candidate: float | None
    best: float
    current_version: str
    best_version: str
    n_proposed: int
    n_applied: int
    n_missing: int
    unmatched: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    kind: StepKind = "step"
    patterns: tuple[str, ...] = ()
    train_by_type: dict[str, Mean] = Field(default_factory=dict)
    val_by_type: dict[str, Mean] = Field(default_factory=dict)
    val: Mean | None = None
    baseline: Mean | None = None
    at_most: bool = Field(default=False, exclude_if=lambda value: not value)
    train_current: Mean | None = None
    left_out: tuple[Edit, ...] = ()
    current_memory: str | None = Field(default=None, exclude_if=lambda value: value is None)
    best_memory: str | None = Field(default=None, exclude_if=lambda value: value is None)

    def show_score(self, digits: int) -> str:
        """The candidate's score as people read it, or "-"."""
        return "-" if self.candidate is None else f"{'≤' * self.at_most}{self.candidate:.{digits}f}"


@dataclass(frozen=True, slots=True)
class TriedEdit:
    """An edit that a step of a run tried, with the step's verdict and its scores on val (None: not evaluated)."""

    n: int
    epoch: int
    verdict: StepVerdict
    edit: Edit
    current: float
    candidate: float | None


@dataclass(frozen=True, slots=True)
class DiscardedEdit:
    """An edit of an earlier candidate that was not kept, with its outcome and the `n_others` next to it."""

    edit: Edit
    became: str
    n_others: int


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """A finished step with everything that one transaction stores of it; `note` is one for the optimizer."""

    record: StepRecord
    trials: tuple[Trial, ...]
    candidate: NewCandidate | None = None
    decision: Decision | None = None
    note: str = ""
