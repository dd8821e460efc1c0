"""Workshop: a place with a skill of the simulated world to work on, as the tests of operations share it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from zlib import crc32

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.runs import find_alike, new_run, start_run
from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.backends.world import TOPICS, make_tasks
from skillopt_mcp.core.calls import Call, Role, Rollout
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.tasks import NewTask, Split
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace

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

    def begin_as(self, name: str, make: Callable[[Place], None]) -> None:
        """Be as `make` left the place when it was called by this name for the first time; nothing is open yet."""
        saved = self.folder.with_name(name)
        if saved.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.copytree(saved, self.folder)
        else:
            make(self)
            shutil.copytree(self.folder, saved)

    def add_tasks(self, workspace: Workspace, n: int = 90) -> None:
        self._add(workspace, make_tasks(n, SEED))

    def add_held_out(self, workspace: Workspace, n: int, n_groups: int = 0) -> None:
        """Add tasks of split `test` alone, in so many groups where a number is given."""
        tasks = enumerate(make_tasks(n, SEED))
        self._add(
            workspace, [replace(task, split="test", group=f"g{i % n_groups}" if n_groups else "") for i, task in tasks]
        )

    def _add(self, workspace: Workspace, tasks: Sequence[NewTask]) -> None:
        workspace.store.tasks.add_tasks(workspace.place.skill(str(self.skill)).id, tasks, EVEN, login="a person")

    def propose(self, workspace: Workspace, content: str = LESSONS, **edit: str) -> str:
        """Return the id of a candidate; by default it teaches all that the tasks need."""
        proposed = propose_edits(
            workspace.store, workspace.place, str(self.skill), [{"op": "append", "content": content, **edit}]
        )
        assert proposed.candidate_id
        return proposed.candidate_id

    def learned(self, workspace: Workspace, content: str = LESSONS, rollouts: int = 2, **edit: str) -> str:
        """Return the id of a candidate that an optimizer made of rollouts of our own, and no recorded session."""
        row = {"op": "append", "content": content, **edit, "evidence": [1, 2]}
        reply = json.dumps({"reasoning": "as they failed", "edits": [row]})
        use(workspace, Scripted(lambda _: reply, name="scripted:author"), "optimizer")
        proposed = propose_from_evidence(workspace.store, workspace.models, workspace.place, str(self.skill), rollouts)
        assert proposed.candidate_id, proposed
        return proposed.candidate_id

    def covered(self, workspace: Workspace, content: str = LESSONS, **edit: str) -> str:
        """Return the id of an accepted candidate that a standing permission covers."""
        candidate_id = self.learned(workspace, content, **edit)
        assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted
        return candidate_id

    def accepted(self, workspace: Workspace, content: str = LESSONS, **edit: str) -> str:
        """Return the id of a candidate that the promotion test has accepted."""
        candidate_id = self.propose(workspace, content, **edit)
        assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted
        return candidate_id


def use(workspace: Workspace, backend: Backend, *roles: Role) -> None:
    """Let a backend made by a test answer for these roles."""
    for role in roles or ("target",):
        workspace._specs[role] = backend.name
        workspace.models._backends[role] = backend


def as_if_real() -> Backend:
    """Return a target that is scripted, but whose evidence counts as that of a real model."""
    return solving(is_taught)


def solving(solves: Callable[[Call], bool | Answer], name: str = "anthropic:some-model") -> Scripted:
    """Return a target that solves a task, or not, or answers something else, as `solves` says of each attempt."""

    def answer(call: Call) -> Answer:
        assert isinstance(call.request, Rollout)
        found = solves(call)
        if isinstance(found, bool):
            return str(call.request.task.judge.model_dump()["expected"]) if found else "no"
        return found

    return Scripted(answer, name=name)


def is_taught(call: Call) -> bool:
    """Return whether the skill of an attempt holds the lessons."""
    assert isinstance(call.request, Rollout)
    return all(topic.lesson in call.request.files.text for topic in TOPICS)


def by_new_lines(call: Call) -> bool:
    """Solve a third of the tasks more with each new line."""
    assert isinstance(call.request, Rollout)
    return crc32(call.request.task.prompt.encode()) % 3 < call.request.files.text.count("- New line ")


def right_when_taught(call: Call) -> str:
    """Answer as the task wants when the skill holds the lessons."""
    assert isinstance(call.request, Rollout)
    return str(call.request.task.judge.model_dump()["expected"]) if is_taught(call) else "no"


def go_on_or_start(workspace: Workspace, skill: str, config: Config, *, allow_changed: bool = False) -> Run:
    """Return the run that a new one would go on with, or the new one."""
    new = new_run(workspace.store, workspace.models, workspace.place, skill, config)
    return find_alike(workspace.store, workspace.models, new, allow_changed=allow_changed) or start_run(
        workspace.store, workspace.models, workspace.place, skill, config
    )
