"""Epochs: what ends one: the slow update of the skill's guidance, and the notes that the optimizer leaves itself."""

from __future__ import annotations

from skillopt_mcp.optimizer.plan import Work
from skillopt_mcp.optimizer.silence import heard
from skillopt_mcp.optimizer.turns import Turn
from skillopt_mcp.records.edits import Applied, Patch
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.stages.longitudinal import Comparison, compare_versions, meta_skill, slow_update


def slow_work(turn: Turn) -> Work:
    """Return the work of a slow update: new guidance, made of the same tasks before and after the epoch."""
    turn.tell("slow")
    compared = _compared(turn, turn.state.current)
    heard(turn.store, turn.plan.run_id, compared.trials, "the train tasks")
    made = slow_update(turn.ask, compared, turn.brief(), turn.plan.config.trajectory_chars)
    return Work(compared.trials, 1, len(made.patch.edits), made.patch, made.applied, made.unusable)


def meta_work(turn: Turn) -> Work:
    """Return the work of a meta note: text for the optimizer alone. The rollouts of the slow update serve it again."""
    turn.tell("meta")
    plan, store, compared = turn.plan, turn.store, None
    for record in store.runs.list_steps(plan.run_id, turn.step.epoch):
        if record.kind == "slow":
            compared = _compared(turn, store.skills.get_files(plan.skill_id, record.parent_version))
    note, unusable = meta_skill(turn.ask, turn.state.current, compared, turn.brief(), plan.config.trajectory_chars)
    return Work((), 0, 0, Patch(()), Applied(turn.state.current, ()), unusable, note=note)


def _compared(turn: Turn, current: SkillFiles) -> Comparison:
    """Return `current` beside the version that the epoch before this one ended with."""
    plan, epoch = turn.plan, turn.step.epoch
    before = turn.store.runs.list_steps(plan.run_id, epoch - 1)[-1]
    previous = turn.store.skills.get_files(plan.skill_id, before.current_version)
    return compare_versions(
        turn.ask, (previous, current), plan.train, plan.config.slow_pairs,
        n=plan.config.slow_samples, draw=f"{plan.run_id}/e{epoch}slow",
    )  # fmt: skip
