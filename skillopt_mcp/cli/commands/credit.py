"""Credit: what each edit of a candidate is worth, and which part of a rejected bundle can be rescued."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.agreeing import unwilling
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.gates.credit import CreditRule
from skillopt_mcp.operations.runs.estimating import estimate_credit, estimate_rescue
from skillopt_mcp.operations.runs.simulating import advised
from skillopt_mcp.operations.testing.crediting import credit_candidate, rescue_candidate
from skillopt_mcp.operations.testing.evaluating import is_simulated
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Capped):
    """Which candidate, with which target, how many pairs per edit, and whether to rescue instead."""

    candidate: str = ""
    target: str | None = None
    judge: str | None = None
    pairs: int = 60
    rescue: bool = False


def run(options: Options) -> int:
    """Return 0 when the edits were told apart or for a dry run, 1 when the person did not want to spend."""
    rule = CreditRule(max_pairs=options.pairs)
    with Workspace(options.store_path, target=options.target, judge=options.judge, caps=options.caps) as workspace:
        simulated = is_simulated(workspace.backend("target").fingerprint)
        if (code := _unwilling(workspace, options, rule)) is not None:
            return code
        with Watch("SIMULATION" if simulated else "", silent=options.json) as watch:
            workspace.on_reply = watch.on_reply
            result = (
                rescue_candidate(workspace, options.candidate)
                if options.rescue
                else credit_candidate(workspace, options.candidate, rule, watch.notify)
            )
        result = advised(workspace, workspace.store.candidates.get_candidate(options.candidate).skill_id, result)
    step = terminal.advice(result.next_step, options, options.target, options.judge)
    if options.json:
        terminal.emit(result.model_copy(update={"next_step": step}))
        return 0
    terminal.say_table(
        ("edit", "adds", "pairs", "verdict", "what it is"),
        [(str(row.index), f"{row.gain:+.3f}", str(row.n_pairs), row.verdict, row.edit) for row in result.rows],
    )
    if result.rule:
        terminal.say(result.rule)
    terminal.say(f"Used in all: {result.used}.")
    terminal.say(f"Next: {step}")
    return 0


def _unwilling(workspace: Workspace, options: Options, rule: CreditRule) -> int | None:
    if not options.rescue:
        return unwilling(workspace, estimate_credit(workspace, options.candidate, rule), options)
    found = estimate_rescue(workspace, options.candidate)
    detail = f" ({counted(found.n_parts, 'part')}, both arms on {counted(found.n_tasks, 'task')})"
    return unwilling(workspace, found.calls, options, detail=detail)
