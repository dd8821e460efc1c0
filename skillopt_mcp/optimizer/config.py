"""Config: the settings of a run, with the paper's defaults."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from skillopt_mcp.records.evidence import Metric
from skillopt_mcp.schedule import Schedule


class Config(BaseModel):
    """How a run trains. Defaults are those of SkillOpt (Yang et al., 2026) where it has the setting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(default=4, ge=1, le=1000, description="Passes over the train tasks")
    batch: int = Field(default=40, ge=1, le=10_000, description="Train tasks per step")
    minibatch: int = Field(default=8, ge=1, le=1000, description="Trajectories per reflection")
    fan_in: int = Field(default=8, ge=2, le=1000, description="Patches per merge")
    schedule: Schedule = Field(default="cosine", description="How the edit budget falls from max_edits to min_edits")
    max_edits: int = Field(
        default=4, ge=1, le=64, description="Edit budget of the first step: the textual learning rate"
    )
    min_edits: int = Field(default=2, ge=0, le=64, description="Edit budget of the last step")
    metric: Metric = Field(default="hard", description="What the search gate compares")
    seed: int = Field(default=42, description="Seed of every shuffle")
    sessions: int = Field(default=8, ge=0, le=1000, description="Recorded trajectories mixed into every reflection")
    alpha: float = Field(default=0.05, gt=0, lt=1, description="Lifetime error rate of the promotion gate")
    max_pairs: int = Field(default=200, ge=1, le=100_000, description="Pairs after which the promotion gate pauses")

    @model_validator(mode="after")
    def _budget_falls(self) -> Config:
        if self.min_edits > self.max_edits:
            raise ValueError(f"min_edits {self.min_edits} is above max_edits {self.max_edits}")
        return self
