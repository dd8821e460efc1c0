"""Full server: the tools with their resources and approver, in memory, over a skill of the simulated world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
from mcp import Client
from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.consent import add_root
from skillopt_mcp.backends.world import TOPICS, make_skill, make_tasks
from skillopt_mcp.server.app import Services, SkillOptServer
from skillopt_mcp.server.services import services_over
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace

SEED = 3
LESSONS = "\n".join(f"- {topic.lesson}" for topic in TOPICS)
T = TypeVar("T")


@dataclass
class World:
    """A skill with tasks in a registered root, and the workspace that a server is made over."""

    place: Path
    target: str = f"simulated:honest,seed={SEED}"
    n_tasks: int = 90
    workspace: Workspace = field(init=False)
    _services: dict[bool, Services] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.skill.mkdir(parents=True)
        (self.skill / "SKILL.md").write_bytes(make_skill(SEED).main)
        self.workspace = Workspace(
            self.place / "store.db", target=self.target, project=self.place, hands_out=self.target == "host",
            environ={"SKILLOPT_WORK": str(self.place / "work")},
        )  # fmt: skip
        add_root(self.workspace.store, str(self.skill.parent))
        tracked = self.workspace.place.skill(str(self.skill))
        self.workspace.store.tasks.add_tasks(
            tracked.id, make_tasks(self.n_tasks, SEED), DEFAULT_SHARES, login="a person"
        )

    @property
    def skill(self) -> Path:
        return self.place / "skills" / "ledger-clerk"

    @property
    def main(self) -> Path:
        return self.skill / "SKILL.md"

    def propose(self, content: str = LESSONS) -> str:
        proposed = propose_edits(
            self.workspace.store, self.workspace.place, str(self.skill), [{"op": "append", "content": content}]
        )
        assert proposed.candidate_id
        return proposed.candidate_id

    def accepted(self, content: str = LESSONS) -> str:
        candidate_id = self.propose(content)
        assert evaluate_candidate(
            self.workspace.store, self.workspace.models, self.workspace.place, candidate_id, Wait(self.workspace.jobs)
        ).accepted
        return candidate_id

    def server(self, *, require_approval: bool = False) -> SkillOptServer:
        """Return a server; the descriptions of the tools, which take long to make, are made once."""
        if require_approval not in self._services:
            self._services[require_approval] = services_over(self.workspace, require_approval=require_approval)
        return SkillOptServer(lambda: self._services[require_approval], require_approval=require_approval)


@dataclass
class Person:
    """Somebody at a host, who answers what they are asked; no `answer` is a host that cannot ask."""

    answer: ElicitResult | None = None
    asked: list[str] = field(default_factory=list)
    forms: list[dict[str, Any]] = field(default_factory=list)

    async def __call__(self, _: Any, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append(params.message)
        self.forms.append(params.requested_schema)
        assert self.answer
        return self.answer


YES = ElicitResult(action="accept", content={"write": True})
NO = ElicitResult(action="accept", content={"write": False})


def with_client(
    server: SkillOptServer, ask: Callable[[Client], Awaitable[T]], era: str = "auto", person: Person | None = None
) -> T:
    """Return what `ask` makes of a client, behind which a person sits."""

    async def run() -> T:
        callback = person if person and person.answer else None
        async with Client(server, mode=era, elicitation_callback=callback) as client:  # type: ignore[arg-type]
            return await ask(client)

    return anyio.run(run)


def call(
    server: SkillOptServer, tool: str, arguments: dict[str, Any], era: str = "auto", person: Person | None = None
) -> dict[str, Any]:
    """Return what a tool answers."""

    async def ask(client: Client) -> CallToolResult:
        return await client.call_tool(tool, arguments)

    result = with_client(server, ask, era, person)
    assert not result.is_error, result.content
    assert result.structured_content
    return result.structured_content
