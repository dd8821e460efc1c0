"""Consolidating: how `replay --memory` trains a skill and a memory file, told on the terminal."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.preparing import Prepared
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.errors import BadInput, CapReached, Stopped
from skillopt_mcp.operations.consolidating import Consolidated, Document, Documents, Training, consolidate, documents
from skillopt_mcp.operations.estimating import estimate_run
from skillopt_mcp.operations.evaluating import is_simulated
from skillopt_mcp.operations.results import Replayed
from skillopt_mcp.operations.workspace import Workspace

EXPECTED, INTERRUPTED = 1, 130


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What a person asked for: the two documents, which of them to train, and how to talk about it."""

    skill: str
    memory: str
    document: Document
    resume: bool
    yes: bool
    json: bool


def consolidated(workspace: Workspace, asked: Consolidation, ready: Prepared) -> int:
    """Return 0 when all was trained, 1 when it was not wanted or stopped at a cap, 130 when it was interrupted."""
    if ready.environment or ready.out:
        raise BadInput("--memory takes the stored tasks and writes no files: leave out --env and --out")
    both = documents(workspace, asked.skill, asked.memory, asked.document)
    label = _label(workspace)
    if not _agreed(workspace, both, asked, ready, free=bool(label)):
        terminal.note("Nothing was spent.")
        return EXPECTED
    try:
        with Watch("SIMULATION" if label else "", silent=asked.json) as watch:
            training = Training(
                ready.config, ready.prompts, watch.notify, watch.on_reply, ready.slots, resume=asked.resume
            )
            result = consolidate(workspace, both, training)
    except (KeyboardInterrupt, Stopped) as stop:
        return _broken_off(asked, stop if isinstance(stop, Stopped) else None)
    if asked.json:
        terminal.emit(result)
    else:
        _say(result, label)
    return 0


def _label(workspace: Workspace) -> str:
    target = workspace.backend("target")
    return f"SIMULATION ({target.name})" if is_simulated(target.fingerprint) else ""


def _agreed(workspace: Workspace, both: Documents, asked: Consolidation, ready: Prepared, *, free: bool) -> bool:
    chosen = {"skill": [both.skill], "memory": [both.memory], "both": [both.skill, both.memory]}[asked.document]
    estimates = [estimate_run(workspace, document.path, ready.config) for document in chosen]
    if not asked.json:
        known = " What was answered before is not asked again." if asked.resume else ""
        names = " and then ".join(f"'{document.name}'" for document in chosen)
        terminal.note(
            f"Trains {names}, both documents at hand in every attempt. At most "
            f"{sum(each.target_calls for each in estimates):,} target calls and about "
            f"{sum(each.optimizer_calls for each in estimates):,} optimizer calls; caps are those of each run.{known}"
        )
    if free and is_simulated(workspace.backend("optimizer").fingerprint):
        return True
    return terminal.agreed("Spend that much?", yes=asked.yes, ask=not asked.json)


def _broken_off(asked: Consolidation, stopped: Stopped | None) -> int:
    reason = str(stopped) if stopped else "nothing that was answered is lost"
    higher = f" {stopped.higher}" if isinstance(stopped, CapReached) and stopped.higher else ""
    if asked.json:
        terminal.emit({"status": "stopped", "reason": reason, "next_step": f"the same command with --resume{higher}"})
    how = "Stopped" if stopped else "Interrupted"
    terminal.note(f"{how}; {reason.rstrip('.')}. Go on with the same command and --resume{higher}.")
    return EXPECTED if stopped else INTERRUPTED


def _say(result: Consolidated, label: str) -> None:
    for outcome in (result.skill, result.memory):
        if outcome:
            terminal.say(_outcome(outcome))
            terminal.say(f"Next: {outcome.next_step}")
    if label:
        terminal.say(f"{label}: this says nothing about a real model.")


def _outcome(outcome: Replayed) -> str:
    told = f"{shlex.quote(outcome.skill)}: run {outcome.run_id} finished after {len(outcome.steps)} steps"
    if outcome.verdict is None:
        return f"{told}; no verdict: {outcome.reason.rstrip('.')}."
    return (
        f"{told}. Verdict: {outcome.verdict.upper()}. Live {outcome.test_before or 0:.2f}, candidate "
        f"{outcome.test_after or 0:.2f} on {outcome.n_pairs} pairs of held-out runs; {outcome.reason.rstrip('.')}."
    )
