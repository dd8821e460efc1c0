"""Estimating: how many calls a run will make at most, told before anything is spent."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config


class Estimate(BaseModel):
    """The calls of a whole run, at most, but for re-asking after unusable replies."""

    model_config = ConfigDict(frozen=True)
    n_steps: int
    n_train: int
    n_val: int
    train_rollouts: int
    val_rollouts: int
    optimizer_calls: int
    promotion_pairs: int

    @property
    def target_calls(self) -> int:
        """Return the rollouts of training, search gate and promotion test together."""
        return self.train_rollouts + self.val_rollouts + 2 * self.promotion_pairs


def estimate_run(workspace: Workspace, skill: str, config: Config) -> Estimate:
    """Return what a run of a skill would ask at most. Raises NotFound, BadSkill."""
    tracked = workspace.skill(skill)
    counts = workspace.store.tasks.count_tasks(tracked.id)
    n_sessions = len(workspace.store.tasks.recent_trajectories(tracked.id, config.sessions))
    batch_sizes = [min(config.batch, counts["train"] - start) for start in range(0, counts["train"], config.batch)]
    n_steps = config.epochs * len(batch_sizes)
    return Estimate(
        n_steps=n_steps,
        n_train=counts["train"],
        n_val=counts["val"],
        train_rollouts=config.epochs * counts["train"],
        val_rollouts=(n_steps + 1) * counts["val"],
        optimizer_calls=config.epochs * sum(_reasoning(size + n_sessions, config) for size in batch_sizes),
        promotion_pairs=config.max_pairs,
    )


def _reasoning(n_trajectories: int, config: Config) -> int:
    """Return the optimizer's calls of one step: analysts of failures and successes, merges by level, a ranking."""
    n_analysts = -(-n_trajectories // config.minibatch) + 1
    n_merges, n_patches = 2, n_analysts
    while n_patches > 1:
        n_patches = -(-n_patches // config.fan_in)
        n_merges += n_patches
    return n_analysts + n_merges + 1
