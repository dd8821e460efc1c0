"""Outcomes: what a program reads of a run: whether it went to its end, what it left out, what it cost, and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from workshop import Place

import skillopt_mcp
from skillopt_mcp import (
    Call,
    CapReached,
    Caps,
    Config,
    NewTask,
    Progress,
    Reply,
    Rolled,
    Stopped,
    Trained,
    Usage,
    train,
)
from skillopt_mcp.cli.main import main
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Split, Task
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.workspace.costs import Accounted

CONFIG = Config(epochs=1, batch=10, sessions=0, slow_update=False, meta_skill=False, seed=3)
LESSON = "Greet in Latin."
PATCH = json.dumps({"reasoning": "r", "edits": [{"op": "append", "content": LESSON}]})


class Fixed:
    """An optimizer that always says the same, at a price."""

    name = fingerprint = "fixed"
    deferred = False

    async def complete(self, call: Call) -> Reply:
        return Reply(PATCH, usage=Usage(10, 20, 0.5))


class Greeting:
    """An environment that attempts its tasks itself, at a price that no sum of floats hits; more tasks can be given."""

    name, version, task_types = "greeting", "1", ("greeting",)

    def __init__(self, *more: tuple[Split, str, str]) -> None:
        self.more = more

    def tasks(self, split: Split) -> list[NewTask]:
        judge = parse_judge({"kind": "environment", "name": self.name})
        more = [(name, prompt) for place, name, prompt in self.more if place == split]
        given = [*((f"{split}-{n}", f"greet guest {n} of {split}") for n in range(8)), *more]
        return [NewTask(prompt, judge, name) for name, prompt in given]

    def rollout(self, task: Task, files: SkillFiles, draw: str) -> Rolled:
        taught = LESSON in files.text
        return Rolled("salve" if taught else "hello", taught, 1.0 if taught else 0.5, usage=Usage(1, 2, 0.1))


@pytest.fixture
def store(place: Place) -> Path:
    return place.store_path.with_name("outcomes.db")


def trained(place: Place, store: Path, environment: Greeting | None = None, **how: Any) -> Trained:
    return train(place.skill, environment or Greeting(), config=CONFIG, optimizer=Fixed(), store=store, **how)


def read(folder: Path, name: str) -> dict[str, Any]:
    value = json.loads((folder / name).read_text())
    assert isinstance(value, dict)
    return value


def test_what_a_run_cost_is_listed_by_role_and_stage_wherever_a_program_reads(
    place: Place, store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = place.folder / "out"
    found = trained(place, store, out=out)
    [test_id] = {row.test for row in found.usage.stages} - {""}
    assert [(row.role, row.stage, row.test) for row in found.usage.stages] == [
        ("optimizer", "reflect", ""), ("target", "rollout", ""), ("target", "rollout", test_id),
    ]  # fmt: skip
    reflected, rolled, tested = found.usage.stages
    assert (reflected.n_calls, reflected.tokens_in, reflected.tokens_out, reflected.usd) == (1, 10, 20, 0.5)
    assert (rolled.n_calls, rolled.tokens_out, rolled.usd_known) == (24, 48, pytest.approx(2.4))
    assert found.test
    runs = found.test.runs
    assert (tested.n_calls, found.n_calls) == (runs.base + runs.candidate, reflected.n_calls + rolled.n_calls)
    assert found.usage.n_sent == found.usage.n_answered == found.n_calls
    assert found.usage.seconds >= 0.0
    assert all(row.seconds >= 0.0 for row in found.usage.stages)
    reported = {name: getattr(found.usage, name) for name in Accounted.model_fields}
    reported |= {"used": [row.model_dump() for row in found.usage.stages], "n_tasks": {"train": 8, "val": 8, "test": 8}}
    assert main(["--store", str(store), "show", found.run_id, "--json"]) == 0
    for summary in (read(out, "summary.json"), json.loads(capfd.readouterr().out)["run"]):
        assert {name: summary[name] for name in reported} == reported


def test_a_run_that_a_callback_ends_by_an_error_of_its_own_is_there_as_files(place: Place, store: Path) -> None:
    out = place.folder / "out"

    def fail(_: Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trained(place, store, out=out, callbacks={"step": fail})
    assert len(json.loads((out / "history.json").read_text())) == 1
    found = trained(place, store, out=out)
    assert read(out, "summary.json")["run_id"] == read(out, "run.json")["id"] == found.run_id


def test_what_stops_a_run_and_what_shows_of_it_carries_its_id(place: Place, store: Path) -> None:
    heard: list[Progress] = []
    with pytest.raises(CapReached) as stopped:
        trained(place, store, caps=Caps(calls=10))
    found = trained(place, store, caps=Caps(calls=1000), callbacks={"step": heard.append, "promotion": heard.append})
    assert stopped.value.run_id == found.run_id
    assert {each.run_id for each in heard} == {found.run_id}
    assert Stopped("no run").run_id is None


def test_a_callback_hears_of_the_promotion_test_whether_it_accepted_and_no_score(place: Place, store: Path) -> None:
    heard: list[Progress] = []
    config = CONFIG.model_copy(update={"metric": "soft"})
    callbacks = {"promotion": heard.append}
    found = train(place.skill, Greeting(), config=config, optimizer=Fixed(), store=store, callbacks=callbacks)  # type: ignore[arg-type]
    assert found.accepted
    assert (heard[-1].current, heard[-1].best, heard[-1].note) == (None, None, "accepted")


def test_an_outcome_shows_its_config_and_whether_an_earlier_run_will_do(place: Place, store: Path) -> None:
    first, again = trained(place, store, reuse=True), trained(place, store, reuse=True)
    assert (first.reused, again.reused) == (False, True)
    assert again == first.model_copy(update={"reused": True})
    assert (first.config, first.config.seed) == (CONFIG, 3)
    assert Trained.model_validate_json(first.model_dump_json()) == first


def test_a_config_that_was_copied_unchecked_is_checked_before_anything_is_sent(place: Place, store: Path) -> None:
    with pytest.warns(DeprecationWarning, match="copy"):
        config = CONFIG.copy(update={"sed": 0})
    with pytest.raises(skillopt_mcp.BadInput, match='unknown setting "sed": did you mean "seed"'):
        train(place.skill, Greeting(), config=config, optimizer=Fixed(), store=store)
