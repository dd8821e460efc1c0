"""Resuming: what is left of a run, told and agreed to before it goes on."""

from __future__ import annotations

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.agreeing import NO_MORE_SPENT, ends_here, is_real, told_calls
from skillopt_mcp.cli.capping import Capped, told_caps
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.answering import (
    answering,
    backends_of,
    changed_since,
    check_unchanged,
    run_backends,
    told_unknown,
)
from skillopt_mcp.operations.runs.estimating import estimate_end, estimate_rest
from skillopt_mcp.operations.runs.replaying import caps_of, is_searching, planned
from skillopt_mcp.operations.runs.unfinished import others_left, told_others_left
from skillopt_mcp.operations.spending.budgeting import is_used_up
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.budgets import Caps, Spent
from skillopt_mcp.records.calls import Role
from skillopt_mcp.records.runs import Run


def check_changed(workspace: Workspace, run: Run, way: str, *, allowed: bool, silent: bool, ends: bool = False) -> None:
    """Raise Refused when others would answer in a run than so far, unless the person has allowed that, in this way."""
    backends = backends_of(workspace, run)
    if not allowed:
        check_unchanged(workspace, run, backends, way, ends=ends)
    if silent:
        return
    is_over = run.status == "finished"
    if is_over and not run.answering:
        terminal.note(f"note: {told_unknown(run)}")
    then = (
        f"the outcome of run {run.id} is taken as it is"
        if is_over
        else "its best version is tested with what is there now"
        if ends or run.conclusion
        else "the current and the best version are measured anew"
    )
    for each in changed_since(workspace, run, answering(backends)):
        terminal.note(f"note: {each}; {then}")


def note_others(workspace: Workspace, run: Run, flag: str = "--resume") -> None:
    """Tell which other runs of its skill are unfinished, where the newest was taken for want of an id."""
    if others := told_others_left(others_left(workspace, run), flag):
        terminal.note(f"note: {others}")


def unwilling_to_conclude(workspace: Workspace, run: Run, options: Capped, slots: int | None) -> int | None:
    """Return the code to end with where a run's search is not to end, as its promotion test takes too much, else None.

    Raises what `unwilling_to_go_on` raises.
    """
    if not is_searching(workspace, run):
        return unwilling_to_go_on(workspace, run, options, slots)
    calls, n_steps = estimate_end(workspace, run), len(workspace.store.runs.list_steps(run.id))
    takes = (
        f"Its promotion test takes at most {told_calls(calls)}. {told_caps(*_caps(workspace, run))}"
        if any(calls.values())
        else "No step has brought a better version: there is nothing to test, and no call is made."
    )
    n_left = planned(workspace, run).n_rows - n_steps
    told = f"Run {run.id} ends its search after {counted(n_steps, 'finished step')}; {n_left:,} more were planned."
    return ends_here(workspace, calls, options, f"{told} {takes}".rstrip(), slots, declined=NO_MORE_SPENT)


def unwilling_to_go_on(workspace: Workspace, run: Run, options: Capped, slots: int | None) -> int | None:
    """Return the code to end with where what is left of a run is not to be spent, else None.

    Raises Refused when nobody may be asked and nobody agreed beforehand.
    """
    backends = run_backends(workspace, run)
    caps, spent = _caps(workspace, run)
    # Under caps that are used up nothing is sent: it goes as far as what was answered, and says why it stops.
    if not options.dry_run and (not is_real(workspace, asked_roles(run)) or is_used_up(caps, spent, backends)):
        return None
    left = estimate_rest(workspace, run)
    judge = f", and {counted(left['judge'], 'call')} of the judge" if left["judge"] else ""
    told = (
        f"Sent so far: {counted(spent.calls, 'call')}. What is left of run {run.id}: at most "
        f"{counted(left['target'], 'target call')} and about {counted(left['optimizer'], 'optimizer call')}"
        f"{judge}. {told_caps(caps, spent)}".rstrip()
    )
    return ends_here(workspace, left, options, told, slots, declined=NO_MORE_SPENT)


def _caps(workspace: Workspace, run: Run) -> tuple[Caps, Spent]:
    return caps_of(workspace, run), workspace.store.budgets.get_spent(run.id)


def asked_roles(run: Run) -> tuple[Role, ...]:
    """Return the roles that a run asks models for."""
    return ("target", "optimizer", "judge") if run.judge else ("target", "optimizer")
