"""Outcomes: what a program reads of a run: whether it went to its end, what it left out, what it cost, and where."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import GenericAlias
from typing import Any, get_args, get_type_hints

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
from skillopt_mcp.costs import Accounted
from skillopt_mcp.judges.judging import parse_judge
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Split, Task

CONFIG = Config(epochs=1, batch=10, sessions=0, slow_update=False, meta_skill=False, max_pairs=60, seed=3)
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


def test_what_a_run_cost_is_told_by_role_and_stage_wherever_a_program_reads(
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
    assert (tested.n_calls, found.n_calls) == (2 * found.n_pairs, reflected.n_calls + rolled.n_calls)
    assert found.usage.n_sent == found.usage.n_answered == found.n_calls
    assert found.usage.seconds >= 0.0
    assert all(row.seconds >= 0.0 for row in found.usage.stages)
    told = {name: getattr(found.usage, name) for name in Accounted.model_fields}
    told |= {"used": [row.model_dump() for row in found.usage.stages], "n_tasks": {"train": 8, "val": 8, "test": 8}}
    assert main(["--store", str(store), "show", found.run_id, "--json"]) == 0
    for summary in (read(out, "summary.json"), json.loads(capfd.readouterr().out)["run"]):
        assert {name: summary[name] for name in told} == told


def test_no_sum_of_prices_is_above_the_most_that_it_can_be(place: Place, store: Path) -> None:
    found = trained(place, store)
    n_rolled = sum(row.n_calls for row in found.usage.stages if row.role == "target" and not row.test)
    assert found.usage.usd_known == found.usd == round(0.5 + n_rolled * 0.1, 9)
    assert found.usage.usd_known <= found.usage.usd_at_most


def test_a_run_that_a_callback_ends_by_an_error_of_its_own_is_there_as_files(place: Place, store: Path) -> None:
    out = place.folder / "out"

    def fail(_: Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trained(place, store, out=out, callbacks={"step": fail})
    assert len(json.loads((out / "history.json").read_text())) == 1
    found = trained(place, store, out=out)
    assert read(out, "summary.json")["run_id"] == read(out, "run.json")["id"] == found.run_id


def test_what_stops_a_run_and_what_tells_of_it_carries_its_id(place: Place, store: Path) -> None:
    heard: list[Progress] = []
    with pytest.raises(CapReached) as stopped:
        trained(place, store, caps=Caps(calls=10))
    found = trained(place, store, caps=Caps(calls=1000), callbacks={"step": heard.append, "confirm": heard.append})
    assert stopped.value.run_id == found.run_id
    assert {each.run_id for each in heard} == {found.run_id}
    assert Stopped("no run").run_id is None


def test_the_scores_heard_of_the_promotion_test_are_those_of_both_versions_by_hard(place: Place, store: Path) -> None:
    heard: list[Progress] = []
    config = CONFIG.model_copy(update={"metric": "soft"})
    callbacks = {"confirm": heard.append}
    found = train(place.skill, Greeting(), config=config, optimizer=Fixed(), store=store, callbacks=callbacks)  # type: ignore[arg-type]
    assert (heard[-1].current, heard[-1].best, heard[-1].note) == (found.test_before, found.test_after, "accept")
    assert (found.metric, found.test_before) == ("soft", 0.0)


def test_an_outcome_tells_its_config_and_whether_an_earlier_run_will_do(place: Place, store: Path) -> None:
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


def _named(thing: object) -> set[type]:
    """Return the classes of the package that the annotations of a class and its methods, or of a function, name."""
    of = [thing] if inspect.isclass(thing) or inspect.isfunction(thing) else []
    members = vars(thing).items() if inspect.isclass(thing) else ()
    of += [member.fget if isinstance(member, property) else member for name, member in members if name[0] != "_"]
    annotations = [hint for each in of if inspect.isclass(each) or inspect.isfunction(each) for hint in _hints(each)]
    return {kind for hint in annotations for kind in _classes(hint)}


def _hints(thing: Any) -> list[object]:
    return list(get_type_hints(thing).values())


def _classes(hint: object) -> set[type]:
    if isinstance(hint, type) and not isinstance(hint, GenericAlias):
        return {hint} if hint.__module__.startswith("skillopt_mcp.") else set()
    return {kind for part in get_args(hint) for kind in _classes(part)}
