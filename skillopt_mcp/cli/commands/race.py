"""Race: candidates of one skill, and controls, on shared val tasks, the hopeless dropped early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.agreeing import unwilling
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.gates.racing import RaceRule
from skillopt_mcp.operations.runs.estimating import estimate_race
from skillopt_mcp.operations.runs.simulating import advised
from skillopt_mcp.operations.testing.controls import Control
from skillopt_mcp.operations.testing.evaluating import is_simulated
from skillopt_mcp.operations.testing.racing import entered, race_candidates
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Capped):
    """Which candidates (or one skill) and controls, with which target and optimizer, over how many tasks."""

    candidates: Sequence[str] = ()
    target: str | None = None
    optimizer: str | None = None
    judge: str | None = None
    laps: int = 60
    control: Sequence[Control] = ()


def run(options: Options) -> int:
    """Return 0 when the race is over or for a dry run, 1 when the person did not want to spend."""
    rule = RaceRule(max_laps=options.laps)
    with Workspace(
        options.store_path, target=options.target, optimizer=options.optimizer, judge=options.judge, caps=options.caps
    ) as workspace:
        simulated = is_simulated(workspace.backend("target").fingerprint)
        # By its id, for another skill may have its name.
        skill_id = entered(workspace, options.candidates, options.control).skill.id
        calls = estimate_race(workspace, options.candidates, rule, options.control)
        if (code := unwilling(workspace, calls, options)) is not None:
            return code
        with Watch("SIMULATION" if simulated else "", silent=options.json) as watch:
            workspace.on_reply = watch.on_reply
            result = race_candidates(workspace, options.candidates, rule, controls=options.control, notify=watch.notify)
        result = advised(workspace, skill_id, result)
    step = terminal.advice(result.next_step, options, options.target, options.judge)
    if options.json:
        terminal.emit(result.model_copy(update={"next_step": step}))
        return 0
    terminal.say_table(
        ("arm", "gain", "draws", ""), [(row.arm, f"{row.gain:+.3f}", str(row.n), row.dropped) for row in result.rows]
    )
    if result.rewrite_id:
        terminal.say(f"The one-shot rewrite is kept as {result.rewrite_id}.")
    terminal.say(f"Used in all: {result.used}.")
    terminal.say(f"{counted(result.laps, 'lap')}, each a val task drawn anew. Next: {step}")
    return 0
