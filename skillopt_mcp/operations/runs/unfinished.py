"""Unfinished: the runs that are frozen to what a new one would be, and what keeps it from going on with one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from skillopt_mcp.operations.answering import Changed, changes
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.runs import Run


def alike(workspace: Workspace, new: Run) -> Iterator[Run]:
    """Yield the runs that are frozen to the same things as a new one, whoever answered in them, newest first."""
    return (run for run in _newest_first(workspace, new) if _likened(run, new) == new)


def furthest(workspace: Workspace, new: Run, *, allow_changed: bool) -> Run | None:
    """Return the unfinished run that a new one would go on with: of several, the one that has sent most calls."""
    runs = [
        run for run in alike(workspace, new) if run.status != "finished" and (allow_changed or not changed(run, new))
    ]
    return max(runs, key=lambda run: workspace.store.budgets.get_spent(run.id).calls, default=None)


def changed(run: Run, new: Run) -> list[Changed]:
    """Return the roles that others would answer for in a new run; none where nobody knows."""
    return changes(run.answering[-1], new.answering[-1]) if run.answering else []


def left_changed(workspace: Workspace, new: Run) -> tuple[Run, list[Changed]] | None:
    """Return the newest unfinished run that differs from this one by who answers alone, and how; None without one."""
    unfinished = (run for run in alike(workspace, new) if run.id != new.id and run.status != "finished")
    return next(((run, others) for run in unfinished if (others := changed(run, new))), None)


def left_behind(workspace: Workspace, new: Run) -> Run | None:
    """Return the newest unfinished run that differs from this one by more tasks alone, None when there is none."""
    for run in _newest_first(workspace, new):
        is_larger = run.status != "finished" and set(run.tasks) > set(new.tasks)
        if is_larger and replace(_likened(run, new), tasks=new.tasks) == new:
            return run
    return None


def _newest_first(workspace: Workspace, new: Run) -> Iterator[Run]:
    runs = reversed(workspace.store.runs.list_runs(new.skill_id))
    return (run for run in runs if run.kind == "replay")


def _likened(run: Run, new: Run) -> Run:
    """Return a run with all that may differ where it is the same run that a new one would be."""
    return replace(run, id=new.id, status=new.status, note=new.note, result=None)
