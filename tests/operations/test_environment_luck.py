"""An environment that seeds its chance by the draw that it is given has luck of its own for every task."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import defaultdict
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from workshop import Place

from skillopt_mcp import Call, Config, NewTask, Reply, Rolled, train
from skillopt_mcp.backends.environment import Rolling
from skillopt_mcp.core.calls import Rollout
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Split, Task
from skillopt_mcp.tasks.environments.skillopt_adapter import SkillOptEnvironment
from skillopt_mcp.tasks.judges.judging import parse_judge

CONFIG = Config(epochs=1, batch=20, sessions=0, slow_update=False, meta_skill=False)
PATCH = json.dumps({"reasoning": "r", "edits": [{"op": "append", "content": "- Be lucky."}]})


class Fixed:
    """An optimizer that always says the same."""

    name = fingerprint = "fixed"
    deferred = False

    async def complete(self, call: Call) -> Reply:
        return Reply(PATCH)


class Coin:
    """Each attempt passes with chance 0.5, whatever the skill says."""

    name, version, task_types = "coin", "1", ("toss",)

    def __init__(self) -> None:
        self.drawn: dict[str, set[str]] = defaultdict(set)

    def tasks(self, split: Split) -> list[NewTask]:
        judge = parse_judge({"kind": "environment", "name": self.name})
        return [NewTask(f"toss {n} of {split}", judge, f"{split}-{n}") for n in range(40)]

    def rollout(self, task: Task, files: SkillFiles, draw: str) -> Rolled:
        self.drawn[draw].add(task.name)
        passed = random.Random(draw).random() < 0.5
        return Rolled("heads" if passed else "tails", passed, float(passed))


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_the_tasks_of_a_wave_have_luck_of_their_own(place: Place, seed: int) -> None:
    coin, store = Coin(), place.store_path.with_name("luck.db")
    config = CONFIG.model_copy(update={"seed": seed})
    found = train(place.skill, coin, config=config, optimizer=Fixed(), store=store)
    assert found.baseline is not None
    assert 0.2 < found.baseline < 0.8
    assert all(0.2 < step.train_hard < 0.8 for step in found.steps)
    assert {len(tasks) for tasks in coin.drawn.values()} == {1}
    again = Coin()
    train(place.skill, again, config=config, optimizer=Fixed(), store=store.with_name("again.db"))
    assert again.drawn == coin.drawn, "the same run in a fresh store has the same luck"


@dataclass
class BatchSpec:
    phase: str
    split: str
    seed: int
    batch_size: int
    payload: list[dict[str, object]]


class Loader:
    def get_split_items(self, split: str) -> list[dict[str, object]]:
        return [{"id": f"{split}-{n}", "question": f"{n} of {split}?"} for n in range(3)]


class Seeded:
    """An adapter of SkillOpt with a data loader, whose answers are the seeds that it is given."""

    def setup(self, cfg: dict[str, object]) -> None:
        pass

    def get_dataloader(self) -> object:
        return Loader()

    def get_task_types(self) -> list[str]:
        return ["toss"]

    def build_env_from_batch(self, batch: BatchSpec, **kwargs: object) -> object:
        return batch

    def rollout(self, env_manager: BatchSpec, skill_content: str, out_dir: str, **kwargs: object) -> object:
        return [{"id": env_manager.payload[0]["id"], "hard": 0, "soft": 0.0, "predicted_answer": str(env_manager.seed)}]


def test_an_adapter_is_given_a_seed_for_each_task_of_a_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("skillopt.datasets.base")
    module.BatchSpec = BatchSpec
    monkeypatch.setitem(sys.modules, "skillopt", ModuleType("skillopt"))
    monkeypatch.setitem(sys.modules, "skillopt.datasets", ModuleType("skillopt.datasets"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    environment = SkillOptEnvironment(Seeded(), "seeded")  # type: ignore[arg-type]
    rolling = Rolling(environment)

    def seeds(draw: str, skill: SkillFiles) -> list[str]:
        rows = [
            Task(n, 1, new.name or "", new.prompt, new.judge, "val", new.digest)
            for n, new in enumerate(environment.tasks("val"))
        ]
        calls = [Call("target", "rollout", Rollout(skill, row), draw) for row in rows]
        return [asyncio.run(rolling.complete(call)).text for call in calls]

    files = SkillFiles(())
    first = seeds("r-1/val", files)
    assert len(set(first)) == 3
    assert seeds("r-1/val", files) == first
    assert not set(first) & set(seeds("r-2/val", files))
