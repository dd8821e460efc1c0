"""Python API: `train` and `evaluate` with lists, functions and backends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any, get_args

import pytest
from workshop import SIMULATION, Place

import skillopt_mcp
from skillopt_mcp import BadInput, Config, NewTask, Rolled, SkillOptError, Trained, train
from skillopt_mcp.api import StageName
from skillopt_mcp.core.evidence import Solved
from skillopt_mcp.core.skills import SkillFiles, SplitCounts
from skillopt_mcp.core.tasks import Split, Task
from skillopt_mcp.tasks.judges.judging import parse_judge

CONFIG = Config(epochs=1, batch=10, sessions=0, slow_update=False, meta_skill=False)
LESSON = "Greet in Latin."
GUIDE = Path(__file__).parents[2] / "docs/python.md"
WORDS = [
    f"{colour} {thing}"
    for colour in ("amber", "birch", "cedar", "delta", "ember", "fjord")
    for thing in ("kayak", "ocean", "tulip", "xenon")
]
ROWS = [
    {"prompt": word, "judge": {"kind": "exact", "expected": "salve"}, "split": ("train", "val", "test")[n % 3]}
    for n, word in enumerate(WORDS)
]


def greet(skill_text: str, prompt: str) -> str:
    return "salve" if LESSON in skill_text else "hello"


async def greet_later(skill_text: str, prompt: str) -> str:
    await asyncio.sleep(0)
    return greet(skill_text, prompt)


def advise(prompt: str) -> str:
    return json.dumps({"edits": [{"op": "append", "content": LESSON}]})


def is_latin(task: Task, answer: str) -> tuple[bool, str]:
    return answer == "salve", f"{task.prompt} was greeted with {answer}"


@pytest.fixture
def store(place: Place) -> Path:
    return place.store_path.with_name("api.db")


def trained(place: Place, store: Path, tasks: Any = ROWS, **how: Any) -> Trained:
    given: dict[str, Any] = {"target": greet, "optimizer": advise, "config": CONFIG, **how}
    return train(place.skill, tasks, store=store, **given)


def test_a_script_of_replies_names_the_stages_that_it_lacks_before_anything_is_asked(
    place: Place, store: Path, tmp_path: Path
) -> None:
    script, asked = tmp_path / "script.json", list[str]()
    script.write_text(json.dumps({"reflect": ['{"edits": []}']}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="has no reply for merge, rank: a run that comes to one of these stops"):
            trained(place, store, optimizer=f"scripted:{script}", target=lambda *_: asked.append("now") or "hello")
    assert not asked
    with pytest.warns(UserWarning, match="has no reply for merge"):
        trained(place, store, optimizer=f"scripted:{script}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(place, store, optimizer=f"scripted:{script}", reuse=True)


def test_the_first_example_of_the_page_runs_and_asks_no_test_question_in_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)[0], names)
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert names["result"].verdict == "better"
    assert len({task["prompt"] for task in names["tasks"]}) == len(names["tasks"])


@pytest.mark.parametrize("target", [greet, greet_later])
def test_lists_and_functions_are_enough(place: Place, store: Path, target: object) -> None:
    before = place.main.read_bytes()
    found = trained(place, store, target=target)
    assert found.verdict == "better"
    assert found.test
    assert found.test.solved == Solved(before=0.0, after=1.0)
    assert LESSON in found.best_skill
    assert place.main.read_bytes() == before
    assert found.n_tasks == SplitCounts(train=8, val=8, test=8)
    assert found.usage.n_sent == sum(row.n_calls for row in found.usage.stages if not row.test)
    assert len(str(found).splitlines()) == 5
    assert (found.skill_path, found.store_path) == (str(place.skill), str(store))


@pytest.mark.parametrize("kind", ["jsonl", "rows with a judge function"])
def test_tasks_come_from_a_file_and_a_function_may_judge_them(
    place: Place, store: Path, tmp_path: Path, kind: str
) -> None:
    if kind == "jsonl":
        path = tmp_path / "tasks.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        found = trained(place, store, str(path))
    else:
        found = trained(place, store, [{"prompt": r["prompt"], "split": r["split"]} for r in ROWS], judge=is_latin)
    assert found.verdict == "better"


def test_a_run_takes_the_given_tasks_alone(place: Place, store: Path) -> None:
    trained(place, store)
    more = [{**row, "prompt": f"{row['prompt']} and more of it {n * n}"} for n, row in enumerate(ROWS)]
    assert trained(place, store, more).n_tasks.train == 8
    assert trained(place, store, None).n_tasks.train == 16


class Greeting:
    """An environment that attempts its tasks itself."""

    name, version, task_types = "greeting", "1", ("greeting",)

    def tasks(self, split: Split) -> list[NewTask]:
        judge = parse_judge({"kind": "environment", "name": self.name})
        return [NewTask(f"greet guest {n} of {split}", judge, f"{split}-{n}") for n in range(8)]

    def rollout(self, task: Task, files: SkillFiles, draw: str) -> Rolled:
        taught = LESSON in files.text
        return Rolled("salve" if taught else "hello", taught, float(taught))


def test_ctrl_c_within_a_running_loop_stops_the_run_and_the_same_call_continues_it(place: Place, store: Path) -> None:
    n = 0

    def target(skill_text: str, prompt: str) -> str:
        nonlocal n
        n += 1
        if n == 5:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.02)
        return greet(skill_text, prompt)

    async def cell() -> Trained:
        return trained(place, store, target=target, concurrency=1)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    stopped_at = n
    assert stopped_at < 20
    found = asyncio.run(cell())
    assert found.status == "finished"
    assert n <= sum(row.n_calls for row in found.usage.stages if row.role == "target") + 1


def test_a_path_is_a_folder_though_it_has_no_slash(place: Place, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.root)
    found = train(Path("ledger-clerk"), ROWS, config=CONFIG, target=greet, optimizer=advise, store=store)
    assert found.skill_path == str(place.skill)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"callbacks": {"steps": print}}, "did you mean 'step'"),
        ({"callbacks": {"step": greet_later}}, "plain function"),
        ({"config": 5}, "config must be"),
        ({"config": {"nonsense": 1}}, "nonsense"),
        ({"caps": 5}, "caps must be"),
        ({"target": object()}, "target"),
        ({"target": "nonsense:x"}, "nonsense"),
        ({"tasks": [{"prompt": "x"}]}, "row 0"),
        ({"tasks": "nowhere.jsonl"}, "nowhere.jsonl"),
        ({"tasks": Greeting(), "target": SIMULATION}, "leave out the target"),
        ({"judge": is_latin, "target": None}, "needs a target"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_asked(
    place: Place, store: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(SkillOptError, match=re.escape(message)):
        trained(place, store, **arguments)


def test_a_score_that_is_none_is_refused(place: Place, store: Path) -> None:
    rows = [{"prompt": row["prompt"], "split": row["split"]} for row in ROWS]
    with pytest.raises(BadInput, match="from 0 to 1, got 'good'"):
        trained(place, store, rows, judge=lambda task, answer: "good")


def test_public_names_are_few_documented_and_load_nothing_before_they_are_used() -> None:
    names = set(skillopt_mcp.__all__) - {"__version__"}
    assert len(names) <= 20
    assert dir(skillopt_mcp) == sorted(skillopt_mcp.__all__)
    assert all(getattr(skillopt_mcp, name).__doc__ for name in names)
    assert all(f'"{stage}"' in str(train.__doc__) for stage in get_args(StageName))
    with pytest.raises(AttributeError):
        _ = skillopt_mcp.trian  # type: ignore[attr-defined]
    code = "import sys, skillopt_mcp; print([m for m in sys.modules if m.startswith('skillopt_mcp.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
