"""Memory: what the optimizer is told of earlier steps, epochs and runs, asked of the store each time."""

from __future__ import annotations

from skillopt_mcp.optimizer.plan import Plan, Step
from skillopt_mcp.prompts.forms import Brief
from skillopt_mcp.prompts.history import render_history, render_step, render_tried
from skillopt_mcp.store.opening import Store

MOST_REJECTED = 20


def brief_of(plan: Plan, store: Store, step: Step) -> Brief:
    """Return a step's brief, with the epoch's steps so far, the edits rejected in any epoch, and the notes in force."""
    config, history = plan.config, ""
    if step.kind == "meta":
        history = _whole_epoch(plan, store, step.epoch)
    elif config.step_buffer:
        done = store.runs.list_steps(plan.run_id, step.epoch)
        history = render_history(done, store.runs.list_rejected(plan.run_id, MOST_REJECTED), plan.discarded)
    notes = ""
    if config.meta_skill:
        notes = store.runs.latest_note(plan.run_id, step.epoch) or plan.note
    return Brief(plan.prompts, step.budget, step.draw, config.update_mode, notes, history)


def _whole_epoch(plan: Plan, store: Store, epoch: int) -> str:
    """Return all steps of an epoch with every edit that they tried."""
    tried = store.runs.list_tried(plan.run_id, epoch)
    lines = []
    for record in store.runs.list_steps(plan.run_id, epoch):
        lines.append(render_step(record))
        lines += [f"  - tried: {render_tried(each)}" for each in tried if each.n == record.n]
    return "\n".join(lines)
