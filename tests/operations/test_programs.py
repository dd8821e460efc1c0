"""Programs: what a program may ask beside training, how it stops what it asked for, and what it is told."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import threading
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from workshop import LESSONS, SEED, SIMULATION, Place

import skillopt_mcp
from skillopt_mcp import (
    BadInput,
    Call,
    Caps,
    Config,
    NewTask,
    Progress,
    Reply,
    Rolled,
    SkillFiles,
    Split,
    Stopped,
    Task,
    Trained,
    Usage,
    calibrate,
    credit,
    evaluate,
    parse_judge,
    race,
    train,
)
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.environments import entries, registry
from skillopt_mcp.operations.runs.demo import prepare_demo, run_demo
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store.opening import Store

CONFIG = Config(epochs=1, batch=10, sessions=0, max_pairs=3, slow_update=False, meta_skill=False)
LESSON = "Greet in Latin."
PATCH = json.dumps({"reasoning": "r", "edits": [{"op": "append", "content": LESSON}]})
OPTIMIZER = Scripted(lambda _: PATCH, name="fixed")


class Mine:
    """A target of a program's own, right once it is taught; it may call somebody at a send, which then takes long."""

    name = fingerprint = "mine"
    deferred = False

    def __init__(self, at: int = 0, then: object = None) -> None:
        self.n, self._at, self._then = 0, at, then

    async def complete(self, call: Call) -> Reply:
        self.n += 1
        if self.n == self._at and callable(self._then):
            self._then()
        await asyncio.sleep(60 if self.n == self._at else 0.02 if 0 < self._at <= self.n else 0.001)
        assert isinstance(call.request, skillopt_mcp.Rollout)
        taught = LESSON in call.request.files.text
        return Reply("salve" if taught else "hello", usage=Usage(1, 1, 0.0))


class Guests:
    """Tasks for a target."""

    name, version, task_types = "guests", "1", ("greeting",)

    def tasks(self, split: Split) -> list[NewTask]:
        judge = parse_judge({"kind": "exact", "expected": "salve"})
        return [NewTask(f"greet guest {n} of {split}", judge, f"{split}-{n}") for n in range(8)]


class Greeting:
    """An environment that attempts its tasks itself."""

    name, version, task_types = "greeting", "1", ("greeting",)

    def tasks(self, split: Split) -> list[NewTask]:
        judge = parse_judge({"kind": "environment", "name": self.name})
        return [NewTask(f"greet guest {n} of {split}", judge, f"{split}-{n}") for n in range(8)]

    def rollout(self, task: Task, files: SkillFiles, draw: str) -> Rolled:
        taught = LESSON in files.text
        return Rolled("salve" if taught else "hello", taught, 1.0 if taught else 0.5)


class Ledgers:
    """The simulated world's tasks."""

    name, version, task_types = "ledgers", "1", ("ledger",)

    def tasks(self, split: Split) -> list[NewTask]:
        places = {"train": range(0, 20), "val": range(20, 40), "test": range(40, 80)}
        everything = make_tasks(80, SEED)
        return [everything[n] for n in places[split]]


@pytest.fixture
def store(place: Place) -> Path:
    return place.store_path.with_name("programs.db")


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def trained(place: Place, store: Path, target: Mine, stop: threading.Event | None = None) -> Trained:
    return train(place.skill, Guests(), CONFIG, target=target, optimizer=OPTIMIZER, store=store, n_slots=2, stop=stop)


def test_ctrl_c_under_asyncio_run_stops_the_training_and_the_same_call_goes_on(place: Place, store: Path) -> None:
    target, optimizer = Mine(5, interrupt), Scripted(lambda _: PATCH, name="fixed")

    async def main() -> Trained:
        return train(place.skill, Guests(), CONFIG, target=target, optimizer=optimizer, store=store, n_slots=2)

    with pytest.raises(KeyboardInterrupt) as stopped:
        asyncio.run(main())
    assert target.n < 16, "it stopped at once"
    cancelled = stopped.value.__context__
    assert isinstance(cancelled, asyncio.CancelledError)
    assert [note for note in cancelled.__notes__ if " under way: " in note]
    found = asyncio.run(main())
    assert found.status == "finished"
    n_sent = target.n + len(optimizer.calls)
    assert found.n_answered <= n_sent <= found.n_answered + 2, "only what was under way is sent again"


def test_ctrl_c_stops_a_training_in_a_task_beside_the_main_one(place: Place, store: Path) -> None:
    target = Mine(5, interrupt)

    async def cell() -> None:
        trained(place, store, target)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(cell())

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert target.n < 16, "it stopped at once"


def test_a_program_stops_a_training_in_a_thread_of_its_own(place: Place, store: Path) -> None:
    stop = threading.Event()
    target = Mine(5, stop.set)

    async def main() -> Trained:
        return await asyncio.to_thread(trained, place, store, target, stop)

    with pytest.raises(Stopped, match="interrupted: the same call goes on"):
        asyncio.run(main())
    n_stopped = target.n
    assert n_stopped < 16
    with pytest.raises(Stopped):
        asyncio.run(main())
    assert target.n == n_stopped, "what is to stop sends nothing"
    stop.clear()
    assert asyncio.run(main()).status == "finished"


def test_what_is_no_event_cannot_stop(place: Place, store: Path) -> None:
    with pytest.raises(BadInput, match=r"the stop is of type bool: give a threading\.Event"):
        trained(place, store, Mine(), stop=True)  # type: ignore[arg-type]


def test_a_candidate_is_tested_with_a_backend_of_ones_own_as_the_outcome_says(place: Place, store: Path) -> None:
    target, heard = Mine(), list[Progress]()
    found = trained(place, store, target)
    assert found.verdict == "undecided"
    assert found.candidate_id
    call = f"skillopt_mcp.evaluate('{found.candidate_id}', target=target, store='{store}')"
    assert found.next_step == f"The evidence does not decide yet; more pairs: {call}"
    again = evaluate(found.candidate_id, target=target, store=store, max_pairs=1, callback=heard.append)
    assert (again.verdict, again.pairs_done) == ("undecided", found.n_pairs + 1)
    assert f"Undecided: call {call} again to draw more pairs" in again.next_step
    assert {each.stage for each in heard} == {"confirm"}
    decided = eval(call, {"skillopt_mcp": skillopt_mcp, "target": target})
    assert (decided.verdict, decided.base.mean, decided.candidate.mean) == ("accept", 0.0, 1.0)
    n = target.n
    assert evaluate(found.candidate_id, target=target, store=store).verdict == "accept"
    assert target.n == n, "a verdict stands"


def test_a_test_that_ctrl_c_or_its_program_stops_goes_on(place: Place, store: Path) -> None:
    found = trained(place, store, Mine())
    assert found.candidate_id
    with pytest.raises(KeyboardInterrupt):
        evaluate(found.candidate_id, target=Mine(2, interrupt), store=store, n_slots=2)
    stop = threading.Event()
    with pytest.raises(Stopped):
        evaluate(found.candidate_id, target=Mine(2, stop.set), store=store, n_slots=2, stop=stop)
    assert not [each for each in threading.enumerate() if each.name.startswith(("skillopt", "t-"))]
    decided = evaluate(found.candidate_id, target=Mine(), store=store)
    assert decided.verdict == "accept"
    assert decided.pairs_done > found.n_pairs


def test_caps_and_what_is_no_callback_are_told_in_the_words_of_python(place: Place, store: Path) -> None:
    found = trained(place, store, Mine())
    assert found.candidate_id
    with pytest.raises(skillopt_mcp.CapReached, match=r"Caps\(calls="):
        evaluate(found.candidate_id, target=Mine(), store=store, caps=Caps(calls=2))
    with pytest.raises(BadInput, match="the callback is of type int"):
        evaluate(found.candidate_id, target=Mine(), store=store, callback=5)  # type: ignore[arg-type]
    with pytest.raises(skillopt_mcp.BackendError, match="start with target='BACKEND:MODEL'"):
        evaluate(found.candidate_id, store=store)


@pytest.mark.parametrize("named", [True, False])
def test_an_environment_that_attempts_its_tasks_tests_candidates_too(
    place: Place, store: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    point = EntryPoint("greets", f"{__name__}:Greeting", registry.GROUP)
    monkeypatch.setattr(entries, "entry_points", lambda group: [point])
    environment = "greets" if named else Greeting()
    found = train(place.skill, environment, CONFIG, optimizer=OPTIMIZER, store=store)
    assert found.verdict == "undecided"
    assert found.candidate_id
    command = f"skillopt-mcp --store {store} evaluate {found.candidate_id} --target env:greets"
    function = f"skillopt_mcp.evaluate('{found.candidate_id}', environment, store='{store}')"
    assert found.next_step.endswith(f"more pairs: {command if named else function}")
    assert evaluate(found.candidate_id, environment, store=store).verdict == "accept"


def test_candidates_race_and_are_taken_apart_and_tasks_are_calibrated(place: Place, store: Path) -> None:
    target = Mine()
    two = json.dumps({"edits": [{"op": "append", "content": LESSON}, {"op": "append", "content": "Smile."}]})
    optimizer = Scripted(lambda _: two, name="fixed")
    found = train(place.skill, Guests(), CONFIG, target=target, optimizer=optimizer, store=store)
    candidate = found.steps[0].candidate_id
    assert candidate
    ahead = race([candidate], target=target, laps=6, controls=["none"], store=store)
    assert [(row.arm, row.gain) for row in ahead.rows] == [(candidate, 1.0), ("no skill", 0.0)]
    assert ahead.next_step.startswith(f"Call skillopt_mcp.evaluate('{candidate}', target=target, store='{store}'):")
    worth = credit(candidate, target=target, pairs=8, store=store)
    assert [(row.verdict, row.gain) for row in worth.rows] == [("helps", 1.0), ("unclear", 0.0)]
    part = credit(candidate, target=target, rescue=True, store=store)
    assert [row.verdict for row in part.rows] == ["kept", "left out"]
    assert part.rescued_id
    assert part.rescued_id in part.next_step
    noise = calibrate(place.skill, target=target, pairs=8, gain=0.9, max_pairs=60, store=store)
    assert (noise.n_pairs, noise.flip_rate, noise.failure_rate) == (8, 0.0, 1.0)


def test_a_race_tells_its_result_though_another_skill_has_the_name(place: Place, store: Path) -> None:
    target = Mine()
    found = train(place.skill, Guests(), CONFIG, target=target, optimizer=OPTIMIZER, store=store)
    with Workspace(store) as workspace:
        workspace.skill(str(shutil.copytree(place.skill, place.folder / "other" / place.skill.name)))
    ahead = race([str(place.skill)], target=target, laps=2, controls=["none"], store=store)
    assert [row.arm for row in ahead.rows] == ["no skill"]
    assert found.candidate_id
    ahead = race([found.candidate_id], target=target, laps=2, store=store)
    assert [(row.arm, row.gain) for row in ahead.rows] == [(found.candidate_id, 1.0)]


def test_the_outcome_and_its_files_have_the_score_that_training_began_with(place: Place, store: Path) -> None:
    heard: list[Progress] = []
    config = CONFIG.model_copy(update={"metric": "soft"})
    out = place.folder / "out"
    found = train(
        place.skill, Greeting(), config, optimizer=OPTIMIZER, store=store, out=out, callbacks={"rollout": heard.append}
    )
    assert (found.metric, found.baseline, found.baseline_hard, found.baseline_soft) == ("soft", 0.5, 0.0, 0.5)
    assert heard[0].current == 0.5
    [step] = found.steps
    assert (step.train_hard, step.train_soft, step.candidate) == (0.0, 0.5, 1.0)
    assert (step.candidate_hard, step.candidate_soft) == (1.0, 1.0)
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["metric"], summary["baseline"], summary["simulated"]) == ("soft", 0.5, False)
    [row] = json.loads((out / "history.json").read_text())
    assert (row["baseline"]["hard"], row["baseline"]["soft"], row["val"]["hard"]) == (0.0, 0.5, 1.0)
    assert "scores on val are soft; the base version had hard 0.000, soft 0.500" in (out / "report.md").read_text()


def test_a_simulation_says_so_in_its_outcome_and_its_next_step(place: Place, store: Path) -> None:
    config = CONFIG.model_copy(update={"max_pairs": 200})
    lessons = json.dumps({"edits": [{"op": "append", "content": LESSONS}]})
    found = train(place.skill, Ledgers(), config, target=SIMULATION, optimizer=Scripted(lambda _: lessons), store=store)
    assert (found.verdict, found.simulated) == ("accept", True)
    assert found.next_step == f"skillopt-mcp --store {store} promote {found.candidate_id} --simulated"


def test_the_train_score_of_a_slow_update_is_that_of_the_version_it_began_with(place: Place) -> None:
    with place.open() as workspace:
        place.add_tasks(workspace)
        run = start_run(workspace, "ledger-clerk", Config(epochs=2, batch=10, max_pairs=1, slow_samples=25, seed=1))
        found = replay(workspace, run)
        rows = workspace.store.runs.list_steps(run.id)
    [slow] = [row for row in rows if row.kind == "slow"]
    assert slow.train_current
    assert (slow.train.n, slow.train_current.n) == (50, 25)
    assert slow.train.hard != slow.train_current.hard
    [told] = [row.train_hard for row in found.steps if row.kind == "slow"]
    assert told == slow.train_current.hard
    assert [row.baseline is None for row in rows] == [False, *([True] * (len(rows) - 1))]


def test_the_demo_begins_where_its_run_began(tmp_path: Path) -> None:
    shown: list[Progress] = []
    outcome = run_demo(prepare_demo(tmp_path / "demo", "honest", SEED), shown.append)
    assert outcome.val_before == next(each.current for each in shown if each.current is not None)


def test_a_finished_run_is_returned_where_that_will_do_and_begun_anew_where_not(place: Place, store: Path) -> None:
    target = Mine()

    def again(*, reuse: bool, seed: int = 42) -> Trained:
        config = CONFIG.model_copy(update={"seed": seed})
        return train(
            place.skill, Guests(), config, target=target, optimizer=OPTIMIZER, store=store, reuse=reuse
        )  # fmt: skip

    first = again(reuse=True)
    n = target.n
    assert again(reuse=True) == first.model_copy(update={"reused": True})
    assert target.n == n
    assert again(reuse=True, seed=7).run_id != first.run_id
    assert again(reuse=False).run_id != first.run_id
    target.fingerprint = "another model"
    assert again(reuse=True).run_id != first.run_id


def test_of_several_finished_runs_that_of_the_same_backends_is_returned(place: Place, store: Path) -> None:
    target = Mine()
    target.fingerprint = "one"
    first = trained(place, store, target)
    target.fingerprint = "another"
    trained(place, store, target)
    target.fingerprint = "one"
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        trained(place, store, target, stop)
    n = target.n
    again = train(place.skill, Guests(), CONFIG, target=target, optimizer=OPTIMIZER, store=store, reuse=True)
    assert (again, target.n) == (first.model_copy(update={"reused": True}), n)


def test_a_run_of_which_nobody_knows_who_answered_is_returned_with_a_warning(place: Place, store: Path) -> None:
    target = Mine()
    first = trained(place, store, target)
    with Store(store) as kept:
        kept.runs.set_answering(first.run_id, ())
    target.fingerprint = "another"
    with pytest.warns(UserWarning, match=f"run '{first.run_id}' was finished before it was kept who answers") as told:
        again = train(place.skill, Guests(), CONFIG, target=target, optimizer=OPTIMIZER, store=store, reuse=True)
    assert again == first.model_copy(update={"reused": True})
    assert [each.filename for each in told] == [__file__]


def test_a_warning_tells_the_line_of_the_call_within_a_running_loop_too(place: Place, store: Path) -> None:
    def capped(target: Mine) -> None:
        train(
            place.skill, Guests(), CONFIG, target=target, optimizer=OPTIMIZER, store=store, caps=Caps(calls=3),
        )  # fmt: skip

    async def cell() -> None:
        capped(other)

    other = Mine()
    other.fingerprint = "another"
    with pytest.raises(skillopt_mcp.CapReached):
        capped(Mine())
    with pytest.raises(skillopt_mcp.CapReached), pytest.warns(UserWarning, match="this call begins anew") as told:
        asyncio.run(cell())
    assert [(each.filename, each.lineno) for each in told] == [(__file__, capped.__code__.co_firstlineno + 1)]


def test_a_folder_that_fails_on_the_way_hides_neither_the_stop_nor_the_outcome(place: Place, store: Path) -> None:
    out, stop = place.folder / "out", threading.Event()

    def in_the_way() -> None:
        out.write_text("a file")
        stop.set()

    def in_use(_: Progress) -> None:
        out.mkdir()
        out.joinpath("theirs").touch()

    def written(target: Mine, stop: threading.Event | None = None) -> Trained:
        return train(
            place.skill, Guests(), CONFIG, target=target, optimizer=OPTIMIZER, store=store, out=out, stop=stop,
            n_slots=2, callbacks={"baseline": in_use} if stop is None else {},
        )  # fmt: skip

    with (
        pytest.warns(UserWarning, match="was not written as files"),
        pytest.raises(Stopped, match="interrupted") as why,
    ):
        written(Mine(5, in_the_way), stop)
    assert [note for note in why.value.__notes__ if " under way: " in note]
    out.unlink()
    with pytest.warns(UserWarning, match=r"was not written as files: .* is in use"):
        assert written(Mine()).status == "finished"


def test_prompts_of_ones_own_are_those_of_the_run(place: Place, store: Path) -> None:
    asked: list[Call] = []
    folder = place.folder / "prompts"
    folder.mkdir()
    shipped = (Path(skillopt_mcp.__file__).parent / "prompts" / "analyst_failure.md").read_text()
    (folder / "analyst_failure.md").write_text(f"Mind the door.\n{shipped}")

    def optimizer(call: Call) -> str:
        asked.append(call)
        return PATCH

    scripted = Scripted(optimizer, name="fixed")
    train(place.skill, Guests(), CONFIG, target=Mine(), optimizer=scripted, prompts=folder, store=store)
    request = asked[0].request
    assert isinstance(request, skillopt_mcp.Question)
    assert request.instructions.startswith("Mind the door.")


def test_a_folder_in_use_is_refused_before_anything_is_sent(place: Place, store: Path) -> None:
    target = Mine()
    with pytest.raises(BadInput, match="is in use: name an empty folder"):
        train(place.skill, Guests(), CONFIG, target=target, optimizer=OPTIMIZER, store=store, out=place.skill)
    assert target.n == 0
    with Store(store) as kept:
        assert kept.runs.list_runs(1) == []
