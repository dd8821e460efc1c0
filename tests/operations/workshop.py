"""Workshop: a place with a skill of the simulated world to work on, as the tests of operations share it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import TOPICS, make_tasks
from skillopt_mcp.candidates import propose_edits
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.records.calls import Call, Role, Rollout
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.tasks import Split
from skillopt_mcp.runs import furthest, new_run, start_run
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace import Workspace

EVEN: dict[Split, float] = {"train": 1, "val": 1, "test": 1}
SEED = 3
SIMULATION = f"simulated:honest,seed={SEED}"
LESSONS = "\n".join(f"- {topic.lesson}" for topic in TOPICS)
PLACEBO = "- Pay attention to the wording of the request."


@dataclass
class Place:
    """A skill of the simulated world in a registered skill root, and a store next to it."""

    folder: Path
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def root(self) -> Path:
        return self.folder / "skills"

    @property
    def skill(self) -> Path:
        return self.root / "ledger-clerk"

    @property
    def main(self) -> Path:
        return self.skill / "SKILL.md"

    @property
    def store_path(self) -> Path:
        return self.folder / "store" / "skillopt.db"

    def open(self, target: str | None = SIMULATION, store: str = "skillopt.db") -> Workspace:
        """Return another workspace on the store, as another process would have."""
        path = self.store_path.with_name(store)
        return self.stack.enter_context(Workspace(path, target=target, optimizer=target, project=self.folder))

    def add_tasks(self, workspace: Workspace, n: int = 90) -> None:
        tracked = workspace.skill(str(self.skill))
        workspace.store.tasks.add_tasks(tracked.id, make_tasks(n, SEED), EVEN)

    def propose(self, workspace: Workspace, content: str = LESSONS, **edit: str) -> str:
        """Return the id of a candidate; by default it teaches all that the tasks need."""
        proposed = propose_edits(workspace, str(self.skill), [{"op": "append", "content": content, **edit}])
        assert proposed.candidate_id
        return proposed.candidate_id

    def accepted(self, workspace: Workspace, content: str = LESSONS, **edit: str) -> str:
        """Return the id of a candidate that the promotion test has accepted."""
        candidate_id = self.propose(workspace, content, **edit)
        while (result := evaluate_candidate(workspace, candidate_id)).verdict == "undecided":
            pass
        assert result.verdict == "accept"
        return candidate_id


def use(workspace: Workspace, backend: Backend, *roles: Role) -> None:
    """Let a backend made by a test answer for these roles."""
    for role in roles or ("target",):
        workspace._specs[role] = backend.name
        workspace._backends[role] = backend


def as_if_real() -> Backend:
    """Return a target that is scripted, but whose evidence counts as that of a real model."""
    return Scripted(right_when_taught, name="anthropic:some-model")


def right_when_taught(call: Call) -> str:
    """Answer as the task wants when the skill holds the lessons."""
    assert isinstance(call.request, Rollout)
    judge = call.request.task.judge.model_dump()
    return str(judge["expected"]) if all(topic.lesson in call.request.files.text for topic in TOPICS) else "no"


def go_on_or_start(workspace: Workspace, skill: str, config: Config, *, allow_changed: bool = False) -> Run:
    """Return the run that a new one would go on with, or the new one."""
    new = new_run(workspace, skill, config)
    return furthest(workspace, new, allow_changed=allow_changed) or start_run(workspace, skill, config)
