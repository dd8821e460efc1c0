"""Race: candidates of one skill, and controls, on shared val tasks, the hopeless dropped early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.gates.racing import RaceRule
from skillopt_mcp.operations.controls import MOST_ATTEMPTS, Control
from skillopt_mcp.operations.evaluating import is_simulated
from skillopt_mcp.operations.racing import is_candidate, race_candidates
from skillopt_mcp.operations.simulating import advised
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import Role


@dataclass(frozen=True, slots=True)
class Options(Capped):
    """Which candidates (or one skill) and controls, with which target and optimizer, over how many tasks."""

    candidates: Sequence[str] = ()
    target: str | None = None
    optimizer: str | None = None
    judge: str | None = None
    laps: int = 60
    control: Sequence[Control] = ()
    yes: bool = False


def run(options: Options) -> int:
    """Return 0 when the race is over, 1 when the person did not want to spend."""
    rule = RaceRule(max_laps=options.laps)
    with Workspace(
        options.store_path, target=options.target, optimizer=options.optimizer, judge=options.judge, caps=options.caps
    ) as workspace:
        simulated, question = _estimate(workspace, options, rule)
        if not simulated and not terminal.agreed(question, yes=options.yes, ask=not options.json):
            terminal.note("Nothing was spent.")
            return 1
        with Watch("SIMULATION" if simulated else "", silent=options.json) as watch:
            result = race_candidates(workspace, options.candidates, rule, controls=options.control, notify=watch.notify)
        result = advised(workspace, workspace.skill(result.skill).id, result)
    if options.json:
        terminal.emit(result)
        return 0
    terminal.say_table(
        ("arm", "gain", "tasks", ""), [(row.arm, f"{row.gain:+.3f}", str(row.n), row.dropped) for row in result.rows]
    )
    if result.rewrite_id:
        terminal.say(f"The one-shot rewrite is kept as {result.rewrite_id}.")
    terminal.say(f"Used in all: {result.used}.")
    terminal.say(f"{result.laps} laps. Next: {terminal.advice(result.next_step, options)}")
    return 0


def _estimate(workspace: Workspace, options: Options, rule: RaceRule) -> tuple[bool, str]:
    """Return whether all of it is a simulation, and what is asked before anything is spent."""
    rewrites = "rewrite" in options.control
    roles: tuple[Role, ...] = ("target", "optimizer") if rewrites else ("target",)
    n_candidates = sum(is_candidate(name) for name in options.candidates)
    n_calls = (n_candidates + len(set(options.control)) + 1) * rule.max_laps
    # Train rollouts that are stored are not paid again; those of another target are.
    n_calls += MOST_ATTEMPTS * rewrites
    asked = f"Spend up to {n_calls:,} target calls{' and 3 optimizer calls' if rewrites else ''}?"
    return all(is_simulated(workspace.backend(role).fingerprint) for role in roles), asked
