"""Plans: all that a run depends on, and the steps that follow from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Trajectory
from skillopt_mcp.core.redacting import NOTHING_KNOWN, KnownSecrets
from skillopt_mcp.core.runs import DiscardedEdit, StepKind
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.prompts.loading import Prompts
from skillopt_mcp.tasks.splits import cut_batches, order_epoch, stratified
from skillopt_mcp.training.config import Config, Schedule
from skillopt_mcp.training.stages.rollout import Evaluation


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that a run depends on, frozen when it began; `note` is what earlier runs left for the optimizer,
    and `discarded` the edits of earlier candidates that it is shown. `other` is the memory file that is trained, too.

    The secrets `known` are for the guard.
    """

    run_id: str
    skill_id: int
    base: SkillFiles
    config: Config
    prompts: Prompts
    train: tuple[Task, ...]
    val: tuple[Task, ...]
    sessions: tuple[Trajectory, ...] = ()
    note: str = ""
    known: KnownSecrets = NOTHING_KNOWN
    discarded: tuple[DiscardedEdit, ...] = ()
    other_id: int = 0
    other: SkillFiles | None = None

    def turned(self) -> RunPlan:
        """The same plan for the other document."""
        assert self.other is not None
        return replace(self, skill_id=self.other_id, base=self.other, other_id=self.skill_id, other=self.base)

    @property
    def n_steps(self) -> int:
        """Return the number of training steps of a document in the whole run, over which the edit budget falls."""
        return self.config.epochs * -(-len(self.train) // (self.config.batch * self.config.accumulation))

    @property
    def n_rows(self) -> int:
        """How many steps are stored of the whole run, those that end an epoch among them."""
        return self.n_steps * (2 if self.other else 1) + (self.config.epochs - 1) * len(epoch_ends(self.config))


def search_splits(tasks: Sequence[Task], config: Config) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Return the tasks that a search learns from, and those that its gate chooses by: neither is held out.

    Without val tasks these are half of the train tasks, in any order the same ones, with each kind in its share.
    """
    train, val = (tuple(task for task in tasks if task.split == split) for split in ("train", "val"))
    if val:
        return train, val
    in_order = sorted(train, key=lambda task: task.digest)
    kinds = [task.tags[0] if task.tags else "" for task in in_order]
    n = min(len(train) // 2, config.limit_val or len(train))
    chosen = {in_order[at].id for at in stratified(kinds, n, f"val {config.seed}")}
    return tuple(task for task in train if task.id not in chosen), tuple(task for task in train if task.id in chosen)


def check_splits(plan: RunPlan) -> None:
    """Raise BadInput when a plan has nothing to train on, or nothing to choose by."""
    if not (plan.train and plan.val):
        n = f"{len(plan.train)} train and {len(plan.val)} val"
        raise BadInput(f"a run needs 2 train tasks, or a train and a val task, got {n}: add tasks with add_tasks")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the plan: its 1-based number and epoch, its batches, its edit budget, and the draw of its chances.

    One of kind memory trains the memory file on the batches of the step before. A step of kind slow or meta ends an
    epoch and has no batch. `draws` are of attempts that exist, by task id.
    """

    n: int
    epoch: int
    batches: tuple[tuple[Task, ...], ...]
    budget: int
    draw: str
    kind: StepKind = "step"
    draws: Mapping[int, str] = field(default_factory=dict)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return the tasks of all batches, in order."""
        return tuple(task for batch in self.batches for task in batch)


@dataclass(frozen=True, slots=True)
class State:
    """Where the search stands after `n` steps: the current version moves on, the best one is kept apart.

    Both are versions of one document; evaluations are with the `other` one, as it stands and as it is in the best pair.
    """

    n: int
    current: SkillFiles
    evaluation: Evaluation
    best: SkillFiles
    best_evaluation: Evaluation
    other: SkillFiles | None = None
    best_other: SkillFiles | None = None

    def turned(self) -> State:
        """The same state for the other document."""
        assert self.other is not None
        assert self.best_other is not None
        return State(
            self.n, self.other, self.evaluation, self.best_other, self.best_evaluation, self.current, self.best
        )

    @property
    def best_score(self) -> float:
        """Return the score of the best version."""
        return self.best_evaluation.score


def epoch_ends(config: Config) -> tuple[StepKind, ...]:
    """What ends every epoch but the first."""
    ends: tuple[tuple[StepKind, bool], ...] = (("slow", config.slow_update), ("meta", config.meta_skill))
    return tuple(kind for kind, is_set in ends if is_set)


def steps(plan: RunPlan, *, after: int) -> Iterator[Step]:
    """Yield the steps that are still to do after the first `after`.

    Every epoch takes all train tasks, in an order of its own; from the second on, slow update and meta note end it.
    """
    config, n, ordinal = plan.config, 0, 0
    schedule: Schedule = "constant" if config.schedule == "autonomous" else config.schedule
    documents: tuple[StepKind, ...] = ("step", "memory") if plan.other else ("step",)
    for epoch in range(1, config.epochs + 1):
        for positions in epoch_batches(len(plan.train), config, epoch):
            ordinal += 1
            taken = tuple(tuple(plan.train[i] for i in batch) for batch in positions)
            budget = edit_budget(ordinal, plan.n_steps, schedule, config.max_edits, config.min_edits)
            for kind in documents:
                n += 1
                if n > after:
                    yield Step(n, epoch, taken, budget, f"{plan.run_id}/e{epoch}s{ordinal}", kind)
        for kind in epoch_ends(config) if epoch > 1 else ():
            n += 1
            if n > after:
                yield Step(n, epoch, (), 1, f"{plan.run_id}/e{epoch}{kind}", kind)


def epoch_batches(n_tasks: int, config: Config, epoch: int) -> list[list[list[int]]]:
    """Return the batches of each step of an epoch, as positions of tasks.

    Where the epoch's order runs out within a step, it begins again.
    """
    order = order_epoch(n_tasks, config.seed, epoch)
    cut = cut_batches(order, config.batch)
    missing = -len(cut) % config.accumulation
    refills = [order[start % n_tasks :][: config.batch] for start in range(0, missing * config.batch, config.batch)]
    chosen = [*cut, *refills]
    return [chosen[start : start + config.accumulation] for start in range(0, len(chosen), config.accumulation)]


def edit_budget(step: int, n_steps: int, kind: Schedule, maximum: int, minimum: int) -> int:
    """Return the most edits that step `step` (1-based) of `n_steps` may make, as SkillOpt schedules them.

    Halves round to even, as in the reference; later steps than `n_steps` keep the last budget.
    """
    if kind == "constant" or n_steps <= 1:
        return maximum
    t = min(step, n_steps) / n_steps
    if kind == "linear":
        budget = maximum + (minimum - maximum) * t
    else:
        budget = minimum + 0.5 * (maximum - minimum) * (1 + math.cos(math.pi * t))
    return max(minimum, round(budget))
