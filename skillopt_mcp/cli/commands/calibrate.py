"""Calibrate: what a promotion test of a skill can find on its tasks, and what a gain would take."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.agreeing import simulation, unwilling
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.operations.runs.estimating import estimate_calibration
from skillopt_mcp.operations.runs.simulating import advised
from skillopt_mcp.operations.testing.calibrating import Calibrated, calibrate
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Capped):
    """Which skill, with which target, how many pairs, and for which gain and test."""

    skill: str = ""
    target: str | None = None
    judge: str | None = None
    pairs: int = 40
    gain: float | None = None
    max_pairs: int = 200


def run(options: Options) -> int:
    """Return 0 when it was measured or for a dry run, 1 when the person did not want to spend."""
    rule = ConfirmRule(max_pairs=options.max_pairs)
    with Workspace(options.store_path, target=options.target, judge=options.judge, caps=options.caps) as workspace:
        skill = workspace.recorded(options.skill)
        label = simulation(workspace)
        calls = estimate_calibration(workspace, skill, options.pairs)
        if (code := unwilling(workspace, calls, options)) is not None:
            return code
        with Watch("SIMULATION" if label else "", silent=options.json) as watch:
            workspace.on_reply = watch.on_reply
            result = calibrate(workspace, options.skill, options.pairs, options.gain, rule, watch.notify)
        result = advised(workspace, skill.id, result)
    if options.json:
        terminal.emit(result, options)
    else:
        _say(result, label, options)
    return 0


def _say(result: Calibrated, label: str, options: Options) -> None:
    usd = "" if result.usd_per_rollout is None else f", ${result.usd_per_rollout:.4f}"
    terminal.say(
        f"{result.skill}@{result.version} against itself, {counted(result.n_pairs, 'pair')} on "
        f"{counted(result.n_tasks, 'held-out task')}: "
        f"{result.flip_rate:.1%} come out differently, {result.failure_rate:.1%} fail, {result.missing_rate:.1%} are "
        f"missing; {result.tokens_per_rollout:,.0f} tokens{usd} a rollout."
    )
    least = "none" if result.smallest_gain is None else f"{result.smallest_gain:.2f}"
    terminal.say(
        f"Smallest gain that four of five tests accept within {result.max_pairs} pairs (alpha {result.alpha:.3g}): "
        f"{least}."
    )
    if result.gains:
        terminal.say_table(
            ("gain", "accepted", "pairs"),
            [(f"{row.gain:.2f}", f"{row.power:.0%}", str(row.pairs or "over 2,000")) for row in result.gains],
        )
    terminal.say(f"{result.reason[0].upper()}{result.reason[1:]}.")
    if label:
        terminal.say(f"{label}: this says nothing about a real model.")
    terminal.say(f"Used in all: {result.used}.")
    terminal.say(f"Next: {terminal.advice(result.next_step, options)}")
