"""Demo: what the promotion test says of luck, of harm and of training, in a simulated world and a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean

from pydantic import BaseModel

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.promoting import promote_skill
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.actions.texts import candidate_of_files
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.backends.world import (
    TOPICS,
    Kind,
    World,
    make_skill,
    make_tasks,
    taught_by,
    topics_of,
)
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import TestReport, Verdict
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import Result, StepRow
from skillopt_mcp.core.skills import MAIN_FILE, SplitCounts
from skillopt_mcp.core.tasks import Split, Task
from skillopt_mcp.gates.promotion import Plan, SignTest, order_units, passes_for
from skillopt_mcp.gates.rounds import DEFAULT_MARGIN
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.progress import Notify, silent
from skillopt_mcp.training.promotion_test import Asked, held_out, stored_test
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.verdicts import unit_rows
from skillopt_mcp.workspace.workspace import Workspace

SKILL = "ledger-clerk"
STORE = "skillopt.db"
N_TASKS = 120
SHARES: dict[Split, float] = {"train": 1.0, "val": 1.0, "test": 1.0}
CONFIG = Config(epochs=3, batch=20, slow_update=False, meta_skill=False)
N_SAME = 100
N_RUNS = 3
NICE = next(topic.harmful for topic in TOPICS if topic.name == "rounding")
NO_WORSE = Asked(margin=DEFAULT_MARGIN, max_pairs=400)


@dataclass(frozen=True, slots=True)
class DemoPlace:
    """Where a demo lives, and what it simulates."""

    folder: Path
    world: Kind
    seed: int

    @property
    def backend(self) -> str:
        """Return the simulation that is target and optimizer."""
        return f"simulated:{self.world},seed={self.seed}"

    @property
    def store_path(self) -> Path:
        """Return the demo's own store."""
        return self.folder / STORE

    @property
    def skill_path(self) -> Path:
        """Return the skill's folder, inside the only skill root that the demo may write."""
        return self.folder / "skills" / SKILL


class Same(BaseModel):
    """How often a text was called better or worse than itself in `n` comparisons: by its means, and by the test."""

    n: int
    by_means: int
    by_test: int


class Harmful(BaseModel):
    """What a harmful line did: the verdict, and the tasks that are mostly solved without it and mostly fail with it."""

    line: str
    verdict: Verdict
    worse: list[str]


class Demonstrated(Result):
    """The outcome of a demo, which is a simulation. `verdict`, `test` and `n_calls` are those of the training."""

    simulation: str
    same: Same
    harmful: Harmful
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


def prepare_demo(folder: Path, world: Kind, seed: int) -> DemoPlace:
    """Return the place of a demo with its skill written.

    Raises BackendError for a world or seed that cannot be simulated, BadInput for a folder that is in use.
    """
    place = DemoPlace(Path(os.path.realpath(folder)), world, seed)
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


def run_demo(home: DemoPlace, notify: Notify = silent) -> Demonstrated:
    """What the test says of a skill against itself, of a harmful line, and of the skill once it is trained.

    What is better is promoted; the test is that of every skill.
    """
    backend = home.backend
    with Workspace(home.store_path, target=backend, optimizer=backend, project=home.folder) as workspace:
        workspace.store.permissions.add_root(str(home.skill_path.parent))
        skill = workspace.place.skill(str(home.skill_path))
        workspace.store.tasks.add_tasks(skill.id, make_tasks(N_TASKS, home.seed), SHARES)
        held = held_out(workspace.store.tasks.list_tasks(skill.id))
        same, harmful = _compare_with_itself(home, held), _test_nice_line(workspace, home, notify)
        run = start_run(workspace.store, workspace.models, workspace.place, skill.path, CONFIG)
        outcome = replay(workspace.store, workspace.models, workspace.place, run, notify)
        promoted, diff = False, ""
        if outcome.candidate_id:
            change = promote_skill(workspace.store, workspace.place, outcome.candidate_id, Consent.DEMO)
            promoted, diff = change.status == "promoted", change.diff
        splits = SplitCounts(**workspace.store.tasks.count_tasks(skill.id))
    return Demonstrated(
        simulation=backend,
        same=same,
        harmful=harmful,
        verdict=outcome.verdict,
        reason=outcome.reason,
        test=outcome.test,
        promoted=promoted,
        skill_path=str(home.skill_path / MAIN_FILE),
        store_path=str(home.store_path),
        run_id=run.id,
        candidate_id=outcome.candidate_id,
        splits=splits,
        val_before=outcome.baseline or 0.0,
        steps=outcome.steps,
        n_calls=outcome.n_calls + outcome.n_test_calls,
        diff=diff,
        next_step=NextStep(action="list_skills", why="your own skills, each with its next step"),
    )


def _compare_with_itself(place: DemoPlace, held: Sequence[Task]) -> Same:
    """What means and the test say of the same draws, of one text in both arms."""
    world, taught = World(place.world, place.seed), taught_by(make_skill(place.seed).text)
    rates = [world.pass_rate(taught, topics_of(task.prompt)) for task in held]
    random, same = Random(f"same {place.seed}"), Same(n=N_SAME, by_means=0, by_test=0)
    for _ in range(N_SAME):
        salt = f"{random.getrandbits(128):032x}"
        units = tuple(order_units([task.digest for task in held], salt))
        test = SignTest(Plan(salt=salt, units=units, passes=passes_for([()] * len(units))))
        passed = [[[random.random() < rate for _ in range(test.plan.passes)] for _ in range(2)] for rate in rates]
        while test.verdict is None:
            number, unit = divmod(test.n_pairs, len(units))
            test.take(*(arm[number] for arm in passed[unit]))
        same.by_means += sum(sum(one[:N_RUNS]) - sum(other[:N_RUNS]) for one, other in passed) != 0
        same.by_test += test.verdict == "better"
    return same


def _test_nice_line(workspace: Workspace, home: DemoPlace, notify: Notify) -> Harmful:
    """What a person's edit does that adds a harmful line to a version of the skill that teaches everything."""
    store, models, place = workspace.store, workspace.models, workspace.place
    text = make_skill(home.seed).text
    rules = text + "".join(f"- {topic.lesson}\n" for topic in TOPICS if topic.lesson not in text)
    old, new = home.folder / "all-rules.md", home.folder / "nice-line.md"
    old.write_text(rules)
    new.write_text(f"{rules}- {NICE}\n")
    candidate = candidate_of_files(store, place, str(home.skill_path), new, old)
    result = evaluate_candidate(store, models, place, candidate.id, Wait(notify=notify), NO_WORSE).test
    row = store.tests.find(result.test_id) if result else None
    rows = unit_rows(store, stored_test(store, row)) if row else []
    broken = [row.task for row in rows if fmean(row.before) > 0.5 > fmean(row.after)]
    return Harmful(line=NICE, verdict=(result and result.verdict) or "cant_tell", worse=broken)
