"""Runs: one training run, frozen at its start, and the steps it has finished."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.core.budgets import NO_CAPS, Caps
from skillopt_mcp.core.candidates import Decision, NewCandidate
from skillopt_mcp.core.edits import Edit
from skillopt_mcp.core.evidence import Mean, Trial

RunStatus = Literal["running", "stopped", "finished"]
RunKind = Literal["replay", "proposal"]
StepKind = Literal["step", "slow", "meta"]
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
    proposal is one step up to its candidate, which a host asked for.
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


class StepRecord(BaseModel):
    """What a step did and where it left the run: enough to go on from, and to draw the learning curve.

    `n` counts the rows of a run: its steps, and the slow updates and meta notes that end an epoch. `current`,
    `candidate` and `best` are val scores by the run's metric; `val` has both scores of the candidate there, `baseline`
    those of the base version, with the first row. A slow update's `train` is that of two versions, `train_current` that
    of the current one alone. `patterns` are the mistakes that the analysts saw; `train_by_type` and `val_by_type` (the
    candidate's) are means by a task's first tag. `left_out` are
    edits beyond the budget, with which the next step begins.
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
    train_current: Mean | None = None
    left_out: tuple[Edit, ...] = ()


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
