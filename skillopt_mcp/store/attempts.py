"""Attempts as they stand in their rows: read whole, and only where they are what was written."""

from __future__ import annotations

from typing import cast

from skillopt_mcp.errors import UnsafeStore
from skillopt_mcp.records.calls import parse_messages
from skillopt_mcp.records.evidence import Trajectory
from skillopt_mcp.store.pool import Pool, Row
from skillopt_mcp.store.sums import is_summed

IS_THERE = "id not in (select trajectory_id from erased)"
WHOLE = (
    "select skill_id, version_id, session_id, position, prompt, answer, hard, soft, reason, messages, created_at,"
    f" imported_id, sum from trajectory where id = ? and {IS_THERE}"
)


def read(pool: Pool, trajectory_id: int) -> Row | None:
    """Return an attempt that was not erased, as `written` does, or None. Raises UnsafeStore where it is damaged."""
    try:
        row = pool.row(WHOLE, [trajectory_id])
    except UnsafeStore as error:
        raise _damaged(trajectory_id, "cannot be read") from error
    return written(trajectory_id, row) if row else None


def written(trajectory_id: int, row: Row) -> Row:
    """Return a row of WHOLE without its sum. Raises UnsafeStore where it is not what was written."""
    if not is_summed(row):
        raise _damaged(trajectory_id, "is not what was written")
    return row[:-1]


def trajectory_of(trajectory_id: int, row: Row) -> Trajectory:
    """Return the attempt that a row of `written` holds."""
    _, _, session, _, prompt, answer, hard, soft, reason, messages, *_ = row
    return Trajectory(
        id=f"trajectory:{trajectory_id}",
        prompt=str(prompt),
        answer=str(answer),
        messages=parse_messages(str(messages)),
        hard=None if hard is None else bool(hard),
        soft=cast(float | None, soft),
        reason=str(reason),
        source="session",
        session=str(session or ""),
    )


def _damaged(trajectory_id: int, how: str) -> UnsafeStore:
    return UnsafeStore(
        f"row {trajectory_id} of table trajectory {how}: the store is damaged, and trajectory:{trajectory_id} is "
        "neither shown nor learned from; skillopt-mcp verify tells how far the damage goes, and what to do"
    )
