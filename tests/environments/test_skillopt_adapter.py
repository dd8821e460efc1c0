"""Skillopt adapter: what is made of an adapter's items, rows and faults; `tests/peers` has the real package."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from skillopt_mcp.cli.preparing import prepare
from skillopt_mcp.core.calls import Message
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.core.tasks import SPLITS, Task
from skillopt_mcp.tasks.environments.base import RolloutFailed
from skillopt_mcp.tasks.environments.registry import open_environment
from skillopt_mcp.tasks.environments.skillopt_adapter import SkillOptEnvironment, open_skillopt, parse_result

SKILL = SkillFiles((SkillFile("SKILL.md", b"say the answer"),))
ITEM = {"id": "q1", "question": "Where is it?", "answers": ["Zurich", "ZRH"], "task_type": "geo"}


class ListAdapter:
    """An adapter without a data loader, whose environments are lists of items."""

    rows: ClassVar[list[object]] = []

    def __init__(self, size: int = 2, workers: int = 4) -> None:
        self.size, self.workers = size, workers
        self.config: dict[str, object] = {}

    def setup(self, cfg: dict[str, object]) -> None:
        self.config = cfg

    def get_dataloader(self) -> object:
        return None

    def build_env_from_batch(self, batch: object, **kwargs: object) -> object:
        raise AssertionError("there is no data loader")

    def build_train_env(self, batch_size: int, seed: int, **kwargs: object) -> object:
        return [{"id": f"{seed}-{n}", "question": "Same?", "secret": f"s{n}s"} for n in range(batch_size)]

    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs: object) -> object:
        return [{"id": f"{split}-{n}", "question": f"{split} {n}?", "secret": f"s{n}s"} for n in range(env_num)]

    def rollout(self, env_manager: object, skill_content: str, out_dir: str, **kwargs: object) -> object:
        assert isinstance(env_manager, list)
        (item,) = env_manager
        Path(out_dir, "results.jsonl").write_text("x")
        return [
            {"id": item["id"], "hard": int("answer" in skill_content), "soft": 0.5, "predicted_answer": item["secret"]}
        ]

    def get_task_types(self) -> list[str]:
        return ["guess"]


COUNTS = {"n_train": 3, "n_val": 2, "n_test": 2}


def stored(environment: SkillOptEnvironment, split: str, n: int) -> Task:
    """Return a task of the environment as the store gives it back."""
    new = environment.tasks(split)[n]  # type: ignore[arg-type]
    return Task(n, 1, new.name or "", new.prompt, new.judge, split, new.digest, new.tags)  # type: ignore[arg-type]


def test_an_adapter_without_data_gives_as_many_tasks_as_are_asked_for() -> None:
    environment = SkillOptEnvironment(ListAdapter(), "mine", COUNTS)
    tasks = {split: environment.tasks(split) for split in SPLITS}
    assert {split: len(each) for split, each in tasks.items()} == {"train": 3, "val": 2, "test": 2}
    everything = [task for each in tasks.values() for task in each]
    assert len({task.digest for task in everything}) == len({task.name for task in everything}) == 7
    assert all(task.tags == ("guess",) and task.judge.kind == "environment" for task in everything)
    assert not any("s0s" in task.prompt for task in everything)
    assert environment.tasks("val") == SkillOptEnvironment(ListAdapter(), "mine", COUNTS).tasks("val")
    with pytest.raises(BadInput, match="has no data set: set n_train=N, the number of train tasks to build"):
        SkillOptEnvironment(ListAdapter(), "mine").tasks("train")


def test_a_rollout_is_the_adapters_own_with_the_whole_skill() -> None:
    environment = SkillOptEnvironment(ListAdapter(), "mine", COUNTS)
    found = environment.rollout(stored(environment, "val", 1), SKILL, "run/1")
    assert (found.answer, found.hard, found.soft) == ("s1s", True, 0.5)
    assert environment.rollout(stored(environment, "val", 0), SkillFiles(()), "run/1").hard is False
    gone = Task(1, 1, "val/gone", "p", stored(environment, "val", 0).judge, "val", "d")
    with pytest.raises(RolloutFailed, match='has no task "val/gone": its data changed'):
        environment.rollout(gone, SKILL, "run/1")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([], "gave 0 results"),
        ([{"id": "q2", "hard": 1, "soft": 1.0}], "gave the result of task 'q2' instead of 'q1'"),
        ([{"id": "q1", "hard": 1}], "scored hard 1 and soft None"),
        ([{"id": "q1", "hard": 1, "soft": float("nan")}], "soft nan"),
        ([{"id": "q1", "hard": 0, "soft": 0.0, "agent_ok": False, "fail_reason": "error: 429"}], "error: 429"),
        ([{"id": "q1", "hard": 0, "soft": 0.0, "phase": "timeout"}], "the agent gave no answer"),
    ],
)
def test_a_row_without_a_score_is_no_zero(tmp_path: Path, row: object, message: str) -> None:
    with pytest.raises(RolloutFailed) as failed:
        parse_result(row, "q1", tmp_path)
    assert message in str(failed.value)


def test_the_conversation_is_what_the_adapter_wrote_of_it(tmp_path: Path) -> None:
    place = tmp_path / "predictions" / "q1"
    place.mkdir(parents=True)
    conversation = [
        {"type": "message", "turn": 1, "content": "It is Zurich."},
        {"role": "system", "content": "[EVALUATION] gold: ['Zurich', 'ZRH']"},
        {"role": "user", "content": "Where is it?"},
        "noise", {"content": 3},
    ]  # fmt: skip
    (place / "conversation.json").write_text(json.dumps(conversation))
    found = parse_result([{"id": "q1", "hard": 1, "soft": 1}], "q1", tmp_path)
    assert found.messages == (
        Message("assistant", "It is Zurich."), Message("system", "[EVALUATION] gold: ['Zurich', 'ZRH']"),
        Message("user", "Where is it?"),
    )  # fmt: skip
    (place / "conversation.json").write_text("[" * 1_500)
    assert parse_result([{"id": "q1", "hard": 1, "soft": 1}], "q1", tmp_path).messages == ()


@pytest.fixture
def adapters(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module that holds an adapter."""
    module = ModuleType("made_up_adapters")
    module.ListAdapter = ListAdapter  # type: ignore[attr-defined]
    module.number = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


def test_an_adapter_is_named_by_its_class_and_its_settings(adapters: str) -> None:
    spec = f"{adapters}:ListAdapter,size=5,n_train=1,n_val=1,n_test=1,seed=3"
    environment = open_skillopt(spec)
    assert environment.name == f"skillopt:{spec}"
    assert environment.task_types == ["guess"]
    assert environment.tasks("train")[0].name == "train/3-0"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{}:Gone", "cannot be imported"),
        ("{}:number", "is not a class"),
        ("{}:ListAdapter,sise=3", 'unknown setting "sise": did you mean "size"?'),
        ("{}:ListAdapter,size", "write each setting once"),
    ],
)
def test_what_is_not_an_adapter_is_named(adapters: str, spec: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        open_skillopt(spec.format(adapters))
    assert message in str(error.value)


def test_a_name_of_skillopts_own_opens_its_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "searchqa.yaml"
    settings.write_text(f"env:\n  name: searchqa\n  split_dir: {tmp_path / 'splits'}\n")
    flags = {"optimizer": "simulated:honest"}
    with pytest.raises(BadInput, match="cannot be imported"):
        open_environment("searchqa:limit=3")
    assert any("no environment 'searchqa'" in note for note in prepare(str(settings), [], flags, "mine").notes)

    package = tmp_path / "library" / "skillopt" / "envs" / "searchqa"
    package.mkdir(parents=True)
    for folder in (package.parent.parent, package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "adapter.py").write_text(
        "class SearchQAAdapter:\n"
        "    def __init__(self, split_mode='', split_dir='', split_ratio='', split_seed=0): ...\n"
        "    setup = rollout = get_task_types = lambda self, *given: []\n"
        "    get_dataloader = lambda self: self\n"
        "    get_split_items = lambda self, split: [{'id': split, 'question': 'q?'}]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "library"))
    named = open_environment(f"searchqa:split_dir={tmp_path}").name
    assert named == f"skillopt:skillopt.envs.searchqa.adapter:SearchQAAdapter,split_dir={tmp_path}"
    ready = prepare(str(settings), [], flags, "mine")
    assert ready.environment
    assert (
        f"split_mode=split_dir,split_ratio=2:1:7,split_seed=42,split_dir={tmp_path / 'splits'}"
        in ready.environment.name
    )
    assert not any("stored tasks" in note for note in ready.notes)
