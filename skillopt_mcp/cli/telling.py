"""Telling: what a run will take at most, how it came out, and what another gate would have made of it."""

from __future__ import annotations

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.consolidating import told_next
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.results import Replayed
from skillopt_mcp.operations.runs import policies
from skillopt_mcp.operations.runs.concluding import TOPPED
from skillopt_mcp.operations.runs.estimating import Estimate
from skillopt_mcp.operations.spending.accounting import told_aside
from skillopt_mcp.operations.spending.charging import account, told_price
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.plan import epoch_ends


def told_estimate(estimate: Estimate, config: Config) -> str:
    """Return in words what a run will ask at most."""
    judge = f", and {counted(estimate.judge_calls, 'call')} of the judge" if estimate.judge_calls else ""
    n_ends = (config.epochs - 1) * len(epoch_ends(config))
    return (
        f"Steps: {estimate.n_steps} (epochs {config.epochs}, train tasks {estimate.n_train}, "
        f"{min(config.batch, estimate.n_train)} a step){f', and {n_ends} at the ends of epochs' if n_ends else ''}. "
        f"At most {counted(estimate.target_calls, 'target call')} ({estimate.train_rollouts:,} in training, "
        f"{estimate.val_rollouts:,} on val tasks, {2 * estimate.promotion_pairs:,} in the promotion test) "
        f"and about {counted(estimate.optimizer_calls, 'optimizer call')}{judge}."
    )


def say_policy(result: policies.Replayed, policy: str, options: Capped) -> None:
    """Print what another gate would have made of the steps of a run."""
    rows = [
        (str(row.step), f"{row.current:.3f}", f"{row.candidate:.3f}", f"{row.gate}: {row.verdict}", row.other)
        for row in result.rows
    ]
    if rows:
        terminal.say_table(("step", "current", "candidate", "then", policy), rows)
    advice = terminal.advice(result.next_step, options)
    terminal.say(f"{result.n_differing} of {len(rows)} verdicts of run {result.run_id} differ. {advice}")


def say_outcome(workspace: Workspace, result: Replayed, label: str, options: Capped) -> None:
    """Print how a run came out, what it used, and what to do next."""
    told = account(workspace.store, result.run_id).told
    spent = told_price(told.usd_known, told.n_unpriced, result.n_calls, told.usd_at_most)
    terminal.say(
        f"Run {result.run_id} finished: {_steps(result)}, {counted(result.n_calls, 'call')}{told_aside(told)}, "
        f"{counted(result.tokens_in + result.tokens_out, 'token')}, {spent}."
    )
    ended = workspace.store.runs.get_run(result.run_id).conclusion
    if ended and ended.why == TOPPED:
        terminal.say(f"No step more: {TOPPED}. Harder val tasks, or --gate paired_se, leave room for one.")
    for change in result.changes:
        terminal.say(f"Changed in mid-run: {change}.")
    for damaged in result.left_out:
        terminal.say(f"Left out: {damaged}.")
    say_verdict(result, label)
    terminal.say(f"Next: {told_next(result, label, options)}")


def _steps(result: Replayed) -> str:
    planned = "" if result.n_planned is None else f" of {result.n_planned}, as its search was ended"
    return f"{counted(len(result.steps), 'step')}{planned}"


def say_verdict(result: Replayed, label: str) -> None:
    """Print the promotion gate's verdict, or that there was nothing to test."""
    if result.verdict is None:
        terminal.say(f"No verdict: {result.reason}.")
        return
    terminal.say(
        f"Verdict: {result.verdict.upper()}. Live {result.test_before or 0:.2f}, candidate "
        f"{result.test_after or 0:.2f} on {counted(result.n_pairs, 'pair')} of held-out runs; {result.reason}."
    )
    if label:
        terminal.say(f"{label}: this says nothing about a real model.")
