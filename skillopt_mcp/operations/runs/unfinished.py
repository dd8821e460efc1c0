"""Unfinished: the runs that are frozen to what a new one would be, and what keeps it from going on with one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.answering import Changed, Names, are_of, changed_since
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.runs import Run

_NAMED = 5


def last_finished(workspace: Workspace, new: Run) -> Run | None:
    """Return the newest finished run that a new one would be, answered by the same; None when there is none.

    Where only such runs are left of which nobody knows who answered (`answering` is empty), it is the newest of these.
    """
    unknown = None
    for run in _alike(workspace, new, is_finished=True):
        if not run.answering:
            unknown = unknown or run
        elif not changed_since(workspace, run, new.answering[-1]):
            return run
    return unknown


def finished_by_others(workspace: Workspace, new: Run) -> Run | None:
    """Return the newest finished run that a new one would be, whoever answered in it; None when there is none."""
    return next(_alike(workspace, new, is_finished=True), None)


def furthest(workspace: Workspace, new: Run, *, allow_changed: bool) -> Run | None:
    """Return the unfinished run that a new one would go on with: of several, the one that has sent most calls."""
    runs = [
        run
        for run in _alike(workspace, new, is_finished=False)
        if allow_changed or not changed_since(workspace, run, new.answering[-1])
    ]
    return max(runs, key=lambda run: workspace.store.budgets.get_spent(run.id).calls, default=None)


def left_changed(workspace: Workspace, new: Run) -> tuple[Run, list[Changed]] | None:
    """Return the newest unfinished run that differs from this one by who answers alone, and how; None without one."""
    others = (
        (run, changed_since(workspace, run, new.answering[-1])) for run in _alike(workspace, new, is_finished=False)
    )
    return next(((run, changed) for run, changed in others if changed), None)


def left_behind(workspace: Workspace, new: Run) -> Run | None:
    """Return the newest unfinished run that differs from this one by more tasks alone, None when there is none."""
    runs = _alike(workspace, new, is_finished=False, by_tasks=False)
    return next((run for run in runs if set(run.tasks) > set(new.tasks)), None)


def others_left(workspace: Workspace, run: Run) -> list[tuple[Run, int]]:
    """Return the other unfinished runs of the skill, each with the calls it has sent, those with most first."""
    store = workspace.store
    runs = [
        each for each in reversed(store.runs.list_runs(run.skill_id)) if each.kind == "replay" and each.id != run.id
    ]
    left = [(each, store.budgets.get_spent(each.id).calls) for each in runs if each.status != "finished"]
    return sorted(left, key=lambda each: -each[1])


def told_others_left(left: Sequence[tuple[Run, int]], flag: str = "--resume") -> str:
    """Return in words that other runs are unfinished as well, those that have sent most calls first; "" for none."""
    if not left:
        return ""
    named = ", ".join(f"{run.id} ({counted(n, 'call')})" for run, n in left[:_NAMED])
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    takes = "ends the search of" if flag == "--conclude" else "goes on with"
    return f"{flag} {takes} the newest unfinished run; unfinished as well: {named}{more}; name one by its id"


def _alike(workspace: Workspace, new: Run, *, is_finished: bool, by_tasks: bool = True) -> Iterator[Run]:
    """Yield the runs that are frozen to the same things as a new one, whoever answered in them, newest first."""
    runs, names = workspace.store.runs, Names(new.target, new.optimizer, new.judge)
    alike = map(runs.get_run, runs.list_alike(new, is_finished=is_finished, by_tasks=by_tasks))
    return (run for run in alike if are_of(run, names))
