"""Damaged: which recorded attempts a run leaves out, because their rows are not what was written."""

from __future__ import annotations

from skillopt_mcp.records.runs import Run
from skillopt_mcp.store.opening import Store

_SHOWN = 5


def told_damaged(store: Store, run: Run) -> list[str]:
    """Return in words which of the recorded attempts that a run may see it learned nothing from; nothing where none."""
    damaged = [f"trajectory:{each}" for each in store.trajectories.list_damaged(run.sessions)]
    if not damaged:
        return []
    more = f" and {len(damaged) - _SHOWN} more" if len(damaged) > _SHOWN else ""
    what = f"{', '.join(damaged[:_SHOWN])}{more}"
    return [f"{what}: not what was written, and not learned from; skillopt-mcp verify tells how far the damage goes"]
