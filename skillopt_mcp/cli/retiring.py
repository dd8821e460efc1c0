"""Retiring: what a person is shown before tasks are taken out of use, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.tasks.retiring import Retired, Retiring, retire_tasks, review_retirement
from skillopt_mcp.operations.workspace import Workspace


def retire(workspace: Workspace, skill: str, ids: Sequence[str], reason: str, options: Invocation, *, yes: bool) -> int:
    """Return 0 when these tasks are retired, 1 when the person did not agree. Raises Refused in an agent's shell."""
    terminal.require_person("tasks retire")
    review = review_retirement(workspace, skill, ids)
    if review.rows and not options.json:
        _show(review)
    if review.rows and not terminal.agreed(
        f"Retire {counted(len(review.rows), 'task')} of {review.skill} for good?", yes=yes, ask=not options.json
    ):
        terminal.note("Nothing was changed.")
        return 1
    _told(retire_tasks(workspace, skill, ids, reason), options)
    return 0


def _show(review: Retiring) -> None:
    rows = [(row.id, row.split, str(row.n_tests), " ".join(row.prompt.split())) for row in review.rows]
    terminal.say_table(("id", "split", "tests", "prompt"), rows)
    if review.n_held_out:
        terminal.note(
            f"warning: {review.n_held_out} of them are held out, and promotion tests have drawn {review.n_drawn}. "
            "Retire what is wrong, never what a candidate failed: that would cheat its test. It stays on record, and "
            "every later verdict tells of it."
        )
    for each in review.under_way:
        terminal.note(f"note: {each} is under way and keeps these tasks.")


def _told(result: Retired, options: Invocation) -> None:
    if options.json:
        terminal.emit(result, options)
        return
    splits = result.splits
    terminal.say(
        f"{counted(len(result.retired), 'task')} retired, {len(result.already)} were before; {result.skill} has "
        f"{splits.train} train, {splits.val} val and {splits.test} test tasks."
    )
    terminal.note(terminal.advice(result.next_step, options))
