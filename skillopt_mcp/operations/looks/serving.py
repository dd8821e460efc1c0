"""Serving: by which names the models of a run or a promotion test were served, to be looked at."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.operations.looks.details import ServedRow
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.serving import ServedBy, Servings

_MOST_SHOWN = 8


def served_in_test(workspace: Workspace, row: ConfirmationRow) -> list[ServedRow]:
    """Return by which names the attempts at either version were served, and what was asked of other roles."""
    room = workspace.store.room(Servings)
    versions = {"base": "live", "candidate": "candidate"}
    arms = [each._replace(whose=versions[each.whose]) for each in room.list_of_test(row)]
    arms.sort(key=lambda each: each.whose, reverse=True)
    return _rows([*arms, *(each for each in room.list_of_scope(row.id) if each.whose != "target")])


def served_in_run(workspace: Workspace, run_id: str) -> list[ServedRow]:
    """Return by which names the calls of a run were served, of each role."""
    return _rows(workspace.store.room(Servings).list_of_scope(run_id))


def told_names(rows: Sequence[ServedRow]) -> list[str]:
    """Return the names in a line, the first of many; no line where nobody said any."""
    told = [f"{row.whose} {row.name} ({row.n:,})" for row in rows[:_MOST_SHOWN]]
    told += [f"{len(rows) - _MOST_SHOWN:,} more"] if len(rows) > _MOST_SHOWN else []
    return [f"models that answered, by their own word: {', '.join(told)}"] if told else []


def _rows(found: Sequence[ServedBy]) -> list[ServedRow]:
    return [ServedRow(whose=each.whose, name=each.name, n=each.n) for each in found]
