"""Credit: what each edit of a candidate is worth, and which part of a rejected bundle can be rescued."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.gates.credit import CreditRule
from skillopt_mcp.operations.comparing import search_tasks
from skillopt_mcp.operations.crediting import credit_candidate, rescue_candidate
from skillopt_mcp.operations.evaluating import is_simulated
from skillopt_mcp.operations.simulating import advised
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Capped):
    """Which candidate, with which target, how many pairs per edit, and whether to rescue instead."""

    candidate: str = ""
    target: str | None = None
    judge: str | None = None
    pairs: int = 60
    rescue: bool = False
    yes: bool = False


def run(options: Options) -> int:
    """Return 0 when the edits were told apart, 1 when the person did not want to spend."""
    rule = CreditRule(max_pairs=options.pairs)
    with Workspace(options.store_path, target=options.target, judge=options.judge, caps=options.caps) as workspace:
        n_edits = len(workspace.store.candidates.list_edits(options.candidate))
        simulated = is_simulated(workspace.backend("target").fingerprint)
        question = f"Spend up to {(n_edits + 1) * rule.max_pairs:,} target calls?"
        if options.rescue:
            n_parts, n_val = max(0, 2 * n_edits - 2), _n_val(workspace, options.candidate)
            question = (
                f"Spend up to {2 * n_parts * n_val:,} target calls ({n_parts} parts, both arms on {n_val} tasks)?"
            )
        if not simulated and not terminal.agreed(question, yes=options.yes, ask=not options.json):
            terminal.note("Nothing was spent.")
            return 1
        with Watch("SIMULATION" if simulated else "", silent=options.json) as watch:
            result = (
                rescue_candidate(workspace, options.candidate)
                if options.rescue
                else credit_candidate(workspace, options.candidate, rule, watch.notify)
            )
        result = advised(workspace, workspace.store.candidates.get_candidate(options.candidate).skill_id, result)
    if options.json:
        terminal.emit(result)
        return 0
    terminal.say_table(
        ("edit", "adds", "pairs", "verdict", "what it is"),
        [(str(row.index), f"{row.gain:+.3f}", str(row.n_pairs), row.verdict, row.edit) for row in result.rows],
    )
    if result.rule:
        terminal.say(result.rule)
    terminal.say(f"Used in all: {result.used}.")
    terminal.say(f"Next: {terminal.advice(result.next_step, options)}")
    return 0


def _n_val(workspace: Workspace, candidate_id: str) -> int:
    """Return how many val tasks a rescue tries each part on. Raises NotFound, BadInput."""
    return len(search_tasks(workspace, workspace.store.candidates.get_candidate(candidate_id).skill_id))
