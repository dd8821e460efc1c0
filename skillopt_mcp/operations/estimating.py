"""Estimating: how many calls a run will make at most, told before anything is spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.judges.judging import leaves
from skillopt_mcp.operations.choosing import chosen_tasks, target_tasks
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.plan import epoch_batches
from skillopt_mcp.optimizer.sampling import held_out
from skillopt_mcp.records.budgets import FREE_STAGE
from skillopt_mcp.records.calls import Role
from skillopt_mcp.records.judging import Rubric
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.tasks import SPLITS, Task


class Estimate(BaseModel):
    """The calls of a whole run, at most, but for re-asking what was lost on the way, or after unusable replies."""

    model_config = ConfigDict(frozen=True)
    n_steps: int
    n_train: int
    n_val: int
    train_rollouts: int
    val_rollouts: int
    optimizer_calls: int
    promotion_pairs: int
    judge_calls: int = 0
    pair_judge_calls: int = 0

    @property
    def target_calls(self) -> int:
        """Return the rollouts of training, search gate and promotion test together."""
        return self.train_rollouts + self.val_rollouts + 2 * self.promotion_pairs

    @property
    def calls(self) -> dict[Role, int]:
        """Return the calls of each role."""
        return {"target": self.target_calls, "optimizer": self.optimizer_calls, "judge": self.judge_calls}


def estimate_run(workspace: Workspace, skill: str, config: Config, only: Collection[str] | None = None) -> Estimate:
    """Return what a run of a skill, on the tasks of these digests `only`, would ask at most.

    Raises NotFound, BadSkill.
    """
    tracked = workspace.skill(skill)
    n_sessions = len(workspace.store.trajectories.recent_trajectories(tracked.id, config.sessions))
    return _estimate(chosen_tasks(workspace, tracked, config, only), n_sessions, config)


def estimate_rest(workspace: Workspace, run: Run) -> dict[Role, int]:
    """Return what an unfinished run may still ask of each role at most: its estimate, less what was answered."""
    store = workspace.store
    chosen = set(run.tasks)
    tasks = [task for task in store.tasks.list_tasks(run.skill_id) if task.id in chosen]
    whole = _estimate(tasks, len(run.sessions), Config.of_run(run.config))
    n_pairs = whole.promotion_pairs
    tests = store.runs.list_finishes(run.id)
    if tests:
        # Its training is over.
        n_left = max(0, n_pairs - sum(len(store.decisions.list_pairs(test)) - since for test, since in tests))
        return {"target": 2 * n_left, "optimizer": 0, "judge": n_left * whole.pair_judge_calls}
    answered: Counter[str] = Counter()
    for row in store.ledger.list_rows(run.id):
        answered[row.role] += row.n_calls if row.stage != FREE_STAGE else 0
    in_test: dict[Role, int] = {"target": 2 * n_pairs, "optimizer": 0, "judge": n_pairs * whole.pair_judge_calls}
    return {role: max(n_calls - answered[role], in_test[role]) for role, n_calls in whole.calls.items()}


def _estimate(tasks: list[Task], n_sessions: int, config: Config) -> Estimate:
    counts = Counter(task.split for task in tasks)
    votes = Counter({split: sum(_votes(task) for task in tasks if task.split == split) for split in SPLITS})
    n_train, n_val, n_slow = counts["train"], counts["val"], (config.epochs - 1) * config.slow_update
    steps = epoch_batches(n_train, config, 1) if n_train else []
    sizes = [sum(map(len, batches)) * config.repeats for batches in steps]
    n_steps = config.epochs * len(sizes)
    n_compared = 2 * n_slow * (n_train if config.slow_pairs == "changed" else min(config.slow_samples, n_train))
    n_planned, n_evaluated = config.epochs * n_train * config.repeats, 1 + _evaluations(n_steps, n_slow, config)
    train_rollouts = config.epochs * sum(sizes) + n_compared
    n_pairs = config.max_pairs if config.claim == "these" else min(config.max_pairs, counts["test"])
    pair_votes = 2 * max(map(_votes, held_out(tasks)), default=0)
    most_votes = max((_votes(task) for task in tasks if task.split == "train"), default=0)
    return Estimate(
        n_steps=n_steps,
        n_train=n_train,
        n_val=n_val,
        train_rollouts=train_rollouts,
        val_rollouts=n_evaluated * n_val,
        optimizer_calls=config.epochs * sum(_reasoning(size + n_sessions, config) for size in sizes)
        + n_slow
        + (config.epochs - 1) * config.meta_skill,
        promotion_pairs=n_pairs,
        judge_calls=config.epochs * config.repeats * votes["train"]
        + (train_rollouts - n_planned) * most_votes
        + n_evaluated * votes["val"]
        + n_pairs * pair_votes,
        pair_judge_calls=pair_votes,
    )


def estimate_test(workspace: Workspace, candidate_id: str, n_pairs: int) -> dict[Role, int]:
    """Return the calls that so many pairs of a candidate's promotion test ask of each role. Raises NotFound."""
    candidate = workspace.store.candidates.get_candidate(known(candidate_id))
    votes = max(map(_votes, held_out(target_tasks(workspace, candidate.skill_id))), default=0)
    return {"target": 2 * n_pairs, "judge": 2 * n_pairs * votes}


def _votes(task: Task) -> int:
    """Return how often a judge model is asked about one attempt at a task."""
    return sum(leaf.votes for leaf in leaves(task.judge) if isinstance(leaf, Rubric))


def _evaluations(n_steps: int, n_slow: int, config: Config) -> int:
    """Return how often a run rolls out a version on all val tasks at most, after its base: its gate asks for more."""
    gate = config.gate if config.use_gate else "strict"
    # Of a candidate: by itself; with the current one beside it; and twice more, where nearly all tasks fell.
    per_look = {"strict": 1, "fresh": 1, "paired_se": 2, "no_regression": 3}[gate]
    # What was accepted is rolled out anew.
    n_evaluated = (n_steps + n_slow) * (per_look + (gate in ("fresh", "paired_se")))
    if config.rescue and config.use_gate:
        # Both arms of every part that bisection tries, and a second look, at the parts that it keeps.
        n_evaluated += n_steps * (2 * max(0, 2 * config.max_edits - 2) + per_look)
    return n_evaluated


def _reasoning(n_trajectories: int, config: Config) -> int:
    """Return the optimizer's calls of one step: an analyst per minibatch, merges by level, budget, ranking, rewrite."""
    contrasted = config.repeats > 1
    per_analyst = min(config.minibatch, 2 * max(1, config.minibatch // 2)) if contrasted else config.minibatch
    n_analysts = -(-n_trajectories // per_analyst) + 1 + contrasted
    # Patches from failures and from successes are merged apart, level by level, and then together.
    n_merges, n_patches = 1, n_analysts
    while n_patches > 1:
        n_patches = -(-n_patches // config.fan_in)
        n_merges += n_patches + 1
    n_merges = min(n_merges, n_analysts - 1)
    autonomous, rewrite = config.schedule == "autonomous", config.update_mode == "rewrite_from_suggestions"
    return n_analysts + n_merges + 1 + autonomous + rewrite
