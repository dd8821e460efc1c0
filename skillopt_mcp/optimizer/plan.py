"""Plan: what a run will do, frozen when it began, and where its search stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.strict import Comparison
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.prompts.loading import Prompts
from skillopt_mcp.records.edits import Applied, Patch
from skillopt_mcp.records.evidence import Trajectory, Trial
from skillopt_mcp.records.runs import StepVerdict
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.schedule import edit_budget
from skillopt_mcp.splits import batches, epoch_order
from skillopt_mcp.stages.evaluate import Evaluation


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run depends on, frozen when it began."""

    run_id: str
    skill_id: int
    base: SkillFiles
    config: Config
    prompts: Prompts
    train: tuple[Task, ...]
    val: tuple[Task, ...]
    sessions: tuple[Trajectory, ...] = ()

    def __post_init__(self) -> None:
        for split, tasks in (("train", self.train), ("val", self.val)):
            if not tasks:
                raise BadInput(
                    f"the skill has no {split} task: add tasks with add_tasks or 'skillopt-mcp tasks import'"
                )

    @property
    def n_steps(self) -> int:
        """Return the number of steps of the whole run."""
        return self.config.epochs * -(-len(self.train) // self.config.batch)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the plan: its 1-based number and epoch, its batch, its edit budget, and the draw of its chances."""

    n: int
    epoch: int
    tasks: tuple[Task, ...]
    budget: int
    draw: str


@dataclass(frozen=True, slots=True)
class State:
    """Where the search stands after `n` steps: the current version moves on, the best one is kept apart."""

    n: int
    current: SkillFiles
    evaluation: Evaluation
    best: SkillFiles
    best_evaluation: Evaluation

    @property
    def best_score(self) -> float:
        """Return the score of the best version."""
        return self.best_evaluation.score


@dataclass(frozen=True, slots=True)
class Gated:
    """What became of a step's candidate: the verdict, the guard's findings, and what the search gate saw, if asked."""

    verdict: StepVerdict
    findings: tuple[str, ...] = ()
    evaluation: Evaluation | None = None
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What the stages of one step made, and why some of it was made without the model."""

    trials: tuple[Trial, ...]
    n_proposed: int
    selected: Patch
    applied: Applied
    gated: Gated
    unusable: tuple[str, ...]


def steps(plan: Plan, *, after: int) -> Iterator[Step]:
    """Yield the steps that are still to do: every epoch takes all train tasks, in an order of its own."""
    config, n = plan.config, 0
    for epoch in range(1, config.epochs + 1):
        for batch in batches(epoch_order(len(plan.train), config.seed, epoch), config.batch):
            n += 1
            if n > after:
                budget = edit_budget(n, plan.n_steps, config.schedule, config.max_edits, config.min_edits)
                tasks = tuple(plan.train[i] for i in batch)
                yield Step(n, epoch, tasks, budget, f"{plan.run_id}/e{epoch}s{n}")
