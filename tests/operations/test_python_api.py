"""Python API: train a skill from a program, on an environment, with callbacks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from workshop import LESSONS, SEED, SIMULATION, Place

import skillopt_mcp
from skillopt_mcp import (
    BackendFault,
    Caps,
    Config,
    Environment,
    Message,
    NewTask,
    OnRollout,
    Progress,
    Reply,
    Rolled,
    RolloutFailed,
    SkillFiles,
    SkillOptError,
    Task,
    Trained,
    parse_judge,
    train,
)
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.errors import BadInput, CapReached
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.programs.hearing import StageName
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.spending.listing_runs import list_runs
from skillopt_mcp.operations.tasks.adding import add_environment
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.records.calls import Call, Fault, Question, Rollout, Usage
from skillopt_mcp.records.replies import SCHEMAS
from skillopt_mcp.records.tasks import Split
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store.opening import Store

CONFIG = Config(epochs=1, batch=10, sessions=0, max_pairs=60, slow_update=False, meta_skill=False)
LESSON = "Greet in Latin."
PATCH = json.dumps({"reasoning": "r", "edits": [{"op": "append", "content": LESSON}]})


class Ledgers:
    """The simulated world's tasks, for the target to do."""

    name = "ledgers"
    version = "1"
    task_types = ("ledger",)

    def tasks(self, split: Split) -> list[NewTask]:
        places = {"train": range(0, 20), "val": range(20, 40), "test": range(40, 80)}
        everything = make_tasks(80, SEED)
        return [everything[n] for n in places[split]]


class Greeting:
    """An environment that attempts its tasks itself, and keeps to itself what it wants."""

    version = "1"
    task_types = ("greeting",)

    def __init__(self, name: str = "greeting", broken: bool = False) -> None:
        self.name, self.broken = name, broken
        self.n_rollouts = 0

    def tasks(self, split: Split) -> list[NewTask]:
        judge = parse_judge({"kind": "environment", "name": self.name})
        return [NewTask(f"greet guest {n} of {split}", judge, f"{split}-{n}", tags=("greeting",)) for n in range(8)]

    async def rollout(self, task: Task, files: SkillFiles, draw: str) -> Rolled:
        self.n_rollouts += 1
        if self.broken:
            raise RolloutFailed("nobody at the door")
        taught = LESSON in files.text
        return Rolled(
            "salve" if taught else "hello", taught, float(taught), reason="wanted: salve",
            messages=(Message("user", task.prompt),),
        )  # fmt: skip


@pytest.fixture
def store(place: Place) -> Path:
    return place.store_path.with_name("api.db")


def test_a_skill_is_trained_on_the_tasks_of_an_environment(place: Place, store: Path) -> None:
    before = place.main.read_bytes()
    environment: Environment = Ledgers()
    found = train(place.skill, environment, CONFIG, target=SIMULATION, optimizer=SIMULATION, store=store)
    assert (found.status, found.skill, len(found.steps)) == ("finished", "ledger-clerk", 2)
    assert (found.skill_path, found.store_path) == (str(place.skill), str(store))
    assert found.best_skill.startswith("---\nname: ledger-clerk")
    assert place.main.read_bytes() == before


def test_a_run_on_an_environment_leaves_other_tasks_of_the_skill_out(place: Place, store: Path) -> None:
    with place.open(store="api.db") as workspace:
        other = NewTask("another", parse_judge({"kind": "exact", "expected": "x"}), "other", split="val")
        workspace.store.tasks.add_tasks(workspace.skill(str(place.skill)).id, [other], EQUAL_SHARES)

    def trained(environment: Environment | None) -> set[str]:
        found = train(place.skill, environment, CONFIG, target=SIMULATION, optimizer=SIMULATION, store=store)
        with place.open(store="api.db") as workspace:
            skill_id = workspace.skill(str(place.skill)).id
            by_id = {task.id: task.name for task in workspace.store.tasks.list_tasks(skill_id)}
            return {by_id[task_id] for task_id in workspace.store.runs.get_run(found.run_id).tasks}

    alone = trained(Ledgers())
    assert (len(alone), "other" in alone) == (80, False)
    assert trained(None) == {*alone, "other"}


def test_a_run_on_all_tasks_that_a_call_leaves_unfinished_is_told_once_and_can_be_gone_on_with(
    place: Place, store: Path
) -> None:
    def trained(environment: Environment | None, n_calls: int = 10_000) -> str:
        return train(
            place.skill, environment, CONFIG, target=SIMULATION, optimizer=SIMULATION, store=store,
            caps=Caps(calls=n_calls),
        ).run_id  # fmt: skip

    with place.open(store="api.db") as workspace:
        other = NewTask("another", parse_judge({"kind": "exact", "expected": "x"}), "other", split="val")
        workspace.store.tasks.add_tasks(workspace.skill(str(place.skill)).id, [other], EQUAL_SHARES)
        add_environment(workspace, str(place.skill), Ledgers())
    with pytest.raises(CapReached):
        trained(None, 5)
    with Store(store) as kept:
        [left] = kept.runs.list_runs(1)
    told = f"run '{left.id}' .* takes 81 tasks of the skill, this call the 80 of .* skillopt-mcp replay ledger-clerk"
    with pytest.raises(CapReached), pytest.warns(UserWarning, match=told):
        trained(Ledgers(), 5)
    assert trained(Ledgers()) != left.id
    assert trained(None) == left.id


def test_an_environment_may_attempt_and_score_its_tasks_itself(place: Place, store: Path) -> None:
    asked: list[Call] = []

    def optimizer(call: Call) -> str:
        asked.append(call)
        return PATCH

    environment = Greeting()
    found = train(place.skill, environment, CONFIG, optimizer=Scripted(optimizer, name="fixed"), store=store)
    assert LESSON in found.best_skill
    assert (found.verdict, found.test_before, found.test_after) == ("accept", 0.0, 1.0)
    assert found.reason.endswith("; scored by the environment 'greeting' itself")
    assert found.backend == "env:greeting"
    for call in asked:
        assert isinstance(call.request, Question)
        assert 'scored by the environment "greeting": wanted: salve' in call.request.evidence or call.stage != "reflect"
    with place.open(target="env:greeting", store="api.db") as workspace:
        assert found.candidate_id
        assert "scored by the environment 'greeting' itself" in inspect(workspace, found.candidate_id).text


def test_a_verdict_of_an_environment_says_so_when_it_is_asked_again(place: Place, store: Path) -> None:
    environment = Greeting()
    config = CONFIG.model_copy(update={"max_pairs": 3})
    found = train(place.skill, environment, config, optimizer=Scripted(lambda _: PATCH, name="fixed"), store=store)
    assert found.verdict == "undecided"
    with place.open(store="api.db") as workspace:
        workspace._backends["target"] = skillopt_mcp.backends.environment.Rolling(environment)
        assert found.candidate_id
        again = evaluate_candidate(workspace, found.candidate_id)
    assert (again.verdict, again.backend) == ("accept", "env:greeting@1")
    assert again.reason.endswith("; scored by the environment 'greeting' itself")


def test_what_an_environment_breaks_off_is_no_zero_and_is_attempted_anew(place: Place, store: Path) -> None:
    def trained(environment: Greeting) -> Trained:
        return train(place.skill, environment, CONFIG, optimizer=Scripted(lambda _: PATCH, name="fixed"), store=store)

    with pytest.raises(SkillOptError, match="none of the 8 attempts at the val tasks came to a score"):
        trained(Greeting(broken=True))
    found = trained(Greeting())
    assert (found.verdict, found.n_missing) == ("accept", 0)
    assert LESSON in found.best_skill


def test_within_a_running_loop_it_trains_all_the_same(place: Place, store: Path) -> None:
    async def cell() -> str:
        return train(place.skill, Ledgers(), CONFIG, target=SIMULATION, optimizer=SIMULATION, store=store).status

    assert asyncio.run(cell()) == "finished"


class Interrupting:
    """A target that answers, and gives Ctrl-C with its 25th call."""

    name = fingerprint = "counting"
    deferred = False

    def __init__(self) -> None:
        self.n = 0

    async def complete(self, call: Call) -> Reply:
        self.n += 1
        if self.n == 25:
            os.kill(os.getpid(), signal.SIGINT)
        # It takes longer than the one before it, and the next one longer still: one is under way at the reply that ends
        # the training.
        await asyncio.sleep({25: 0.3, 26: 1.0}.get(self.n, 0.001))
        return Reply("0", usage=Usage(1, 1, 0.0))


def test_ctrl_c_tells_what_may_be_paid_again_and_the_outcome_what_was_sent(place: Place, store: Path) -> None:
    target, optimizer = Interrupting(), Scripted(lambda _: PATCH)

    def trained() -> Trained:
        return train(place.skill, Ledgers(), CONFIG, target=target, optimizer=optimizer, store=store, n_slots=2)

    with pytest.raises(KeyboardInterrupt) as stopped:
        trained()
    [note] = stopped.value.__notes__
    n_lost = 1 if "1 call was" in note else 2
    assert note.startswith(("up to 1 call was under way: ", "up to 2 calls were under way: "))
    found = trained()
    n_sent = target.n + len(optimizer.calls)
    assert (found.n_sent, found.n_answered, found.n_unanswered) == (n_sent, n_sent - n_lost, n_lost)
    assert (found.n_repeated, found.n_calls) == (n_lost, found.n_answered)
    with Store(store) as kept:
        assert kept.budgets.get_spent(found.run_id).calls == n_sent
    assert f"skillopt-mcp --store {store} show {found.run_id}" in found.next_step


def test_ctrl_c_within_a_running_loop_stops_the_training_and_the_same_call_goes_on(place: Place, store: Path) -> None:
    target = Interrupting()

    async def cell() -> str:
        optimizer = Scripted(lambda _: PATCH)
        return train(place.skill, Ledgers(), CONFIG, target=target, optimizer=optimizer, store=store, n_slots=2).status

    loop = asyncio.new_event_loop()  # as notebooks run theirs: asyncio.run would keep Ctrl-C to itself
    try:
        with pytest.raises(KeyboardInterrupt) as stopped:
            loop.run_until_complete(cell())
        n_stopped = target.n
        assert loop.run_until_complete(cell()) == "finished"
    finally:
        loop.close()
    with Store(store) as kept:
        [run] = kept.runs.list_runs(1)
        rollouts = [row.n_calls for row in kept.ledger.list_rows(run.id) if row.role == "target"]
    assert n_stopped < 40 < sum(rollouts), "it stopped at once"
    assert [note for note in stopped.value.__notes__ if note.startswith("up to ") and " under way: " in note]
    assert target.n <= sum(rollouts) + 2, "and what was answered was not asked again, but for what was under way"


def test_caps_bound_a_training_and_more_lets_it_go_on(place: Place, store: Path) -> None:
    def trained(n_calls: int) -> str:
        caps = Caps(calls=n_calls)
        return train(
            place.skill, Ledgers(), CONFIG, target=SIMULATION, optimizer=SIMULATION, store=store, caps=caps, n_slots=4
        ).status

    with pytest.raises(SkillOptError, match="the cap of 30 calls"):
        trained(30)
    assert trained(10_000) == "finished"


def test_caps_on_money_hold_for_an_environment_that_knows_the_most_of_an_attempt(place: Place, store: Path) -> None:
    class Priced(Greeting):
        usd: float | None = 0.25

        def worst_case(self) -> Usage:
            return Usage(10, 10, self.usd)

        async def rollout(self, task: Task, files: SkillFiles, draw: str) -> Rolled:
            return replace(await super().rollout(task, files, draw), usage=Usage(5, 5, 0.125))

    class Free(Scripted):
        def worst_case(self, call: Call) -> Usage:
            return Usage(100, 100, 0.0)

    def trained(environment: Greeting, usd: float) -> Trained:
        optimizer = Free(lambda _: PATCH, name="fixed")
        return train(place.skill, environment, CONFIG, optimizer=optimizer, store=store, caps=Caps(usd=usd), n_slots=2)

    with pytest.raises(BadInput, match=r"give the environment a method 'worst_case\(\) -> Usage'.*Caps\(calls=N\)"):
        trained(Greeting(), 4.0)
    unpriced = Priced()
    unpriced.usd = None
    with pytest.raises(BadInput, match="have its 'worst_case' give the usd of its Usage"):
        trained(unpriced, 4.0)
    with pytest.raises(CapReached, match=r"the cap of \$2 "):
        trained(Priced(), 2.0)
    found = trained(Priced(), 60.0)
    assert found.verdict == "accept"
    assert found.usd_known == 0.125 * sum(row.n_calls for row in found.used if row.role == "target")


def test_an_environment_that_changed_is_told_and_not_trained_on_as_it_was(place: Place, store: Path) -> None:
    def trained(environment: Greeting) -> None:
        train(place.skill, environment, CONFIG, optimizer=Scripted(lambda _: PATCH, name="fixed"), store=store)

    trained(Greeting())
    changed = Greeting()
    changed.tasks = lambda split: [replace(task, prompt="another") for task in Greeting().tasks(split)][:1]  # type: ignore
    with pytest.raises(BadInput, match=r"'train-0': the id .* is taken by another task.* a store of its own"):
        trained(changed)
    assert changed.n_rollouts == 0


def test_every_public_name_is_there_and_says_what_it_is_for() -> None:
    for name in skillopt_mcp._PUBLIC:
        assert getattr(skillopt_mcp, name).__doc__ or get_args(getattr(skillopt_mcp, name))


def test_callbacks_hear_of_their_stage(place: Place, store: Path) -> None:
    heard: list[str] = []

    def hear(progress: Progress) -> None:
        heard.append(progress.stage)

    train(
        place.skill, Ledgers(), CONFIG, target=SIMULATION, optimizer=SIMULATION, store=store,
        callbacks={"rollout": hear, "step": hear},
    )  # fmt: skip
    assert heard == ["rollout", "step", "rollout", "step"]


def test_a_callback_that_gives_something_to_await_is_refused_when_it_does(place: Place, store: Path) -> None:
    with pytest.raises(BadInput, match="the callback of 'rollout' is async, and nothing would await it"):
        train(
            place.skill, Ledgers(), CONFIG, target=SIMULATION, optimizer=SIMULATION, store=store,
            callbacks={"rollout": lambda progress: hear_later(progress)},  # type: ignore[arg-type]
        )  # fmt: skip


def test_an_error_names_arguments_where_a_command_would_name_options(place: Place, store: Path) -> None:
    with pytest.raises(CapReached, match=r"the cap of 9 calls \(Caps\(calls=N\)\) is reached"):
        train(place.skill, Ledgers(), CONFIG, target=SIMULATION, optimizer=SIMULATION, store=store, caps=Caps(calls=9))


def test_a_callback_stops_the_run_and_the_same_call_goes_on_with_it(place: Place, store: Path) -> None:
    def stop(progress: Progress) -> None:
        raise RuntimeError("enough")

    environment = Greeting()
    optimizer = Scripted(lambda _: PATCH, name="fixed")
    with pytest.raises(RuntimeError, match="enough"):
        train(place.skill, environment, CONFIG, optimizer=optimizer, store=store, callbacks={"evaluate": stop})
    n_before = environment.n_rollouts
    assert n_before == 16
    found = train(place.skill, environment, CONFIG, optimizer=optimizer, store=store)
    whole = train(place.skill, Greeting(), CONFIG, optimizer=optimizer, store=place.store_path.with_name("whole.db"))
    elsewhere = {
        "store_path": found.store_path,
        "next_step": whole.next_step.replace(whole.store_path, found.store_path),
        "seconds": found.seconds,
        "used": [
            row.model_copy(update={"seconds": timed.seconds}) for row, timed in zip(whole.used, found.used, strict=True)
        ],
    }
    assert found == whole.model_copy(update=elsewhere)
    assert environment.n_rollouts == whole.n_calls - optimizer_calls(optimizer, found)


def optimizer_calls(optimizer: Scripted, found: object) -> int:
    """Return how many of one run's calls were the optimizer's; both runs asked the same, the first only once."""
    return optimizer.n_calls // 2


def test_a_program_hears_of_each_attempt_as_it_comes_in_and_the_run_stays_what_it_is(place: Place, store: Path) -> None:
    heard: list[tuple[str, str]] = []

    def hear(call: Call, reply: Reply) -> None:
        assert isinstance(call.request, Rollout)
        heard.append((call.request.task.name or "", reply.text))
        if len(heard) == 3:
            raise LookupError("enough heard")

    def trained(at: Path, on_rollout: OnRollout | None = None) -> Trained:
        optimizer = Scripted(lambda _: PATCH, name="fixed")
        return train(place.skill, Greeting(), CONFIG, optimizer=optimizer, store=at, n_slots=1, on_rollout=on_rollout)

    with pytest.raises(LookupError, match="enough heard"):
        trained(store, hear)
    found = trained(store, hear)
    assert {text for _, text in heard} == {"hello", "salve"}
    assert len(heard) == sum(row.n_calls for row in found.used if row.role == "target")
    silent = trained(store.with_name("silent.db"))
    assert (silent.run_id, silent.steps, silent.verdict) == (found.run_id, found.steps, found.verdict)


async def hear_later(progress: Progress) -> None:
    """What nothing would await."""


class Hearing:
    """A callback that is no function, and async."""

    async def __call__(self, progress: Progress) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"environment": "nowhere:x"}, 'unknown environment "nowhere"'),
        ({"environment": object()}, "is no environment, it has no 'name'"),
        ({"environment": Greeting(), "target": SIMULATION}, "attempts its tasks itself: leave out the target"),
        ({"config": {"epcohs": 3}}, 'config: unknown setting "epcohs": did you mean "epochs"?'),
        ({"config": {"train.num_epoch": 3}}, 'unknown setting "train.num_epoch": did you mean "train.num_epochs"?'),
        ({"config": {"epochs": 0}}, "config: epochs: Input should be greater than or equal to 1"),
        ({"config": {"epochs": [1]}}, 'config: "epochs" must have one value: a number, a text'),
        ({"config": {"target": "x"}}, 'config: "target" is no setting of a config: see help(skillopt_mcp.Config)'),
        ({"config": {"teacher_model": "x"}}, 'config: "teacher_model" is no setting of a config'),
        ({"config": "mine.yaml"}, "the config is of type str: give a skillopt_mcp.Config, or a dict of its fields"),
        ({"caps": {"usd": 2.0}}, "the caps are of type dict: give skillopt_mcp.Caps("),
        ({"callbacks": [print]}, "the callbacks are to be functions by the name of their stage: baseline, rollout"),
        ({"callbacks": {"rollout": None}}, "the callbacks are to be functions by the name of their stage"),
        (
            {"target": Scripted({}, name="mine"), "optimizer": SIMULATION, "caps": Caps(usd=1.0)},
            "'mine' sets no limit to an answer, so no cap on tokens or money can hold: give it a method 'worst_case",
        ),
        ({"callbacks": {"rollout": hear_later}}, "the callback of 'rollout' is async, and nothing would await it"),
        ({"callbacks": {"step": Hearing()}}, "the callback of 'step' is async, and nothing would await it"),
        ({"on_rollout": hear_later}, "the callback 'on_rollout' is async, and nothing would await it"),
        ({"on_rollout": 5}, "'on_rollout' is of type int: give a function of a Call and its Reply"),
        ({"callbacks": {"rolout": print}}, "no stage is called 'rolout': did you mean 'rollout'"),
        ({}, "no backend is set for the role 'target': start with target='BACKEND:MODEL', for instance"),
        ({"environment": Greeting()}, "no backend is set for the role 'optimizer'"),
        (
            {"target": SIMULATION, "optimizer": SIMULATION, "caps": Caps(usd=-2.0)},
            "Caps(usd=-2.0) lets nothing happen",
        ),
        (
            {"target": SIMULATION, "optimizer": SIMULATION, "caps": Caps(calls="5")},  # type: ignore[arg-type]
            "Caps(calls='5') is of type str: give a number above 0",
        ),
    ],
)
def test_what_cannot_be_trained_is_told(place: Place, store: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(SkillOptError) as error:
        train(place.skill, store=store, **arguments)  # type: ignore[arg-type]
    assert message in str(error.value)


class Answering:
    """A backend of a program's own, which answers whatever it is told to."""

    name = fingerprint = "mine"
    deferred = False

    def __init__(self, reply: object) -> None:
        self.reply = reply

    async def complete(self, call: Call) -> object:
        return self.reply


class Unasync(Answering):
    def complete(self, call: Call) -> object:  # type: ignore[override]
        return self.reply


def lacking(name: str, value: object = None) -> object:
    backend = Answering(Reply("x"))
    setattr(backend, name, value)
    return backend


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        (object(), "is of type object, which has no method 'complete': give 'BACKEND:MODEL', or an object with name,"),
        (lambda call: Reply("x"), "is of type function, which has no method 'complete'"),
        (Answering, "is the class Answering: give a backend made of it, Answering(...)"),
        (lacking("complete"), "which has no method 'complete'"),
        (lacking("name", 5), 'whose name is "5", not a text'),
        (lacking("fingerprint"), 'whose fingerprint is "None", not a text'),
        (lacking("name", "host:x"), 'whose name is "host:x": that is how a backend of skillopt-mcp is spelled'),
        (lacking("n_slots", 0), 'the n_slots of the backend "mine" is "0": give the number of calls that it takes'),
        (lacking("n_slots", "a"), 'the n_slots of the backend "mine" is'),
        (lacking("deferred"), "which has no 'deferred': write deferred = False"),
        (Unasync(Reply("x")), "'complete' of the backend \"mine\" is not async: write 'async def complete'"),
        (Answering("x"), "'complete' of the backend \"mine\" gave str, not a Reply: return skillopt_mcp.Reply(text"),
        (Answering(None), "gave NoneType, not a Reply"),
        (Answering(Reply(5)), 'the reply of the backend "mine" has a text of type int'),  # type: ignore[arg-type]
        (Answering(Reply("x", usage=None)), "has a usage of type NoneType"),  # type: ignore[arg-type]
        (Answering(Reply("x", usage=Usage(-5))), 'cannot be used: the tokens_in of its usage is "-5"'),
    ],
)
@pytest.mark.parametrize("role", ["target", "optimizer"])
def test_what_is_no_backend_is_told(place: Place, store: Path, role: str, backend: object, message: str) -> None:
    backends = {"target": SIMULATION, "optimizer": SIMULATION} | {role: backend}
    with pytest.raises(SkillOptError) as error:
        train(place.skill, Ledgers(), CONFIG, store=store, **backends)  # type: ignore[arg-type]
    assert message in str(error.value)
    assert role in str(error.value) or "mine" in str(error.value)


def test_the_reference_environment_is_named_in_a_word(place: Place, store: Path) -> None:
    for split in ("train", "val", "test"):
        rows = [{"question": f"What is twice {n} in {split}?", "answers": [str(2 * n)]} for n in range(8)]
        (place.folder / f"{split}.json").write_text(json.dumps(rows))
        (place.folder / "data").mkdir(exist_ok=True)
        (place.folder / f"{split}.json").rename(place.folder / "data" / f"{split}.json")

    def target(call: Call) -> str:
        assert not isinstance(call.request, Question)
        number = int(call.request.task.prompt.split("twice ")[1].split()[0])
        return str(2 * number) if LESSONS in call.request.files.text else f"{2 * number} or so"

    patch = json.dumps({"reasoning": "r", "edits": [{"op": "append", "content": LESSONS}]})
    found = train(
        str(place.skill), f"qa:{place.folder / 'data'}", {"epochs": 1, "max_pairs": 60},
        target=Scripted(target, name="model"), optimizer=Scripted(lambda _: patch, name="fixed"), store=str(store),
    )  # fmt: skip
    assert (found.verdict, found.test_before, found.test_after) == ("accept", 0.0, 1.0)


def test_importing_the_package_loads_nothing_of_it() -> None:
    code = (
        "import sys, skillopt_mcp; print([m for m in sys.modules if m.startswith('skillopt_mcp.') or m == 'pydantic'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_public_names_are_those_that_type_checkers_see() -> None:
    stub = Path(skillopt_mcp.__file__).with_suffix(".pyi").read_text()
    assert {line.split(" as ")[1] for line in stub.splitlines() if " as " in line} == set(skillopt_mcp._PUBLIC)
    assert all(getattr(skillopt_mcp, name) is not None for name in skillopt_mcp._PUBLIC)
    assert set(skillopt_mcp._PUBLIC) <= set(dir(skillopt_mcp))
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        _ = skillopt_mcp.trian  # type: ignore[attr-defined]


def test_what_train_raises_is_among_the_public_names(place: Place, store: Path) -> None:
    names: dict[str, object] = {}
    exec("from skillopt_mcp import *", names)
    assert set(skillopt_mcp._PUBLIC) <= names.keys()
    with pytest.raises(skillopt_mcp.CapReached) as stopped:
        train(place.skill, Ledgers(), CONFIG, target=SIMULATION, optimizer=SIMULATION, store=store, caps=Caps(calls=9))
    assert isinstance(stopped.value, skillopt_mcp.Stopped)
    assert issubclass(skillopt_mcp.Outage, skillopt_mcp.Stopped)


def test_a_dict_has_the_names_of_settings_files(place: Place, store: Path) -> None:
    given = {"train.num_epochs": 1, "train": {"batch_size": 10}, "max_pairs": 4}
    arguments: dict[str, object] = {"target": SIMULATION, "optimizer": SIMULATION, "store": store}
    for config in (given, Config(epochs=1, batch=10, max_pairs=4)):
        with pytest.raises(skillopt_mcp.CapReached):
            train(place.skill, Ledgers(), config, caps=Caps(calls=9), **arguments)  # type: ignore[arg-type]
    with place.open(store=store.name) as workspace:
        assert len(list_runs(workspace).runs) == 1


def test_help_names_stages_kinds_of_failure_and_forms_of_replies() -> None:
    assert all(f'"{stage}"' in str(train.__doc__) for stage in get_args(StageName))
    assert all(f'"{fault}"' in str(skillopt_mcp.BackendFault.__doc__) for fault in get_args(Fault))
    assert all(f'"{schema}"' in str(skillopt_mcp.Question.__doc__) for schema in SCHEMAS if schema != "check")


def test_a_failure_of_an_unknown_kind_is_told_where_it_is_made(place: Place, store: Path) -> None:
    def answer(call: Call) -> str:
        raise BackendFault("ratelimit", "slow down")  # type: ignore[arg-type]

    with pytest.raises(SkillOptError, match=r"no fault is called .ratelimit.*did you mean 'rate_limit'"):
        train(place.skill, Ledgers(), CONFIG, target=Scripted(answer, name="mine"), optimizer=SIMULATION, store=store)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"message": None}, "the message of a BackendFault (rate_limit) is of type NoneType: give a text"),
        ({"retry_after": float("nan")}, 'nobody can wait for "nan", as a BackendFault says ("boo")'),
        ({"retry_after": "3"}, "nobody can wait for"),
        ({"usage": {"tokens_in": 4}}, "its usage is of type dict, not skillopt_mcp.Usage"),
    ],
)
def test_a_failure_told_in_what_is_none_ends_the_run(
    place: Place, store: Path, told: dict[str, object], message: str
) -> None:
    def answer(call: Call) -> str:
        raise BackendFault("rate_limit", **{"message": "boo"} | told)  # type: ignore[arg-type]

    with pytest.raises(skillopt_mcp.BackendError) as error:
        train(place.skill, Ledgers(), CONFIG, target=Scripted(answer, name="mine"), optimizer=SIMULATION, store=store)
    assert message in str(error.value)


def test_a_path_is_a_folder_though_it_has_no_slash(place: Place, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.root)
    found = train(Path("ledger-clerk"), Ledgers(), CONFIG, target=SIMULATION, optimizer=SIMULATION, store=store)
    assert found.skill_path == str(place.skill)


def test_every_stage_that_a_run_tells_of_can_be_heard(place: Place) -> None:
    told: set[str] = set()
    with place.open() as workspace:
        place.add_tasks(workspace)
        run = start_run(workspace, "ledger-clerk", Config(epochs=3, batch=10, max_pairs=20, rescue=True))
        replay(workspace, run, lambda progress: told.add(progress.stage))
    assert told == set(get_args(StageName))


def test_a_worst_case_that_wants_to_exit_ends_no_program(place: Place, store: Path) -> None:
    class Leaving(Greeting):
        def worst_case(self) -> Usage:
            raise SystemExit(0)

    optimizer = Scripted(lambda _: PATCH, name="fixed")
    with pytest.raises(skillopt_mcp.BackendError, match="failed: SystemExit: 0"):
        train(place.skill, Leaving(), CONFIG, optimizer=optimizer, store=store, caps=Caps(tokens=10_000))


@pytest.mark.parametrize(
    ("usage", "caps"),
    [(Usage(-(10**6), 0, 0.0), Caps(tokens=3000)), (Usage(10, 10, float("nan")), Caps(usd=3.0))],
)
def test_a_worst_case_that_would_lift_a_cap_is_told_before_anything_is_asked(
    place: Place, store: Path, usage: Usage, caps: Caps
) -> None:
    class Boundless(Answering):
        asked = False

        def worst_case(self, call: Call) -> Usage:
            return usage

        async def complete(self, call: Call) -> object:
            self.asked = True
            return self.reply

    target = Boundless(Reply("x"))
    with pytest.raises(
        skillopt_mcp.BackendError, match="what 'worst_case' of the backend \"mine\" gave cannot be used"
    ):
        train(place.skill, Ledgers(), CONFIG, target=target, optimizer=SIMULATION, store=store, caps=caps)  # type: ignore[arg-type]
    assert not target.asked
