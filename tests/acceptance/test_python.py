"""The Python API: callables as backends, tasks from a program, caps, callbacks."""

from __future__ import annotations

import re

import pytest

import skillopt_mcp
from tests.acceptance.doors import CallableBackend, OwnInn, Workbench
from tests.acceptance.world import KINDS, advise_by_name, greet, lesson

SIZES = {"train": 8, "val": 8, "test": 16}
PLAIN: dict[str, object] = {"epochs": 3, "batch": 4, "slow_update": False, "meta_skill": False}


def own(seen: list[str]) -> CallableBackend:
    """Return the world as a user's function."""

    def answer(text: str, schema: str | None) -> str:
        seen.append(text)
        return advise_by_name(text, schema) if schema else greet(text, text)

    return CallableBackend(answer)


def test_train_with_callables(bench: Workbench) -> None:
    seen, stages = list[str](), list[str]()
    before = bench.live_text()
    backend = own(seen)
    done = bench.train(
        SIZES, PLAIN, target=backend, optimizer=backend,
        callbacks={"step": lambda progress: stages.append(progress.stage)},
    )  # fmt: skip
    assert (done.verdict, done["baseline"], done.solved, done["simulated"]) == ("better", 0.0, (0.0, 1.0), False)
    assert all(lesson(kind) in done["best_skill"] for kind in KINDS)
    assert len(stages) == len(done["steps"]) == 4
    assert done["n_sent"] == len(seen)
    assert bench.live_text() == before
    tested = bench.evaluate(done["candidate_id"], target=backend)
    assert (tested.verdict, done["n_sent"]) == ("better", len(seen))


def test_a_program_attempts_and_judges_its_own_tasks(bench: Workbench) -> None:
    seen = list[str]()
    inn = OwnInn(SIZES, lambda skill, prompt: greet(skill, prompt))
    done = bench.train(inn, PLAIN, optimizer=own(seen))
    assert (done.verdict, done.solved) == ("better", (0.0, 1.0))
    assert not any("(val " in text or "(test " in text for text in seen)


def test_a_cap_raises_and_the_same_call_goes_on(bench: Workbench, caplog: pytest.LogCaptureFixture) -> None:
    seen = list[str]()
    backend = own(seen)
    with pytest.raises(skillopt_mcp.CapReached) as stopped:
        bench.train(SIZES, PLAIN, target=backend, optimizer=backend, caps=skillopt_mcp.Caps(calls=33))
    assert len(seen) == 33
    [said] = caplog.messages
    assert re.fullmatch(
        r"The cap \(--max-calls 33\) reaches no verdict: the promotion test takes up to \d+ runs\.", said
    )
    done = bench.train(SIZES, PLAIN, target=backend, optimizer=backend, caps=skillopt_mcp.Caps(calls=500))
    assert (done["run_id"], done.verdict, done["n_sent"]) == (stopped.value.run_id, "better", len(seen))
    assert caplog.messages[1:] == [said.replace("33", "500").replace("no verdict", "a verdict")]


def test_a_callback_ends_the_search_and_the_best_is_proven(bench: Workbench) -> None:
    seen = list[str]()
    backend = own(seen)

    def watch(progress: skillopt_mcp.Progress) -> None:
        if progress.n_done == 2:
            raise skillopt_mcp.Stopped("two steps are enough")

    with pytest.raises(skillopt_mcp.Stopped) as stopped:
        bench.train(SIZES, PLAIN, target=backend, optimizer=backend, callbacks={"step": watch})
    assert stopped.value.run_id
    assert bench.evaluate(stopped.value.run_id, target=backend).verdict == "better"


def test_an_exception_of_a_callback_stops_the_run_which_goes_on(bench: Workbench) -> None:
    seen = list[str]()
    backend = own(seen)

    def fail(_progress: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.train(SIZES, PLAIN, target=backend, optimizer=backend, callbacks={"step": fail})
    n_sent = len(seen)
    done = bench.train(SIZES, PLAIN, target=backend, optimizer=backend)
    assert (done["n_sent"], done.verdict) == (len(seen), "better")
    assert n_sent < len(seen)


def test_a_setting_that_cannot_be_is_refused_before_anything_is_asked(bench: Workbench) -> None:
    seen, refused = list[str](), dict[str, object](epochs=0, batch="many", nonsense=1, metric="luck")
    for name, value in refused.items():
        with pytest.raises(skillopt_mcp.BadInput):
            bench.train(SIZES, {name: value}, target=own(seen), optimizer=own(seen))
    assert seen == []
