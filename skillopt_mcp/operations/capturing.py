"""Capturing: what a host's hook tells of a session becomes trajectories of the tracked skills that it opened."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.harvesting import Harvest, Harvested
from skillopt_mcp.operations.sessions import companions
from skillopt_mcp.operations.workspace import Workspace

END = "SessionEnd"
EVENTS = ("Stop", END)
"""The events of Claude Code and Codex on which a session is read."""


class HookEvent(BaseModel):
    """What a hook is told on its standard input."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    transcript_path: str | None = None
    cwd: str = ""
    hook_event_name: str = ""


def parse_event(text: bytes) -> HookEvent:
    """Return what the hook was told. Raises BadInput when it is not an event of a hook."""
    try:
        return HookEvent.model_validate_json(text)
    except ValidationError:
        raise BadInput("standard input holds no event of a hook: a host runs this command, see --help") from None


def capture(store_path: Path, event: HookEvent) -> Harvested | None:
    """Record the finished attempts of a session; at its end the last one, and those of its sub-agents, as well.

    Returns None where there is nothing to read, or no skill to look for: a store is not made for this.
    """
    if not event.transcript_path or not store_path.exists():
        return None
    path = Path(os.path.expanduser(event.transcript_path))
    if not path.is_file():
        return None
    ended = event.hook_event_name == END
    with Workspace(store_path, project=Path(event.cwd or ".")) as workspace:
        work = Harvest(workspace)
        for each in [path, *(companions(path) if ended else ())]:
            work.read(each, finished=ended)
        return work.result()
