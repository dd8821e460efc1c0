"""Rebase: make a candidate again on top of an edit that somebody made meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.candidates.rebasing import rebase_candidate
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """Which candidate."""

    candidate: str = ""


def run(options: Options) -> int:
    """Return 0 when there is a new candidate, 1 when none of the edits fits."""
    with Workspace(options.store_path) as workspace:
        result = rebase_candidate(workspace, options.candidate)
    if options.json:
        terminal.emit(result, options)
        return 0 if result.candidate_id else 1
    terminal.say_diff(result.diff)
    for edit in result.edits:
        if edit.status != "applied":
            terminal.say(
                f"CONFLICT: edit {edit.index} ({edit.op} {edit.path}): {edit.reason}: {edit.detail}", "bold red"
            )
    for finding in result.findings:
        terminal.say(f"GUARD: {finding}", style="bold red")
    if result.candidate_id is None:
        terminal.note(f"error: {terminal.advice(result.next_step, options)}")
        return 1
    terminal.say(f"Candidate {result.candidate_id} of {result.skill}. {terminal.advice(result.next_step, options)}")
    return 0
