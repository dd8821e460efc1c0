"""Capturing: what a host's hook tells of a session becomes trajectories of the tracked skills that it opened."""

from __future__ import annotations

from pathlib import Path

from skillopt_mcp.operations.evidence.harvesting import Harvest, Harvested
from skillopt_mcp.operations.evidence.hooking import HookEvent, transcripts_of
from skillopt_mcp.operations.workspace import Workspace


def capture(store_path: Path, event: HookEvent) -> Harvested | None:
    """Record the finished attempts of a session; at its end the last one, and those of its sub-agents, as well.

    Returns None where there is no skill to look for: a store is not made for this. Raises BadInput where there is no
    transcript.
    """
    transcripts = transcripts_of(event)
    if not store_path.exists():
        return None
    with Workspace(store_path, project=Path(event.cwd or ".")) as workspace:
        work = Harvest(workspace)
        for each in transcripts:
            work.read(each, finished=event.has_ended)
        return work.result()
