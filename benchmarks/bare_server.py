"""Bare server: the SDK's own server with one tool that takes what record_trajectory takes, and does nothing."""

from __future__ import annotations

from mcp.server import MCPServer
from pydantic import BaseModel


class Recorded(BaseModel):
    """What record_trajectory answers."""

    trajectory_id: str
    skill: str
    version: str
    n_new: int
    next_step: str


server = MCPServer("bare")


@server.tool()
def record_trajectory(
    skill: str,
    task: str,
    hard: bool | None = None,
    soft: float | None = None,
    reason: str = "",
    answer: str = "",
    messages: list[dict[str, object]] | None = None,
    session_id: str = "",
    index: int | None = None,
) -> Recorded:
    """Do nothing."""
    return Recorded(trajectory_id="", skill=skill, version="", n_new=0, next_step="")


if __name__ == "__main__":
    server.run("stdio")
