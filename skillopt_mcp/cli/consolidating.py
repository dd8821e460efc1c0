"""Consolidating: how `replay --memory` trains a skill and a memory file, told on the terminal."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.agreeing import ends_here, simulation, unwilling
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.preparing import Prepared
from skillopt_mcp.cli.resuming import check_changed
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput, CapReached, NotFound, Stopped
from skillopt_mcp.operations.results import Replayed
from skillopt_mcp.operations.runs.consolidating import (
    WAY_ON,
    Consolidated,
    Document,
    Documents,
    Training,
    consolidate,
    documents,
    taken_up,
)
from skillopt_mcp.operations.runs.estimating import estimate_end, estimate_run
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import Role

EXPECTED, INTERRUPTED = 1, 130


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What a person asked for: the two documents, which of them to train, and what every command is told."""

    skill: str
    memory: str
    document: Document
    resume: bool
    conclude: bool
    allow_changed: bool
    options: Capped


def consolidated(workspace: Workspace, asked: Consolidation, ready: Prepared) -> int:
    """Return 0 when all was trained, or told, 1 when it was not wanted or stopped at a cap, 130 when interrupted."""
    if ready.environment or ready.out:
        raise BadInput("--memory takes the stored tasks and writes no files: leave out --env and --out")
    both = documents(workspace, asked.skill, asked.memory, asked.document)
    label = simulation(workspace)
    if asked.resume or asked.conclude:
        for beside, run in taken_up(workspace, both, Training(ready.config, ready.prompts)):
            check_changed(
                beside, run, WAY_ON, allowed=asked.allow_changed, silent=asked.options.json, ends=asked.conclude
            )
    unwilling_to = _unwilling_to_end if asked.conclude else _unwilling
    if (code := unwilling_to(workspace, both, asked, ready)) is not None:
        return code
    try:
        with Watch("SIMULATION" if label else "", silent=asked.options.json) as watch:
            training = Training(
                ready.config, ready.prompts, watch.notify, watch.on_reply, ready.slots, resume=asked.resume,
                conclude=asked.conclude, allow_changed=asked.allow_changed,
            )  # fmt: skip
            result = consolidate(workspace, both, training)
    except (KeyboardInterrupt, Stopped) as stop:
        return _broken_off(asked, stop if isinstance(stop, Stopped) else None)
    if asked.options.json:
        terminal.emit(result)
    else:
        _say(result, label, asked.options)
    return 0


def _unwilling(workspace: Workspace, both: Documents, asked: Consolidation, ready: Prepared) -> int | None:
    chosen = {"skill": [both.skill], "memory": [both.memory], "both": [both.skill, both.memory]}[asked.document]
    estimates = [estimate_run(workspace, document.path, ready.config) for document in chosen]
    calls: Counter[Role] = sum((Counter(each.calls) for each in estimates), Counter())
    known = " What was answered before is not asked again." if asked.resume else ""
    judge = f", and {counted(calls['judge'], 'call')} of the judge" if calls["judge"] else ""
    names = " and then ".join(f"'{document.name}'" for document in chosen)
    told = (
        f"Trains {names}, both documents at hand in every attempt. At most {counted(calls['target'], 'target call')} "
        f"and about {counted(calls['optimizer'], 'optimizer call')}{judge}; caps are those of each run.{known}"
    )
    return ends_here(workspace, calls, asked.options, told, ready.slots)


def _unwilling_to_end(workspace: Workspace, both: Documents, asked: Consolidation, ready: Prepared) -> int | None:
    """Return the code to end with where what the search has brought is not to be tested, else None.

    Raises NotFound where nothing was begun.
    """
    left = [
        Counter({} if run.result else estimate_end(beside, run))
        for beside, run in taken_up(workspace, both, Training(ready.config, ready.prompts))
    ]
    if not left:
        raise NotFound("there is no run of these documents with these settings: leave out --conclude")
    calls: Counter[Role] = sum(left, Counter())
    if not asked.options.json:
        terminal.note("Searches no more, and tests what the search has brought; what was never begun is left out.")
    return unwilling(workspace, calls, asked.options, ready.slots)


def _broken_off(asked: Consolidation, stopped: Stopped | None) -> int:
    reason = str(stopped) if stopped else "nothing that was answered is lost"
    higher = f" {stopped.higher}" if isinstance(stopped, CapReached) and stopped.higher else ""
    if asked.options.json:
        shown = {"status": "stopped", "verdict": None, "reason": reason}
        terminal.emit(shown | {"next_step": f"the same command with --resume{higher}"})
    how = "Stopped" if stopped else "Interrupted"
    terminal.note(
        f"{how}; {reason.rstrip('.')}. Go on with the same command and --resume{higher}; or search no more, and "
        f"test what the search has brought: the same command and --conclude{higher}."
    )
    return EXPECTED if stopped else INTERRUPTED


def _say(result: Consolidated, label: str, options: Capped) -> None:
    for outcome in (result.skill, result.memory):
        if outcome:
            terminal.say(_outcome(outcome))
            terminal.say(f"Next: {told_next(outcome, label, options)}")
    if label:
        terminal.say(f"{label}: this says nothing about a real model.")


def told_next(outcome: Replayed, label: str, options: Capped) -> str:
    """Return what to do next with the outcome of a run, in the words of this command line; a simulation has a label."""
    is_promotion = label and outcome.next_step.startswith("skillopt-mcp promote ")
    return terminal.advice(f"{outcome.next_step} --simulated" if is_promotion else outcome.next_step, options)


def _outcome(outcome: Replayed) -> str:
    told = f"{shlex.quote(outcome.skill)}: run {outcome.run_id} finished after {counted(len(outcome.steps), 'step')}"
    if outcome.verdict is None:
        return f"{told}; no verdict: {outcome.reason.rstrip('.')}."
    return (
        f"{told}. Verdict: {outcome.verdict.upper()}. Live {outcome.test_before or 0:.2f}, candidate "
        f"{outcome.test_after or 0:.2f} on {counted(outcome.n_pairs, 'pair')} of held-out runs; "
        f"{outcome.reason.rstrip('.')}."
    )
