"""Tool calls: ask the tools of a server in memory, in either era of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio
from mcp import Client
from mcp_types import CallToolResult, TextContent

from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.server.app import Services, SkillOptServer
from skillopt_mcp.server.tools import tools_over
from skillopt_mcp.workspace.workspace import Workspace

Era = Literal["auto", "legacy"]
Call = tuple[str, dict[str, Any]]
T = TypeVar("T")


def server_over(place: Path, target: str | None = None) -> SkillOptServer:
    """Return a server whose store and project lie in `place`."""
    workspace = Workspace(place / "store.db", target=target, project=place / "project", environ={})
    return SkillOptServer(lambda: Services(tools_over(workspace)))


def connected(server: SkillOptServer, ask: Callable[[Client], Awaitable[T]], era: Era = "auto") -> T:
    """Return what `ask` makes of a client of the server."""

    async def run() -> T:
        async with Client(server, mode=era) as client:
            return await ask(client)

    return anyio.run(run)


def ask_all(server: SkillOptServer, calls: Sequence[Call], era: Era = "auto") -> list[CallToolResult]:
    """Return the results of calls made one after the other."""

    async def ask(client: Client) -> list[CallToolResult]:
        return [await client.call_tool(name, arguments) for name, arguments in calls]

    return connected(server, ask, era)


def ask_one(server: SkillOptServer, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return what a tool answers, as the model sees it. Fails when it is an error."""
    [result] = ask_all(server, [(tool, arguments)])
    assert not result.is_error, error_text(result)
    assert result.structured_content is not None
    return result.structured_content


def error_text(result: CallToolResult) -> str:
    """Return the text of an error, all that a model gets to read of it."""
    assert result.is_error
    assert result.structured_content is None
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def make_skill(place: Path, name: str = "ledger", text: str = "Read the whole page first.\n") -> Path:
    """Return a new skill folder in the project in `place`."""
    folder = place / "project" / ".claude" / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Work out amounts.\n---\n\n{text}")
    return folder


def add_held_out_task(skill: Path) -> None:
    """Add a held-out task of a person's to the store next to the project of a skill: an agent's would wait."""
    with Workspace(skill.parents[3] / "store.db") as workspace:
        task = {"prompt": "1 + 1?", "judge": {"kind": "exact", "expected": "2"}, "split": "test"}
        add_tasks(workspace.store, workspace.place, str(skill), [task])
