"""Runs: one training run, frozen at its start, and the steps it has finished."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.records.candidates import Decision, NewCandidate
from skillopt_mcp.records.evidence import Mean, Trial

RunStatus = Literal["running", "stopped", "finished"]
StepVerdict = Literal["accept_best", "accept", "reject", "no_change", "held"]


@dataclass(frozen=True, slots=True)
class Run:
    """A run's row: config, prompts and result are json texts; `tasks` and `sessions` (trajectories) are ids; target and optimizer are backend specs."""

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


class StepRecord(BaseModel):
    """What a step did and where it left the run: enough to go on from, and to draw the learning curve."""

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


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """A finished step with everything that one transaction stores of it."""

    record: StepRecord
    trials: tuple[Trial, ...]
    candidate: NewCandidate | None = None
    decision: Decision | None = None
