"""Breaking off: what a run that did not reach its end tells of itself, and the ways on from there."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.agreeing import is_real
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.resuming import asked_roles
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import CapReached, Stopped, StoreError
from skillopt_mcp.operations.runs.replaying import is_searching
from skillopt_mcp.operations.spending.batching import told_of, waiting_batches
from skillopt_mcp.operations.spending.charging import told_under_way
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.runs import Run

EXPECTED, INTERRUPTED = 1, 130
# Where faults are mended there, they say so.
_IN_SPEC = "in the spec"


@dataclass(frozen=True, slots=True)
class Way:
    """How a run is carried out, which does not change what it finds, and what it was asked for by."""

    skill: str
    slots: int | None
    out: Path | None
    by_batch: bool


def broken_off(
    workspace: Workspace, begun: Run, options: Capped, way: Way, stopped: Stopped | StoreError | None
) -> int:
    """Return the exit code of a run that did not reach its end, told why, how to go on, and how to end its search."""
    steps = workspace.store.runs.list_steps(begun.id)
    # Whoever sits at a terminal is asked again.
    agreed = [] if terminal.is_interactive() or not is_real(workspace, asked_roles(begun)) else ["--yes"]
    higher = [stopped.higher] if isinstance(stopped, CapReached) and stopped.higher else []
    resume = _command(options, way, "--resume", *higher, *_again(way), *agreed)
    run = workspace.store.runs.get_run(begun.id)
    is_better = bool(steps) and steps[-1].best_version != run.base_version
    again = [*(higher if is_better else []), *_again(way), *(agreed if is_better else [])]
    conclude = _command(options, way, "--conclude", *again) if is_searching(workspace, run) else ""
    waiting = waiting_batches(workspace, begun.id)
    # What is at a vendor goes on there, and is collected.
    under_way = "" if isinstance(stopped, Stopped) or waiting else told_under_way(workspace.store, begun.id)
    reason = "; ".join(filter(None, [str(stopped) if stopped else "nothing that was answered is lost", under_way]))
    if options.json:
        shown = {"run_id": begun.id, "status": "stopped", "verdict": None, "n_steps": len(steps), "reason": reason}
        at_vendor = [batch.vendor_id or batch.id for batch in waiting]
        terminal.emit(shown | {"next_step": resume, "conclude": conclude or None, "at_vendor": at_vendor})
    how = "Stopped" if stopped else "Interrupted"
    mended = " (and the mended spec: --target, --optimizer or --judge SPEC)" if _IN_SPEC in reason else ""
    standing = f"{how} after {counted(len(steps), 'finished step')}; {reason.rstrip('.')}"
    terminal.note(f"{standing}. Go on with{mended}:\n  {resume}")
    if waiting:
        told = told_of(waiting)
        terminal.note(f"{told[:1].upper()}{told[1:]}. To cancel it:\n  {_command(options, way, '--abandon')}")
    if conclude:
        then = (
            f"and test the best version so far (val {steps[-1].best:.3f})" if is_better
            else "and finish: no step has brought a better version so far, so that nothing is tested"
        )  # fmt: skip
        terminal.note(f"Or search no more, {then}:\n  {conclude}")
    return EXPECTED if stopped else INTERRUPTED


def _command(options: Capped, way: Way, *more: str) -> str:
    """Return a command about the run of the skill that was asked for."""
    store = ["--store", shlex.quote(options.store)] if options.store else []
    return " ".join(["skillopt-mcp replay", shlex.quote(way.skill), *more, *store])


def _again(way: Way) -> list[str]:
    """Return what to give to go on in the same way."""
    slots = [f"--slots {way.slots}"] if way.slots else []
    out = [f"--out {shlex.quote(str(way.out))}"] if way.out else []
    batch = ["--by-batch"] if way.by_batch else []
    return [*slots, *out, *batch]
