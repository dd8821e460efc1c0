"""Demo: the whole way from a weak skill to a promoted one, in a simulated world and a folder of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.backends.world import PLACEBOS, make_skill, make_tasks, right_answer
from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.judging import score
from skillopt_mcp.judges.kinds.numeric import Numeric
from skillopt_mcp.judges.kinds.text import Exact
from skillopt_mcp.promotions.consent import Consent
from skillopt_mcp.promotions.promoting import promote_skill
from skillopt_mcp.records.evidence import TestReport
from skillopt_mcp.records.judging import Score
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Result, SplitCounts, StepRow
from skillopt_mcp.records.skills import MAIN_FILE
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.runs import replay, start_run
from skillopt_mcp.skill_folders import handle
from skillopt_mcp.splits import DEFAULT_SHARES
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.progress import Notify, silent
from skillopt_mcp.workspace import Workspace

SKILL = "ledger-clerk"
STORE = "skillopt.db"
N_TASKS = 120
CONFIG = Config(batch=20, slow_update=False, meta_skill=False)


@dataclass(frozen=True, slots=True)
class DemoPlace:
    """Where a demo lives, and what it simulates."""

    folder: Path
    backend: str
    seed: int

    @property
    def store_path(self) -> Path:
        """Return the demo's own store."""
        return self.folder / STORE

    @property
    def skill_path(self) -> Path:
        """Return the skill's folder, inside the only skill root that the demo may write."""
        return self.folder / "skills" / SKILL


class Demonstrated(Result):
    """The outcome of a demo, which is a simulation."""

    simulation: str
    verdict: str | None
    reason: str
    test: TestReport | None
    promoted: bool
    skill_path: str
    store_path: str
    run_id: str
    candidate_id: str | None
    splits: SplitCounts
    val_before: float
    steps: list[StepRow]
    n_calls: int
    diff: str

    @property
    def fillers(self) -> list[str]:
        """Return the lines that the training added and that say nothing: the simulated optimizer writes such, too."""
        added = (line[1:].removeprefix("- ") for line in self.diff.splitlines() if line.startswith("+"))
        return [line for line in added if line in PLACEBOS]


def prepare_demo(folder: Path, world: str, seed: int) -> DemoPlace:
    """Return the place of a demo with its skill written.

    Raises BackendError for a world or seed that cannot be simulated, BadInput for a folder that is in use.
    """
    place = DemoPlace(Path(os.path.realpath(folder)), f"simulated:{world},seed={seed}", seed)
    open_backend(place.backend)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise BadInput(f"'{folder}' is in use: name an empty folder, or one that does not exist yet")
        place.skill_path.mkdir(parents=True)
        for file in make_skill(seed).files:
            (place.skill_path / file.path).write_bytes(file.content)
    except OSError as error:
        raise BadInput(f"'{folder}' cannot be written ({error.strerror}): name another with --dir") from error
    return place


def run_demo(place: DemoPlace, notify: Notify = silent) -> Demonstrated:
    """Return the outcome of training the place's skill, testing its best version, and promoting it if that is accepted.

    An undecided test continues up to MAX_PAIRS pairs; the gate is that of every skill.
    """
    backend = place.backend
    with Workspace(place.store_path, target=backend, optimizer=backend, project=place.folder) as workspace:
        workspace.store.permissions.add_root(str(place.skill_path.parent))
        skill = workspace.skill(str(place.skill_path))
        workspace.store.tasks.add_tasks(skill.id, make_tasks(N_TASKS, place.seed), DEFAULT_SHARES)
        run = start_run(workspace, skill.path, CONFIG)
        replayed = replay(workspace, run, notify)
        outcome = replayed
        promoted, diff = False, ""
        if outcome.candidate_id:
            change = promote_skill(workspace, outcome.candidate_id, Consent.DEMO)
            promoted, diff = change.status == "promoted", change.diff
        splits = SplitCounts(**workspace.store.tasks.count_tasks(skill.id))
    return Demonstrated(
        simulation=backend,
        verdict=outcome.verdict,
        reason=outcome.reason,
        test=outcome.test,
        promoted=promoted,
        skill_path=str(place.skill_path / MAIN_FILE),
        store_path=str(place.store_path),
        run_id=run.id,
        candidate_id=outcome.candidate_id,
        splits=splits,
        val_before=replayed.baseline or 0.0,
        steps=outcome.steps,
        n_calls=outcome.n_calls + outcome.n_test_calls,
        diff=diff,
        next_step=NextStep(action="inspect", arguments={"id": SKILL}),
    )


REAL = "claude-code:haiku"
_WORLD = re.compile(r"simulated:\w+,seed=(\d+)")

Found = TypeVar("Found", bound=Result)


def foreign_world(workspace: Workspace, tasks: Sequence[Task]) -> str | None:
    """Return the simulation that is the target, where it made none of the tasks: it has no right answer to them."""
    world = _WORLD.match(workspace.backend("target").fingerprint)
    return world[0] if world and not any(_is_own(task, int(world[1])) for task in tasks) else None


def advised(workspace: Workspace, skill_id: int, found: Found) -> Found:
    """Return a result of the target's; a simulation of other tasks has the next step to name a real one."""
    world = foreign_world(workspace, workspace.store.tasks.list_tasks(skill_id))
    if world is None:
        return found
    arguments: dict[str, JsonValue] = {
        "skill": handle(workspace.store, workspace.store.skills.get_skill(skill_id)),
        "target": REAL,
    }
    step = NextStep(action="replay", arguments=arguments, why=f"'{world}' can solve only the tasks of its own world")
    return found.model_copy(update={"next_step": step})


def _is_own(task: Task, seed: int) -> bool:
    """Return whether the simulation of this seed made a task: it alone has the right answer to it."""
    if not isinstance(task.judge, Exact | Numeric):
        return False
    outcome = score(task.judge, right_answer(seed, task.prompt))
    return isinstance(outcome, Score) and outcome.hard
