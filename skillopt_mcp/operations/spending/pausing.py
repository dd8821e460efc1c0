"""Pausing: after how many more pairs a promotion test pauses at most, before any is drawn."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.gates.recompute import ConfirmInputs, confirmed
from skillopt_mcp.optimizer.confirmation import fresh_tasks, paused_at
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.opening import Store


def pairs_of_new(store: Store, tasks: Sequence[Task], rule: ConfirmRule) -> int:
    """Return after how many pairs a test pauses that is yet to be opened on these tasks: fresh ones may be fewer."""
    return rule.max_pairs if rule.claim == "these" else min(rule.max_pairs, len(_fresh(store, tasks)))


def pairs_of_open(
    store: Store, rows: Sequence[ConfirmationRow], tasks: Sequence[Task], n_turn: int, since: int | None = None
) -> int:
    """Return how many more pairs any of these tests draws in a turn of `n_turn`, begun at its last pause or at `since`.

    One that has decided draws none; one of the claim `like_these` each of its tasks once, and the fresh of `tasks`.
    """
    left = _fresh(store, tasks) if any(row.claim == "like_these" for row in rows) else ()
    return max((_more(store, row, n_turn, since, left) for row in rows), default=0)


def has_decided(store: Store, row: ConfirmationRow) -> bool:
    """Return whether a test is over, as one is that came to accept or reject: it draws no pair any more."""
    last = store.decisions.latest_in(row.id)
    if last is None or last.verdict != "undecided":
        return last is not None
    inputs = ConfirmInputs.model_validate_json(last.inputs)
    return confirmed(store.decisions.list_pairs(row.id), inputs).is_over


def _more(store: Store, row: ConfirmationRow, n_turn: int, since: int | None, left: Collection[int]) -> int:
    if has_decided(store, row):
        return 0
    limit = (paused_at(row, store) if since is None else since) + n_turn
    limit = min(limit, len({*row.tasks, *left})) if row.claim == "like_these" else limit
    return max(0, limit - len(store.decisions.list_pairs(row.id)))


def _fresh(store: Store, tasks: Sequence[Task]) -> set[int]:
    return {task.id for task in fresh_tasks(store, tasks[0].skill_id, tasks)} if tasks else set()
