"""Race: candidates of one skill on shared val tasks, the hopeless dropped early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.gates.racing import RaceRule
from skillopt_mcp.operations.evaluating import is_simulated
from skillopt_mcp.operations.racing import race_candidates
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Capped):
    """Which candidates, with which target, over how many tasks."""

    candidates: Sequence[str] = ()
    target: str | None = None
    judge: str | None = None
    laps: int = 60
    no_skill: bool = False
    yes: bool = False


def run(options: Options) -> int:
    """Return 0 when the race is over, 1 when the person did not want to spend."""
    rule = RaceRule(max_laps=options.laps)
    with Workspace(options.store_path, target=options.target, judge=options.judge, caps=options.caps) as workspace:
        simulated = is_simulated(workspace.backend("target").fingerprint)
        n_arms = len(options.candidates) + options.no_skill + 1
        question = f"Spend up to {n_arms * rule.max_laps:,} target calls?"
        if not simulated and not terminal.agreed(question, yes=options.yes, ask=not options.json):
            terminal.note("Nothing was spent.")
            return 1
        with Watch("SIMULATION" if simulated else "", silent=options.json) as watch:
            result = race_candidates(
                workspace, options.candidates, rule, no_skill=options.no_skill, notify=watch.notify
            )
    if options.json:
        terminal.emit(result)
        return 0
    terminal.say_table(
        ("arm", "gain", "tasks", ""), [(row.arm, f"{row.gain:+.3f}", str(row.n), row.dropped) for row in result.rows]
    )
    terminal.say(f"{result.laps} laps. Next: {terminal.spoken(result.next_step)}")
    return 0
