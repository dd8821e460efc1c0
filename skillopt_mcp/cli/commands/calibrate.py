"""Calibrate: what a promotion test of a skill can find on its tasks, and what a gain would take."""

from __future__ import annotations

from typing import Annotated

from skillopt_mcp.cli.command import SKILL, TARGET, Arg, Flag, command
from skillopt_mcp.cli.spending import Planned, Spending, agree, require_backends, simulation
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.demo import advised
from skillopt_mcp.documents.text import counted
from skillopt_mcp.estimates import estimate_calibration
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.promotion_tests import Calibrated, calibrate


@command("calibrate", example=f"calibrate my-skill --target {TARGET}", needs_store=True)
class Calibrate(Spending):
    """Measure what a promotion test of a skill can find, before paying for one."""

    skill: Annotated[str, Arg(SKILL)]
    pairs: Annotated[int, Flag("pairs of rollouts")] = 40
    gain: Annotated[float | None, Flag("what this gain would take (default: 0.08, 0.16 and 0.3)")] = None
    max_pairs: Annotated[int, Flag("for a test that pauses after so many")] = 200

    def run(self, terminal: Terminal) -> Calibrated | Planned:
        """Return what was measured."""
        rule = ConfirmRule(max_pairs=self.max_pairs)
        with terminal.workspace(target=self.target, judge=self.judge, caps=self.caps) as workspace:
            skill = workspace.recorded(self.skill)
            require_backends(target=self.target)
            self._label = simulation(workspace)
            if planned := agree(terminal, workspace, estimate_calibration(workspace, skill, self.pairs), self):
                return planned
            with Watch(terminal, "SIMULATION" if self._label else "") as watch:
                workspace.on_reply = watch.on_reply
                result = calibrate(workspace, self.skill, self.pairs, self.gain, rule, watch.notify)
            return advised(workspace, skill.id, result)

    def show(self, result: Calibrated | Planned, terminal: Terminal) -> None:
        if isinstance(result, Planned):
            return result.show(terminal)
        usd = "" if result.usd_per_rollout is None else f", ${result.usd_per_rollout:.4f}"
        terminal.say(
            f"{result.skill}@{result.version} against itself, {counted(result.n_pairs, 'pair')} on "
            f"{counted(result.n_tasks, 'held-out task')}: {result.flip_rate:.1%} differ, {result.failure_rate:.1%} "
            f"fail, {result.missing_rate:.1%} are missing; {result.tokens_per_rollout:,.0f} tokens{usd} a rollout."
        )
        least = "none" if result.smallest_gain is None else f"{result.smallest_gain:.2f}"
        terminal.say(
            f"Smallest gain that four of five tests accept within {result.max_pairs} pairs (alpha {result.alpha:.3g}): "
            f"{least}."
        )
        if result.gains:
            rows = [(f"{row.gain:.2f}", f"{row.power:.0%}", str(row.pairs or "over 2,000")) for row in result.gains]
            terminal.table(("gain", "accepted", "pairs"), rows)
        terminal.say(f"{result.reason[0].upper()}{result.reason[1:]}.")
        if self._label:
            terminal.say(f"{self._label}: this says nothing about a real model.")
        terminal.say(f"Used in all: {result.used}.")
        return None
