"""Verify: whether everything that the store holds is what was written, and its verdicts follow from their evidence."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.cli.working import working
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.stores.verifying import verify_store


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """A hash that the chain of events had once, to see that it is in it still."""

    holds: str | None = None


def run(options: Options) -> int:
    """Return 0 when the store is sound, 1 when something is wrong with it."""
    with working(options) as tell:
        found = verify_store(options.store_path, options.holds, tell=tell)
    if options.json:
        terminal.emit(found, options)
        return 1 if found.problems else 0
    for note in found.notes:
        terminal.note(f"note: {note}")
    for problem in found.problems:
        terminal.note(f"error: {problem}")
    if found.problems:
        terminal.say(f"{found.store} is NOT sound. {terminal.advice(found.next_step, options)}")
        return 1
    events, decisions = counted(found.n_events, "event"), counted(found.n_decisions, "decision")
    terminal.say(f"{found.store} is sound: {events}, {decisions} recomputed.")
    if found.head:
        terminal.say(f"The last event is {found.head}")
        terminal.say("Keep it elsewhere: verify --holds tells later whether history was taken away.", style="dim")
    return 0
