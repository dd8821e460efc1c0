"""Rotating: what a person is shown before worn test tasks move into train, and what became of it."""

from __future__ import annotations

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.tasks.rotating import Rotated, Rotating, review_rotation, rotate_worn_tasks
from skillopt_mcp.operations.workspace import Workspace


def rotate(workspace: Workspace, skill: str, n_looks: int, options: Invocation, *, yes: bool) -> int:
    """Return 0 when they moved or none is worn, 1 when the person did not agree. Raises Refused in an agent's shell."""
    terminal.require_person("tasks rotate")
    review = review_rotation(workspace, skill, n_looks)
    if review.rows and not options.json:
        _show(review)
    if review.rows and not terminal.agreed(
        f"Move {counted(len(review.rows), 'test task')} of {review.skill} into train for good?",
        yes=yes,
        ask=not options.json,
    ):
        terminal.note("Nothing was changed.")
        return 1
    _told(rotate_worn_tasks(workspace, skill, n_looks), options)
    return 0


def _show(review: Rotating) -> None:
    rows = [(row.id, str(row.n_tests), " ".join(row.prompt.split())) for row in review.rows]
    terminal.say_table(("id", "tests", "prompt"), rows)
    n_left = review.n_test - len(review.rows)
    terminal.note(f"note: {counted(n_left, 'test task')} would be left; a train task never becomes a test task again.")


def _told(result: Rotated, options: Invocation) -> None:
    if options.json:
        terminal.emit(result, options)
        return
    splits = result.splits
    terminal.say(
        f"{counted(len(result.rotated), 'task')} moved from test into train; {result.skill} has {splits.train} train, "
        f"{splits.val} val and {splits.test} test tasks."
    )
    terminal.note(terminal.advice(result.next_step, options))
