"""Turns: one step of a run at work, with all that its stages may look at."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.optimizer.memory import brief_of
from skillopt_mcp.optimizer.plan import Plan, State, Step
from skillopt_mcp.optimizer.progress import Notify, Progress
from skillopt_mcp.prompts.forms import Brief
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.stages.rollout import Attempt
from skillopt_mcp.store.opening import Store


@dataclass(frozen=True, slots=True)
class Turn:
    """A step, the state that it starts from, and the ways to the store, to the models, and to whoever watches."""

    plan: Plan
    store: Store
    ask: Ask
    notify: Notify
    state: State
    step: Step

    @property
    def standing(self) -> Progress:
        """Return where the run stands before the step."""
        n_done, n_total = self.step.n - 1, self.plan.n_rows
        return Progress("step", self.step.epoch, n_done, n_total, self.state.evaluation.score, self.state.best_score)

    def tell(self, stage: str) -> None:
        """Say that a stage begins."""
        self.notify(self.standing.at(stage))

    def brief(self) -> Brief:
        """Return what the questions of the step have in common, what is remembered among it."""
        return brief_of(self.plan, self.store, self.step)

    def attempts(self) -> list[Attempt]:
        """Return the rollouts of the step: a further batch, or a further attempt at a task, has a draw of its own."""
        return [
            Attempt(self.state.current, task, self.step.draw + (f"/b{b}" if b else "") + (f"/r{r}" if r else ""))
            for b, batch in enumerate(self.step.batches)
            for task in batch
            for r in range(self.plan.config.repeats)
        ]
