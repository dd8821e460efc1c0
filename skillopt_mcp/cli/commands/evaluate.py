"""Evaluate: test a candidate against the live version on held-out tasks, pair by pair."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.errors import Stopped
from skillopt_mcp.gates.confirm import ConfirmRule, no_worse
from skillopt_mcp.operations.consolidating import accompanied
from skillopt_mcp.operations.evaluating import evaluate_candidate, is_simulated
from skillopt_mcp.operations.results import Evaluated
from skillopt_mcp.operations.workspace import Workspace

EXPECTED, INTERRUPTED = 1, 130


@dataclass(frozen=True, slots=True)
class Options(Capped):
    """Which candidate, with which target, and how many pairs at most."""

    candidate: str = ""
    target: str | None = None
    judge: str | None = None
    max_pairs: int = 200
    beside: str | None = None
    no_worse: float | None = None
    yes: bool = False


def run(options: Options) -> int:
    """Return 0 with a verdict, 1 when the person did not want to spend, 130 when it was interrupted."""
    rule = ConfirmRule(max_pairs=options.max_pairs)
    if options.no_worse is not None:
        rule = no_worse(options.no_worse, max_pairs=options.max_pairs)
    with ExitStack() as stack:
        workspace = stack.enter_context(
            Workspace(options.store_path, target=options.target, judge=options.judge, caps=options.caps)
        )
        if options.beside:
            beside = workspace.skill(options.beside)
            workspace = stack.enter_context(accompanied(workspace, beside, beside.live_version))
        return _evaluate(workspace, options, rule)


def _evaluate(workspace: Workspace, options: Options, rule: ConfirmRule) -> int:
    workspace.store.candidates.get_candidate(options.candidate)
    target = workspace.backend("target")
    label = f"SIMULATION ({target.name})" if is_simulated(target.fingerprint) else ""
    free = label and (options.judge is None or is_simulated(workspace.backend("judge").fingerprint))
    judged = f", and calls of the judge {options.judge}" if options.judge else ""
    question = f"Spend up to {2 * rule.max_pairs:,} target calls{judged}?"
    if not free and not terminal.agreed(question, yes=options.yes, ask=not options.json):
        terminal.note("Nothing was spent.")
        return 1
    try:
        with Watch("SIMULATION" if label else "", silent=options.json) as watch:
            result = evaluate_candidate(workspace, options.candidate, None, watch.notify, rule)
    except KeyboardInterrupt:
        if options.json:
            terminal.emit({"candidate_id": options.candidate, "status": "stopped"})
        terminal.note("Interrupted; the pairs so far are kept, and the same command goes on with them.")
        return INTERRUPTED
    except Stopped as stopped:
        if options.json:
            shown = {"candidate_id": options.candidate, "status": "stopped", "reason": str(stopped)}
            terminal.emit(shown)
        terminal.note(f"error: {stopped}")
        return EXPECTED
    if options.json:
        terminal.emit(result)
    else:
        _say(result)
    return 0


def _say(result: Evaluated) -> None:
    verdict = (result.verdict or result.status).upper()
    more = (
        f", about {result.pairs_expected} more expected"
        if result.verdict == "undecided" and result.pairs_expected
        else ""
    )
    terminal.say(
        f"Verdict: {verdict}. Live {result.base.mean:.2f}, candidate {result.candidate.mean:.2f} "
        f"after {result.pairs_done} pairs{more}, {result.claim}; {result.reason.rstrip('.')}."
    )
    terminal.say(f"Next: {terminal.spoken(result.next_step)}")
